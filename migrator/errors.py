"""Every error that ends a command, with its exit code and a stable reason code.

Most are raised as they are found, before anything is known about the cluster. A run that has begun looks at the cluster
before it ends, and :func:`migrator.run.migration.run` raises what is true: if nothing was written the error keeps its
class, otherwise it is the cause of ``HalfWay`` or ``Reverted``.
"""

from __future__ import annotations

import traceback
from typing import ClassVar, Final, Self

#: What exit code 6 means, and what to do; a run that knows more leaves out or adds a part.
MAY_DIFFER: Final = "Some sets may hold new hashes and others old ones."
STAY_AT_ZERO: Final = "Keep the operator at zero replicas."
AGAIN, OR_REVERT = "Run the same command again", ", or add `--revert`"
HALF_WAY: Final = f"{MAY_DIFFER} {STAY_AT_ZERO} {AGAIN}{OR_REVERT}"
#: What a run in a pod adds: the Job does not know of a revert from elsewhere.
DELETE_JOB: Final = ". Before a revert, delete the Job: its next attempt would migrate again"
#: What is next if only an operator could end a refusal, for which every set must have its old hashes.
UNDO_FIRST: Final = "Undo the run with `--revert`, let the old operator end what blocks it, and run again"

#: Makes a dump: pods and every kind of Grove that the cluster has. ``kubectl get`` fails for a kind that it lacks
#: (podgangmaps in most releases before alpha.12).
DUMP_COMMAND: Final = (
    "kubectl get pods,$(kubectl api-resources --verbs=list -o name | grep 'grove.io$' | paste -sd, -) -A -o yaml"
)
#: What to do about a dump that is not what kubectl prints.
DUMP_AGAIN: Final = "it seems to be cut off, or to hold messages of kubectl; dump again, and keep stderr apart"

#: What each exit code says: the one home of these sentences, from which `--help` and docs/cli.md take them.
EXIT_CODES: Final = {
    0: "Done, or nothing to do.",
    1: "Nothing is changed: a permission is missing, you ended the command, or there is a bug. `plan`, "
    "`verify` and `run --dry-run` also: the API server does not answer. Remove the cause, and try again.",
    2: "Wrong flags or input. Nothing was done.",
    3: "Refused, or every hash was put back. Do not upgrade yet: fix the cause that the message names.",
    6: f"{HALF_WAY}.",
    7: "`verify` only: verification failed.",
    10: "`plan --detailed-exitcode` only: changes pending, no refusal.",
}


class MigratorError(Exception):
    """The end of a command; ``str(error)`` is one clear sentence for a person.

    A class has the exit code and the reason ``code`` of its parent, unless it names others. A program decides by data:
    the class, ``code``, and ``details``, as far as they are known: ``guard`` (its code, GM-nnn, which begins the
    sentence), ``object`` and ``field`` (a JSON Pointer). ``result`` is the end of the sentence: what the cluster is
    like now, and what is next.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"
    result: str = ""

    def __init_subclass__(cls, *, code: str = "", exit_code: int = 0) -> None:
        super().__init_subclass__()
        cls.code, cls.exit_code = code or cls.code, exit_code or cls.exit_code

    def __init__(self, message: str, *, guard: str = "", ref: object = None, field: str | None = None) -> None:
        super().__init__(f"{guard}: {message}" if guard else message)
        known = {"guard": guard, "object": str(ref or ""), "field": field}
        self.details = {key: value for key, value in known.items() if value}

    def ending(self, result: str) -> Self:
        """The same error, with a ``result``."""
        self.result = result
        return self

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said.removesuffix('.')}. {self.result}" if self.result else said


class ClusterError(MigratorError, code="cluster-error"):
    """The cluster did not do what was asked."""


class Unreachable(ClusterError, code="unreachable"):
    """The API server gave no answer, or only transient failures, within the bounds."""


class NotAuthorised(ClusterError, code="not-authorised"):
    """401, 403, or no usable credentials."""


class Forbidden(NotAuthorised):
    """403: the credentials are good, and a permission is missing."""


class ApiError(ClusterError, code="api-error"):
    """An answer of the API server other than success."""


class Expired(ApiError):
    """410: the server does not have the rest of this list any more."""


class NotFound(ApiError, code="not-found"):
    """404: the object, or the resource itself, does not exist."""


class AlreadyExists(ApiError, code="already-exists"):
    """409 with reason AlreadyExists, the answer to a create."""


class Conflict(ApiError, code="conflict"):
    """409 with any other reason: somebody else wrote first."""


class TestFailed(ApiError, code="test-failed"):
    """422 with empty ``details``: a ``test`` of the JSON Patch failed and nothing was written."""

    __test__ = False  # pytest collects classes by this prefix


class Rejected(ApiError, code="rejected"):
    """422 with causes, or a denial by admission; ``denied_by`` names the webhook or policy that stopped it."""

    def __init__(self, message: str, *, denied_by: str = "") -> None:
        super().__init__(message)
        self.denied_by = denied_by


class LostReply(MigratorError, code="lost-reply"):
    """The request was sent and no answer came: only a read shows whether it was applied."""


class Interrupted(MigratorError, code="interrupted"):
    """The run was asked to end, or its time was over."""


class Bug(MigratorError, code="bug"):
    """A fault of grove-migrator itself."""


def bug(error: BaseException) -> Bug:
    """What is said of any other error: not its own text, which may quote a value of somebody's pod template."""
    where = traceback.extract_tb(error.__traceback__)
    place = f" at {where[-1].filename.rpartition('/')[2]}:{where[-1].lineno}" if where else ""
    return Bug(f"this is a bug, please report it: {type(error).__name__}{place}")


