"""Every error that ends a command, with its exit code and a stable reason code.

With 1 to 3 nothing has changed; 6 is half-way, or not known. A class has the exit code of its parent unless one is
drawn::

    MigratorError          1  try again
      ClusterError            the cluster did not do what was asked
        Unreachable, NotAuthorised (Forbidden)
        ApiError              an answer: Expired, NotFound, AlreadyExists, Conflict, TestFailed, Rejected
      LostReply               a request without an answer
      LostRace                another writer was faster: LeaseHeld, SetConflict
      LeaseLost               the Lease may be somebody else's: inside a run only, which ends with HalfWay
      Interrupted, Declined, OutputError
      UsageError           2  flags or input: UnknownScheme, InputError, DecodeError, IncompleteDump
      Refused              3  a person must look
        ForeignOperator       an operator that is not to run
        Reverted              the run has restored what it wrote
      HalfWay              6  keep the operator at zero replicas; run the same command again, or add `--revert`
        Unreadable            a record exists and cannot be understood
      VerificationFailed   7  of `verify`

Most are raised as they are found, before anything is known about the cluster. A run that has begun looks at the cluster
before it ends, and :func:`migrator.run.migration.run` raises what is true: if nothing was written the error keeps its
class, otherwise it is the cause of ``HalfWay`` or ``Reverted``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

#: What exit code 6 means, and what to do.
MAY_DIFFER: Final = "Some sets may hold new hashes and others old ones."
HALF_WAY: Final = f"{MAY_DIFFER} Keep the operator at zero replicas. Run the same command again, or add `--revert`"


class MigratorError(Exception):
    """The end of a command; ``str(error)`` is one clear sentence for a person.

    A program decides by data: the class, ``code``, and ``details``, as far as they are known: ``guard`` (its code,
    GM-nnn, which begins the sentence), ``object`` and ``field`` (a JSON Pointer).
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, guard: str = "", ref: object = None, field: str | None = None) -> None:
        super().__init__(f"{guard}: {message}" if guard else message)
        known = {"guard": guard, "object": str(ref or ""), "field": field}
        self.details = {key: value for key, value in known.items() if value}

    def ending(self, result: str) -> Self:
        """The same error, whose sentence also says what the cluster is like now and what is next."""
        self.args = (f"{str(self).removesuffix('.')}. {result}",)
        return self


class ClusterError(MigratorError):
    """The cluster did not do what was asked."""

    code = "cluster-error"


class Unreachable(ClusterError):
    """The API server gave no answer, or only transient failures, within the bounds."""

    code = "unreachable"


class NotAuthorised(ClusterError):
    """401, 403, or no usable credentials."""

    code = "not-authorised"


class Forbidden(NotAuthorised):
    """403: the credentials are good, and a permission is missing."""


class ApiError(ClusterError):
    """An answer of the API server other than success."""

    code = "api-error"


class Expired(ApiError):
    """410: the server does not have the rest of this list any more."""


class NotFound(ApiError):
    """404: the object, or the resource itself, does not exist."""

    code = "not-found"


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists, the answer to a create."""

    code = "already-exists"


class Conflict(ApiError):
    """409 with any other reason: somebody else wrote first."""

    code = "conflict"


class TestFailed(ApiError):
    """422 with empty ``details``: a ``test`` of the JSON Patch failed and nothing was written."""

    __test__ = False  # pytest collects classes by this prefix
    code = "test-failed"


class Rejected(ApiError):
    """422 with causes, or a denial by admission; ``denied_by`` names the webhook or policy that stopped it."""

    code = "rejected"

    def __init__(self, message: str, *, denied_by: str = "") -> None:
        super().__init__(message)
        self.denied_by = denied_by


class LostReply(MigratorError):
    """The request was sent and no answer came: only a read shows whether it was applied."""

    code = "lost-reply"


class Interrupted(MigratorError):
    """The run was asked to end, or its time was over."""

    code = "interrupted"


class Declined(MigratorError):
    """The user answered no."""

    code = "declined"


class OutputError(MigratorError):
    """The output cannot be written to the file or stream that was named."""

    code = "unwritable-output"


class UsageError(MigratorError):
    """Flags or input are wrong; nothing was done."""

    exit_code = 2
    code = "usage"


class UnknownScheme(UsageError):
    """Neither a scheme nor a release in the table."""

    code = "unknown-scheme"


class InputError(UsageError):
    """A file cannot be read or is not what ``kubectl get`` prints, or an object has the wrong shape."""

    code = "unreadable-input"


class DecodeError(InputError):
    """Go would not decode this value into the operator's structs, or its hash cannot be computed here.

    ``path`` names the value, for instance ``spec.template.cliques[0].spec.podSpec.containers[1].image``.
    """

    code = "undecodable-input"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.message = message
        self.path = path


class IncompleteDump(UsageError):
    """A dump lacks objects that its PodCliqueSets must have."""

    code = "incomplete-dump"


class Refused(MigratorError):
    """The migration is refused, or was reverted: a person must look."""

    exit_code = 3
    code = "refused"


class ForeignOperator(Refused):
    """An operator runs that does not know the hashes or that no Lease keeps out, or there are several."""

    code = "foreign-operator"


class Reverted(Refused):
    """A failure after the first write; everything that the run wrote was restored."""

    code = "reverted"


class LostRace(MigratorError):
    """Another writer was faster."""

    code = "lost-race"


class LeaseHeld(LostRace):
    """Another run, or an operator, holds a Lease that the run needs."""

    code = "lease-held"


class LeaseLost(MigratorError):
    """The Lease was lost, so nothing more may be written."""

    code = "lease-lost"


class HalfWay(MigratorError):
    """Some sets may hold new hashes and others old ones, or nobody knows; :data:`HALF_WAY` says what to do."""

    exit_code = 6
    code = "half-way"


class Unreadable(HalfWay):
    """A record exists and cannot be understood."""

    code = "unreadable-record"


class VerificationFailed(MigratorError):
    """Values are not the target's.

    ``problems`` are :class:`migrator.planning.verification.Problem` objects.
    """

    exit_code = 7
    code = "verification-failed"

    def __init__(self, message: str, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
