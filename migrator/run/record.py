"""What the sets themselves do not tell about a migration: a few hundred bytes, in an annotation of our own Lease.

A stored value is the old hash or the new one of its own field, and both follow from the spec, so a rerun needs no
memory of what was written, and a revert is a migration in the other direction. The record tells that a run has not
ended, of which schemes it is, and what the operator was like that it stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum, auto

from migrator.errors import UnknownScheme, Unreadable
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.options import AUTO
from migrator.releases.table import named
from migrator.run.leases import OWN_LEASE

FORMAT = 7


@dataclass(frozen=True, slots=True)
class OperatorBefore:
    """The operator's Deployment as a run stopped it."""

    replicas: int
    image: str
    uid: str


class State(StrEnum):
    """How far a run got."""

    STOPPING = auto()  # nothing was written to a set
    WRITING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Record:
    """One run. ``source`` and ``target`` are as requested; ``scheme`` is the source that explains every set, if any.

    ``started`` is when the last run that has written began: this one, once it writes. Without one, when this one began.
    ``operator`` is the Deployment of the old hashes, as a run stopped it, and ``stopped`` what this run itself stopped.
    ``elects``: it elected its leader by its Lease. ``repeats``: an earlier run to the same target had ended with 0.
    ``error`` is why the run ended, if it failed.
    """

    run: str
    version: str
    source: str
    target: str
    started: datetime
    state: State = State.STOPPING
    scheme: str = ""
    revert: bool = False
    elects: bool = True
    operator: OperatorBefore | None = None
    stopped: OperatorBefore | None = None
    repeats: bool = False
    error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the run did not end."""
        return self.state is not State.DONE

    def __str__(self) -> str:
        """What became of it, in words."""
        kind = "revert of the run" if self.revert else "run"
        fate = {
            State.STOPPING: "did not end, and has written nothing",
            State.WRITING: "did not end, and may have written",
        }
        source = "" if self.source == AUTO else f"from {self.source} "
        began = "" if self.state is State.STOPPING else f"that began at {self.started:%Y-%m-%d %H:%M} UTC "
        return f"the {kind} {source}to {self.target} {began}{fate.get(self.state, 'has ended')}"

    @property
    def source_scheme(self) -> Scheme | None:
        """The source that explains every set."""
        return schemes.by_name(self.scheme) if self.scheme else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags with which the same run is begun again."""
        return self.flags_to("--to", self.target)

    def flags_to(self, *target: str) -> tuple[str, ...]:
        """The same with the flags of its target as they are given."""
        source = () if self.source == AUTO else ("--from", self.source)
        return (*source, *target, *(("--revert",) if self.revert else ()))

    def text(self) -> str:
        """As it is stored."""
        values = {"format": FORMAT, **asdict(self), "started": self.started.astimezone(UTC).isoformat()}
        return json.dumps(values, separators=(",", ":"))


def parse(text: str, namespace: str) -> Record | None:
    """The record; ``None`` without one. What exists and cannot be understood proves a run, and is ``Unreadable``.

    A finished record of another format counts as none.
    """
    if not text:
        return None
    try:
        values = json.loads(text)
        if values["state"] == State.DONE and values["format"] != FORMAT:
            return None  # that run is over, whichever version wrote it
        if (found := values.pop("format")) != FORMAT:
            raise ValueError(f"it has format {found}, and this version reads format {FORMAT} only")  # noqa: TRY301
        for name in ("operator", "stopped"):
            if values[name] is not None:
                values[name] = OperatorBefore(**values[name])
        values |= {"started": datetime.fromisoformat(values["started"]), "state": State(values["state"])}
        return _checked(Record(**values))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UnknownScheme) as error:
        raise Unreadable(
            f"the record in an annotation of Lease {namespace}/{OWN_LEASE} cannot be read: {error}. Run the version of "
            "grove-migrator that wrote it; only if no migration is under way, delete it: "
            f"kubectl -n {namespace} delete lease {OWN_LEASE}"
        ) from error


def _checked(record: Record) -> Record:
    """The record, if all that is used later is of its type; raises ``TypeError`` or what an unknown scheme raises."""
    texts = [record.run, record.version, record.source, record.target, record.scheme, record.error]
    flags = [record.revert, record.elects, record.repeats]
    for was in filter(None, (record.operator, record.stopped)):
        texts += [was.image, was.uid]
        if type(was.replicas) is not int:
            raise TypeError("replicas is no number")
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(flag, bool) for flag in flags):
        raise TypeError("a field is of a wrong type")
    if record.started.tzinfo is None:
        raise TypeError("started has no time zone")
    if record.scheme:
        schemes.by_name(record.scheme)
    if record.is_open:  # then messages and the next commands name these
        sources = [] if record.source == AUTO else [("source", record.source)]
        for what, name in (("target", record.target), *sources):
            try:
                named(name)
            except UnknownScheme:
                raise ValueError(f"this version does not know its {what} {name}") from None
    return record
