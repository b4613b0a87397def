"""Progress of long stages: on a terminal that somebody watches, and nowhere else."""

from __future__ import annotations

import io

import pytest

from migrator.cli import progress
from migrator.resources import LEASES, PODS, Op
from migrator.store import DryRun, Store
from tests.support.command_line import DUMP, TO, Invoke
from tests.support.memory_store import MemoryStore
from tests.support.tables import table
from tests.support.terminal import Watched as Terminal
from tests.support.terminal import show

LABELLED = (Op("add", "/metadata/labels", {"a": "b"}),)


class Gone(Terminal):
    """A terminal whose window was closed."""

    def write(self, _: str) -> int:
        """Nobody is there any more."""
        raise OSError(5, "Input/output error")


def pods(number: int) -> MemoryStore:
    """A cluster of pods, and a Lease."""
    store = MemoryStore()
    for index in range(number):
        store.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": f"pod-{index}"}})
    store.put(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "a", "name": "lease"}}
    )
    return store


def relabel(store: Store, number: int) -> None:
    """Patch that many pods."""
    for index in range(number):
        store.patch(PODS, "a", f"pod-{index}", LABELLED)


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody watches: this is not CI, and the terminal is a good one."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)


@table(
    "stream environ",
    ("A pipe or a file is not watched.", (io.StringIO(), {})),
    ("A dumb terminal cannot move its cursor.", (Terminal(), {"TERM": "dumb"})),
    ("A log of CI is read afterwards.", (Terminal(), {"CI": "true"})),
)
def test_nobody_watching_costs_nothing(
    stream: io.StringIO, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the store is the very store, the log's stream the very stream, and nothing is written."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    store = pods(1)
    with progress.Progress(stream) as shown, shown.stage("reading") as count:
        count()
        assert shown.stream is stream
        assert shown.watch(store) is store
    assert stream.getvalue() == ""


def test_reading_is_counted_and_gone_when_it_is_over() -> None:
    """What a page of a list brings is counted at once; the cursor comes back, and the line is erased."""
    stream = Terminal()
    with progress.Progress(stream) as shown:
        watched = shown.watch(pods(3))
        names = watched.list(PODS, lambda pod: (shown._bars.refresh(), pod["metadata"]["name"])[1], metadata_only=True)
        seen = [f"reading pods {number}" in stream.getvalue() for number in (1, 2, 3)]
    assert names == ("pod-0", "pod-1", "pod-2")
    assert seen == [True, True, True]
    assert stream.getvalue().rstrip("\r").endswith("\x1b[2K\x1b[?25h")


@pytest.mark.parametrize(
    ("expected", "said"), [(0, "patches sent 8"), (9, "patches sent 8 of 9"), (5, "patches sent 8")]
)
def test_patches_are_counted_and_neither_the_lease_nor_probes_are(expected: int, said: str) -> None:
    """A stream of patches is progress; renewals of the Lease and dry runs are not. A wrong number is not printed."""
    stream = Terminal()
    with progress.Progress(stream) as shown:
        shown.expected = expected
        watched = shown.watch(pods(8)).within(lambda: 1.0)
        relabel(watched, 8)
        watched.patch(LEASES, "a", "lease", LABELLED)
        watched.in_dry_run(DryRun.SERVER).patch(PODS, "a", "pod-0", LABELLED)
        assert [task.description for task in shown._bars.tasks] == [said]


def test_the_watched_store_is_the_store() -> None:
    """Everything else passes through, both ways."""
    store = pods(1)
    with progress.Progress(Terminal()) as shown:
        watched = shown.watch(store)
        assert (watched.is_cluster, watched.dry_run) == (store.is_cluster, store.dry_run)
        assert watched.in_dry_run(DryRun.CLIENT).dry_run is DryRun.CLIENT
        made = watched.create(PODS, "a", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}})
        assert watched.get(PODS, "a", "new") == made
        watched.delete(PODS, "a", "new", made["metadata"]["uid"])
    assert [body["metadata"]["name"] for body in store.everything(PODS)] == ["pod-0"]


def test_log_lines_appear_whole_above_the_progress() -> None:
    """A line is not broken to the terminal's width and not mixed with a bar: it can be copied."""
    stream, line = Terminal(), "warning: " + "x" * 300
    with progress.Progress(stream) as shown, shown.stage("reading"):
        shown.stream.write(f"{line}\n")
    assert f"{line}\n" in stream.getvalue()
    shown.stream.write("afterwards\n")
    assert stream.getvalue().endswith("afterwards\n")


def test_a_terminal_that_goes_away_stops_nothing() -> None:
    """Whatever becomes of the window, the run goes on."""
    with progress.Progress(Gone()) as shown, shown.stage("reading") as count:
        count()
        shown.stream.write("a line\n")
        assert shown.watch(pods(2)).list(PODS, lambda pod: pod["kind"]) == ("Pod", "Pod")


@pytest.mark.parametrize(("command", "code"), [("plan", 0), ("verify", 7), ("run --dry-run", 0)])
def test_a_command_shows_progress_on_stderr_and_data_on_stdout(command: str, code: int, invoke: Invoke) -> None:
    """With stderr on a terminal stdout is what it is without one, byte for byte, and so is the exit code."""
    typed = [*command.split(), "-f", str(DUMP), *TO]
    shown = show("migrator", typed, piped=True)
    assert (shown.code, shown.data) == (code, invoke(*typed, code=code).out)
    assert "\x1b[?25l" in shown.raw, "the bar was drawn"


def test_names_of_files_are_no_markup() -> None:
    """A file may be called what it likes."""
    stream = Terminal()
    with progress.Progress(stream) as shown, shown.stage("migrating [bold]x[/nonsense].yaml"):
        pass
    assert "[bold]x[/nonsense].yaml" in stream.getvalue()