def said(error: BaseException) -> str:
    """What an error says, without its last full stop."""
    if isinstance(error, MigratorError):
        return str(error).removesuffix(".")
    return "interrupted" if isinstance(error, KeyboardInterrupt) else str(bug(error))


class Declined(MigratorError, code="declined"):
    """The user answered no."""


class OutputError(MigratorError, code="unwritable-output"):
    """The output cannot be written to the file or stream that was named."""


class UsageError(MigratorError, code="usage", exit_code=2):
    """Flags or input are wrong; nothing was done."""


class UnknownScheme(UsageError, code="unknown-scheme"):
    """Neither a scheme nor a release in the table."""


class InputError(UsageError, code="unreadable-input"):
    """A file cannot be read or is not what ``kubectl get`` prints, or an object has the wrong shape."""


class DecodeError(InputError, code="undecodable-input"):
    """Go would not decode this value into the operator's structs, or its hash cannot be computed here.

    ``steps`` are the keys and positions of the value, and ``path`` spells them, for instance
    ``spec.template.cliques[0].spec.podSpec.containers[1].image``.
    """

    def __init__(self, message: str, *steps: str | int) -> None:
        spelt = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        self.message, self.steps, self.path = message, steps, "".join(spelt).removeprefix(".")
        super().__init__(f"{self.path}: {message}" if steps else message)

    def within(self, *steps: str | int) -> DecodeError:
        """The same error, of a value that contains this one, at these steps."""
        return DecodeError(self.message, *steps, *self.steps)


class IncompleteDump(UsageError, code="incomplete-dump"):
    """A dump lacks objects that its PodCliqueSets must have."""


class Refused(MigratorError, code="refused", exit_code=3):
    """The migration is refused, or was reverted: its cause must be fixed first."""


class ForeignOperator(Refused, code="foreign-operator"):
    """An operator runs that does not know the hashes or that no Lease keeps out, or there are several."""


class Reverted(Refused, code="reverted"):
    """A failure after the first write; everything that the run wrote was restored."""


class LostRace(MigratorError, code="lost-race"):
    """Another client changed the object or took the Lease first."""


class LeaseHeld(LostRace, code="lease-held"):
    """Another run, or an operator, holds a Lease that the run needs."""


class LeaseLost(MigratorError, code="lease-lost"):
    """The Lease was lost, so nothing more may be written."""


class HalfWay(MigratorError, code="half-way", exit_code=6):
    """Some sets may hold new hashes and others old ones, or nobody knows; :data:`HALF_WAY` says what to do."""


class Unreadable(HalfWay, code="unreadable-record"):
    """A record exists and cannot be understood."""


class VerificationFailed(MigratorError, code="verification-failed", exit_code=7):
    """Stored hashes are not the target's, or the upgrade did not go as it should."""
