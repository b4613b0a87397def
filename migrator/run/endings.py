"""What the error at the end of a run says: first the cause, then what the cluster is like now and what is next."""

from __future__ import annotations

import shlex
from typing import Final

from migrator.errors import MAY_DIFFER, HalfWay, Interrupted, MigratorError, NotAuthorised, Reverted
from migrator.planning.model import SetState
from migrator.planning.planner import holds_target
from migrator.releases.quirks import compares_idle_sets
from migrator.releases.table import release_in
from migrator.run.operator import Operator
from migrator.run.record import OperatorBefore
from migrator.run.seen import Observation

#: What exit code 6 says if nothing could be read.
UNREAD: Final = (
    "Nothing could be read, so it is not known whether an earlier run left sets half-way: if there was one, keep the "
    "operator at zero replicas. Run the same command again"
)

#: What is next after an operator's Lease could not be released.
LOCKED_OUT: Final = (
    "The operator's Lease could not be released, so an operator that starts waits for up to an hour from its own "
    "start. Run the same command again"
)


#: What is next for sets that are half-way where the target's operator has been installed.
BESIDE_TARGET: Final = (
    "Run again. If that is refused, let the target's operator run: scale it up, and delete its Lease if that is parked"
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


def scaled_up(installed: Operator | None) -> str:
    """The sentence about an operator that somebody starts during the run."""
    what = installed.evidence if installed is not None else "it has no Deployment any more"
    return (
        f"something scales the operator up again ({what}), for instance GitOps or an autoscaler: pause "
        "it, or name the target's image with --target-image"
    )


def half_way(error: BaseException, next_step: str) -> HalfWay:
    """The error for what is half-way, or not known."""
    true = HalfWay(f"{said(error)}. {next_step}")
    true.details = getattr(error, "details", {})
    return true


def next_step(seen: Observation, *, revert: bool) -> str:
    """What the sets are like after the last reading, and what is next: never more than was seen."""
    plans = [one for one in seen.plan.set_plans if one.source_hashes is not None]
    begun = any(one.state is SetState.DONE or holds_target(one) for one in plans)
    left = any(one.changes for one in plans)
    held = MAY_DIFFER
    if plans and begun != left:
        held = f"No stored hash is {'a new' if begun == revert else 'an old'} one."
    release = release_in(seen.operator.image) if seen.operator is not None else None
    at_once = release is None or compares_idle_sets((release.name,))
    alone = " Until the revert has ended, only that protects the pods." if revert and at_once else ""
    back = "" if revert else ", or add `--revert`"
    return f"{held} Keep the operator at zero replicas.{alone} Run the same command again{back}"


def unchanged(error: BaseException) -> BaseException:
    """The error of a run that has left nothing in the cluster."""
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted("interrupted")
    if not isinstance(error, MigratorError) or error.exit_code >= HalfWay.exit_code:
        return error
    return error.ending("Nothing is changed; run again" if error.exit_code == 1 else "Nothing is changed")


def unread(error: MigratorError, *, dry_run: bool = False) -> MigratorError:
    """The error of a run that could not read the cluster at all; that of a dry run, which leaves nothing, stays."""
    if dry_run:
        return error
    if isinstance(error, NotAuthorised):
        return error.ending(UNREAD)
    return HalfWay(f"{said(error)}. {UNREAD}")


def said(error: BaseException) -> str:
    """What an error says, without its last full stop."""
    if isinstance(error, MigratorError):
        return str(error).removesuffix(".")
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"


def reverted(error: BaseException, scheme: str) -> Reverted:
    """The error of a run that has restored every old hash."""
    return Reverted(f"{said(error)}. Every old hash was restored: you can start an operator of {scheme}")
