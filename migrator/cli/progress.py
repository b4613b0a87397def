"""Progress of long stages, on a terminal only: objects that were read, and patches that were sent.

It is drawn on stderr and erased when the stage is over. Log lines appear above it. An error of the terminal does not
stop the run. Nothing is drawn into pipes, files or CI.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar, cast

from migrator.resources import POD_CLIQUES, POD_GANGS, PODS
from migrator.store import DryRun

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from migrator.errors import MigratorError
    from migrator.exact_json import JSONObject
    from migrator.resources import Resource
    from migrator.store import Listing, Store, Write

K = TypeVar("K")
T = TypeVar("T")
Count = Callable[[], object]

#: Patches of these groups are counted, and those of pods.
_GROUPS: Final = frozenset({POD_CLIQUES.group, POD_GANGS.group})

_PATCHES: Final = {
    DryRun.NONE: "patches sent",
    DryRun.CLIENT: "patches planned",
    DryRun.SERVER: "patches tried",
}


def wanted(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether somebody watches: the stream is a terminal that can move its cursor, and this is not CI."""
    environ = os.environ if environ is None else environ
    return stream.isatty() and environ.get("TERM") != "dumb" and not environ.get("CI")


class Silent:
    """Shows nothing. ``stream`` is where log lines go, during the ``with`` block and outside it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is on the terminal."""

    def stage(self, what: str) -> AbstractContextManager[Count]:  # noqa: ARG002 - nobody watches
        """Show a stage while it lasts; each call of the returned function counts one thing done."""
        return nullcontext(lambda: None)

    def watch(self, store: Store) -> Store:
        """The same store, whose reading and writing is shown."""
        return store

    def expect(self, patches: int) -> None:
        """So many patches are going to be sent."""


class Shown(Silent):
    """Shows stages on a terminal, with what they count and how long they take."""

    def __init__(self, bars: Bars) -> None:
        super().__init__(cast("TextIO", _Above(bars)))
        self._bars = bars
        self._patches: tuple[TaskID, Iterator[int]] | None = None
        self._expected = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def _stage(self, what: str) -> Iterator[Count]:
        task = self._bars.add_task(what, total=None)
        numbers = itertools.count(1)
        try:
            yield lambda: self._bars.update(task, description=f"{what} {next(numbers):,}")
        finally:
            self._bars.remove_task(task)

    def stage(self, what: str) -> AbstractContextManager[Count]:
        """Show a stage while it lasts; each call of the returned function counts one thing done."""
        return self._stage(what)

    def watch(self, store: Store) -> Store:
        """The same store, whose reading and writing is shown."""
        return cast("Store", _Watched(store, self))

    def expect(self, patches: int) -> None:
        """So many patches are going to be sent: they get a bar."""
        self._expected = patches

    def patched(self, mode: DryRun) -> None:
        """Count a patch of that mode; several threads send them. Patches that nobody expected have no bar."""
        with self._lock:
            if self._patches is None:
                self._patches = (self._bars.add_task("", total=self._expected or None), itertools.count(1))
            task, numbers = self._patches
            number = next(numbers)
            of = f" of {self._expected:,}" if number <= self._expected else ""
            self._bars.update(task, description=f"{_PATCHES[mode]} {number:,}{of}", completed=number)


def shown(stream: TextIO, environ: Mapping[str, str] | None = None, *, quiet: bool = False) -> Silent:
    """Progress on this stream while its ``with`` block lasts; nothing is shown where nobody watches."""
    if quiet or not wanted(stream, environ):
        return Silent(stream)
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class KnownBar(BarColumn):
        """A bar where it is known how much there is, and nothing elsewhere."""

        def render(self, task: Task) -> RenderableType:  # type: ignore[override] # what a Progress takes
            return super().render(task) if task.total else Text("")

    console = Console(file=cast("TextIO", _Unbreakable(stream)))
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), KnownBar(), TimeElapsedColumn())
    # stdout is data, so that rich must not redirect it.
    return Shown(Bars(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False))


class _Unbreakable:
    """A terminal for rich; if it goes away, writing is not an error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return True


class _Above:
    """A terminal for log lines: each appears above the progress and is not wrapped."""

    def __init__(self, bars: Bars) -> None:
        self._console = bars.console

    def write(self, text: str) -> int:
        from rich.text import Text  # noqa: PLC0415 - only a terminal needs it

        self._console.print(Text.from_ansi(text.removesuffix("\n")), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        """Every line is flushed as it is written."""

    def isatty(self) -> bool:
        return True


class _Watched:
    """A store that reports lists and patches to a :class:`Shown`; the rest is the store's own."""

    def __init__(self, store: Store, progress: Shown) -> None:
        self._store = store
        self._progress = progress

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the store's
        return getattr(self._store, name)

    def in_dry_run(self, mode: DryRun) -> Store:
        found = self._store.in_dry_run(mode)
        # Probes that a run sends beside its own patches are not progress.
        return cast("Store", _Watched(found, self._progress)) if mode is self._store.dry_run else found

    def within(self, left: Callable[[], float]) -> Store:
        return cast("Store", _Watched(self._store.within(left), self._progress))

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        **options: Any,  # noqa: ANN401 - the store's
    ) -> Listing[T]:
        with self._progress.stage(f"reading {resource.plural}") as count:

            def counted(raw: JSONObject) -> T:
                count()
                return project(raw)

            return self._store.list(resource, counted, **options)

    def patch(self, resource: Resource, *what: Any, **options: Any) -> JSONObject:  # noqa: ANN401 - the store's
        done = self._store.patch(resource, *what, **options)
        if resource == PODS or resource.group in _GROUPS:  # not the Lease, which is renewed all the time
            self._progress.patched(self._store.dry_run)
        return done

    def patches(
        self, take: Callable[[], tuple[K, Write] | None], *, at_once: int
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        with closing(self._store.patches(take, at_once=at_once)) as outcomes:
            for key, error in outcomes:
                if error is None:
                    self._progress.patched(self._store.dry_run)
                yield key, error
