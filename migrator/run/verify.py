"""Reading back: every verdict derives from one snapshot, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from migrator import words
from migrator.cluster import Cluster
from migrator.grove.objects import Ref
from migrator.grove.places import stored_hashes
from migrator.planning import crds, verification
from migrator.planning.guards.updates import IN_FLIGHT
from migrator.planning.model import Finding, Severity
from migrator.run import leases, operator, webhooks
from migrator.run.context import Context, RunOptions
from migrator.run.record import Record
from migrator.run.seen import is_same_target, look_at_records, unplanned
from migrator.run.snapshot import read_snapshot

_INTERVAL: Final = 2.0  # seconds between two readings

#: An operator that was restarted must run so long before it counts as ready: controller-runtime ends one that waits in
#: vain for a kind (``pkg/config/controller.go:CacheSyncTimeout``) after two minutes.
_STEADY: Final = timedelta(minutes=3)

#: To wait does not help here: it costs more pods.
_REPLACES: Final = (
    "hashes of the old release are left, and the new operator may be replacing their pods now: the next command stops "
    "it, and keeps the pods that are left"
)


@dataclass(frozen=True, slots=True)
class VerifyOptions(RunOptions):
    """The options of ``verify``; ``wait`` is how long problems that may still settle are read again, in seconds."""

    after_upgrade: bool = False


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The last snapshot's verdict: it is verified if there are no ``problems``.

    ``older`` and ``younger`` count the live pods of the sets that nobody has edited since the migration, by its time;
    both are ``None`` without a record. ``resumes`` are the flags of the run that finishes one that did not end, or that
    keeps the pods which the new operator has not replaced yet, beside those of the target that is verified unless they
    name another one; ``None`` if there is no such run.
    """

    sets: int
    stored: int
    problems: tuple[verification.Problem, ...]
    noticed: tuple[verification.Problem, ...]  # what is no problem
    older: int | None
    younger: int | None
    resumes: tuple[str, ...] | None = None


def verify(cluster: Cluster, options: VerifyOptions, context: Context) -> VerifyResult:
    """Read until every stored hash is the target's or an OnDelete leftover; nothing is written.

    That ends with the problems of the last snapshot once ``wait`` is over or a problem cannot settle. With
    ``after_upgrade`` an operator of the target must run and no other, and an update that began since the run and is
    open, or has replaced pods, is a problem. Without a record of a run to this target only values and operators count.
    The record of a run that did not end is a problem at any time; one in another namespace than the operator's only
    until the operator is named, and nothing else is taken from it.
    """
    snapshot, seen = read_snapshot(cluster), replace(unplanned(options), found=operator.find(cluster, options.flags))
    found_records, seen = look_at_records(cluster, seen)
    of_target = (one for one in reversed(found_records) if options.after_upgrade and is_same_target(one, options))
    last = next(of_target, None)
    since, source = (last.started, last.source_scheme) if last is not None else (None, None)
    if options.after_upgrade and since is None:
        context.log.warning("no_record", consequence="it is not known when the run was: updates since are not judged")
    unfinished = [record for record in found_records if record.is_open]
    deadline, last_problems = context.clock() + options.wait, None
    for attempts in count(1):
        found = list(verification.problems_of(snapshot, options.plan.target.scheme, source=source, since=since))
        missed = any(problem.missed for problem in found)
        installation = operator.find(cluster, options.flags) if options.after_upgrade else operator.Found()
        found += _left_by_runs(unfinished, seen.of_witnesses(), installation)
        if options.after_upgrade:
            found += _of_operators(cluster, installation, options, context.now(), missed=missed)
            found += _of_webhooks(cluster)
        problems = tuple(problem for problem in found if not problem.late)
        event = "verify_failed" if problems else "verified"
        if problems != last_problems:
            context.log.info(event, attempt=attempts, problems=len(problems), trees=len(snapshot.trees))
        last_problems = problems
        settling = problems and all(problem.settles for problem in problems)
        if not settling or context.clock() + _INTERVAL > deadline:
            break
        context.sleep(_INTERVAL)
        snapshot = read_snapshot(cluster)
    noticed = tuple(problem for problem in found if problem.late)
    for problem in noticed:
        context.log.warning("noticed", object=str(problem.ref), what=problem.message)
    stored = sum(1 for tree in snapshot.trees for _ in stored_hashes(tree))
    older, younger = verification.ages_of(snapshot, since) if since is not None else (None, None)
    resumes = _resumes(unfinished, problems, options, parked=installation.parked)
    return VerifyResult(len(snapshot.trees), stored, problems, noticed, older, younger, resumes)


