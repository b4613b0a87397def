"""What the error at the end of a run says: first the cause, then what the cluster is like now and what is next."""

from __future__ import annotations

import shlex
from typing import Final

from migrator.errors import HalfWay, Interrupted, MigratorError, NotAuthorised, Reverted
from migrator.planning.releases import release_in
from migrator.run.operator import Operator
from migrator.run.record import OperatorBefore, Recorded
from migrator.store import DryRun

#: What exit code 6 says if nothing could be read.
UNREAD: Final = (
    "Nothing could be read, so it is not known whether an earlier run left sets half-way: if there was one, keep the "
    "operator at zero replicas. Run the same command again"
)

#: What is next after an operator's Lease could not be released.
LOCKED_OUT: Final = (
    "The operator's Lease could not be released, so the operator waits for up to an hour. Run the same command again"
)

#: What is next for sets that are half-way while the target's operator runs.
BESIDE_TARGET: Final = (
    "Run again. If that is refused, let the target's operator run: it acts once its Lease is deleted, or after an hour"
)


def is_same(installed: Operator | None, was: OperatorBefore) -> bool:
    """Whether a Deployment is the one that was stopped: the same object, and the same image or release."""
    if installed is None or installed.uid != was.uid:
        return False
    release = release_in(was.image)
    return installed.image == was.image or (release is not None and release_in(installed.image) == release)


def changed(installed: Operator | None, was: OperatorBefore | None) -> str:
    """The sentence about a Deployment that is not the one that was stopped."""
    now = f"{installed} has {installed.image}" if installed is not None else "there is none"
    before = was.image if was is not None else "unknown"
    return (
        f"No stored hash is changed, but the operator is at zero and not the one that was stopped: it had {before}, "
        f"and now {now}. Start the old operator, or run again"
    )


def start_command(installed: Operator) -> str:
    """The command that starts an operator that is at zero."""
    name, namespace = shlex.quote(f"deployment/{installed.deployment}"), shlex.quote(installed.namespace)
    return f"kubectl scale {name} -n {namespace} --replicas=1"


def scaled_up(installed: Operator) -> str:
    """The sentence about an operator that somebody starts during the run."""
    return (
        f"something scales the operator up again ({installed.evidence}), for instance GitOps or an autoscaler: pause "
        "it, or name the target's image with --target-image"
    )


def unchanged(error: BaseException) -> BaseException:
    """The error of a run that has left nothing in the cluster."""
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted("interrupted")
    if not isinstance(error, MigratorError) or error.exit_code >= HalfWay.exit_code:
        return error
    return error.ending("Nothing is changed; run again" if error.exit_code == 1 else "Nothing is changed")


def unread(error: MigratorError, mode: DryRun = DryRun.NONE) -> MigratorError:
    """The error of a run that could not read the cluster at all; that of a dry run, which leaves nothing, stays."""
    if mode is not DryRun.NONE:
        return error
    if isinstance(error, NotAuthorised):
        return error.ending(UNREAD)
    return HalfWay(f"{said(error)}. {UNREAD}")


def said(error: BaseException) -> str:
    """What an error says, without its last full stop."""
    if isinstance(error, MigratorError):
        return str(error).removesuffix(".")
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"


def reverted(error: BaseException, recorded: Recorded, gone: str) -> Reverted:
    """The error of a run that has restored everything that it wrote; ``gone`` are pods that were lost meanwhile."""
    run, sources = recorded.unfinished, sorted({table.source for table in recorded.of_open_run().values()})
    more = f"you can start an operator of {' or '.join(sources)}"
    if run is not None and any(table.run != run.run_id for table in recorded.tables):
        more = "what an earlier run wrote stays, so do not start the old operator"
    lost = f"; these pods are gone: {gone}" if gone else ""
    return Reverted(f"{said(error)}. Every old hash that this run replaced was restored{lost}: {more}")