def _left_by_runs(
    unfinished: Iterable[Record], elsewhere: Iterable[Finding], installation: operator.Found
) -> Iterator[verification.Problem]:
    """Records of runs that did not end, here and elsewhere, and the operator's Lease that a run has parked."""
    lease = Ref("Lease", "", leases.OWN_LEASE)
    for record in unfinished:
        yield verification.Problem(lease, None, f"{record}: run it again", settles=False)
    for finding in elsewhere:  # anybody may have written such a Lease: no command follows it
        late = finding.severity is Severity.WARNING
        yield verification.Problem(lease, None, str(finding), settles=False, late=late)
    if installation.parked:
        parked = Ref("Lease", installation.home or "", leases.OPERATOR_LEASE)
        yield verification.Problem(parked, None, f"{leases.WAITS}: run again", settles=False)


def _resumes(
    unfinished: Sequence[Record], problems: Sequence[verification.Problem], options: VerifyOptions, *, parked: bool
) -> tuple[str, ...] | None:
    """See :class:`VerifyResult`."""
    if unfinished:
        newest = unfinished[-1]
        if not is_same_target(newest, options):
            return newest.flags
        # Old hashes beside the target's operator would cost their pods.
        return (replace(newest, revert=False) if options.after_upgrade else newest).flags_to()
    if any(problem.missed and not problem.field for problem in problems):
        return ("--allow", IN_FLIGHT.code)
    is_refused = any(problem.field and not problem.missed for problem in problems)
    return () if parked and not is_refused else None


def _of_webhooks(cluster: Cluster) -> Iterator[verification.Problem]:
    """What is to be noticed: webhooks that a run has opened for itself, and nobody has closed."""
    for one in webhooks.read(cluster):
        if one.ours:
            message = f"webhook {one.name} still leaves an account of grove-migrator out: run again, or remove that"
            ref = Ref("ValidatingWebhookConfiguration", "", one.configuration)
            yield verification.Problem(ref, None, f"{message} matchCondition", late=True)


def _of_operators(
    cluster: Cluster, found: operator.Found, options: VerifyOptions, now: datetime, *, missed: bool
) -> Iterator[verification.Problem]:
    """The problems that no operator of the target runs, or that another one does.

    ``missed``: hashes of the source are left, for which the target's operator would replace pods.
    """
    yield from crds.problems_of(options.plan.target, cluster.short_names(crds.GROUP))
    installed = found.operator
    name = (installed.deployment if installed else options.flags.deployment) or "grove-operator"
    ref = Ref("Deployment", installed.namespace if installed else "", name)
    what = f"beside the operator of {options.plan.target}"
    for other, image in found.others.items():
        if not options.is_target(image):
            yield verification.Problem(ref, None, f"{other} runs {image} {what}: scale it to zero, or remove it")
    pods = [pod for pod in installed.pods if not pod.terminating] if installed is not None else []
    again = [pod for pod in pods if pod.restarted is not None and now - pod.restarted < _STEADY]
    if any(options.is_upgraded(pod.image) for pod in pods if pod.ready and pod not in again):
        others = [pod for pod in pods if not options.is_target(pod.image)]
        yield from (verification.Problem(pod.ref, None, f"{pod} runs {what}") for pod in others)
        if missed and not found.parked:
            yield verification.Problem(ref, None, _REPLACES, settles=False, missed=True)
        return
    seen = installed.description if installed else "there is none"
    # Not "upgrade": where the sets are not migrated yet, that would recreate their pods.
    remedy = "follow the commands of `grove-migrator plan`, or name its image with --target-image"
    commands = tuple[str, ...]()
    at_zero = installed is not None and bool(installed.deployment) and not installed.replicas
    if installed and at_zero and options.is_upgraded(installed.image) and not missed:
        remedy, commands = "start it", (installed.start_command,)
    elif again:
        pod, often = again[0], words.count(again[0].restarts, "time")
        remedy = f"{pod} has restarted {often}, and again at {pod.restarted:%H:%M:%S} UTC; see why, and verify again"
    elif installed and any(map(options.is_upgraded, installed.images)):
        remedy = "its pods do not run or are not ready; see why, and verify again"
    message = f"no operator of {options.plan.target} runs ({seen}): {remedy}"
    yield verification.Problem(ref, None, message, commands=commands)
