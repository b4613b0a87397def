"""What is in the cluster now, as one value: the operator, the record, and the sets with what is to be done to them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from migrator import errors
from migrator.cluster import Cluster
from migrator.grove import objects
from migrator.planning import model, planner, webhooks
from migrator.planning.guards import operators
from migrator.planning.patches import Batch, Patch, commit, forward, patch_count, rest
from migrator.planning.webhooks import Webhook
from migrator.releases.table import Release, named, release_in
from migrator.run import leases, operator
from migrator.run import webhooks as changing
from migrator.run.context import RunOptions
from migrator.run.leases import Lease
from migrator.run.operator import Found, Operator
from migrator.run.record import Record, State, parse
from migrator.run.snapshot import read_snapshot
from migrator.words import as_name, count


class Witness(NamedTuple):
    """A Lease of ours in another namespace that shows a run which may not have ended."""

    namespace: str
    what: str
    may_have_written: bool


@dataclass(frozen=True)
class Observation:
    """The newest reading of operator and record, and of the sets: ``trees`` that exist, and the ``plan`` for them.

    ``possible_hashes`` are what the last search for hashes in unknown places found. ``dirty``: an earlier run may have
    written. ``begun``: the uids of the sets that this run writes. ``elsewhere``: our Leases in other namespaces.
    """

    options: RunOptions
    plan: model.Plan
    found: Found = field(default_factory=Found)
    record: Record | None = None
    trees: tuple[objects.Tree, ...] = ()
    possible_hashes: Mapping[str, Sequence[objects.PossibleHash]] = field(default_factory=dict)
    dirty: bool = False
    begun: frozenset[str] = frozenset()
    elsewhere: Mapping[str, Lease] = field(default_factory=dict)
    webhooks: tuple[Webhook, ...] = ()
    account: str = ""

    @property
    def operator(self) -> Operator | None:
        """The installation, if there is one."""
        return self.found.operator

    @property
    def open_record(self) -> Record | None:
        """The record of a run that did not end: this one, or one that died."""
        return self.record if self.record is not None and self.record.is_open else None

    @property
    def writing_record(self) -> Record | None:
        """The record of a run that did not end and may have written."""
        return self.open_record if self.open_record is not None and self.open_record.state is State.WRITING else None

    @property
    def last_run(self) -> Record | None:
        """The record of the last run, open or not, if that was to the target that is asked for now."""
        return self.record if self.record is not None and is_same_target(self.record, self.options) else None

    @property
    def elects(self) -> bool:
        """Whether the operator waits for its Lease, as far as it is known.

        While its Lease is parked nothing shows that; the run that parked it has recorded what it saw. An operator that
        is installed later may not wait for it.
        """
        run, installed = self.record, self.operator
        unseen = installed is None or not installed.pods
        if run is not None and (self.parked or (run.is_open and unseen)):
            return run.elects
        return installed is not None and installed.elects

    @property
    def acts(self) -> bool:
        """Whether an operator may act: it runs, and no Lease that we hold keeps it out."""
        ours = self.operator is not None and self.operator.live and not (self.elects and self.parked)
        return ours or bool(self.found.others)

    @property
    def parked(self) -> bool:
        """Whether the operator's Lease is parked: a run may have written, even if it left no record."""
        return self.found.parked

    @property
    def wrong_operator(self) -> bool:
        """Whether an operator runs that does not know the hashes with which the run ends."""
        installed, targets = self.operator, self.options.is_target
        images = {*self.found.others.values(), *(installed.images if installed and installed.live else ())}
        if self.options.revert:
            return any(map(targets, images))
        return not all(map(targets, images)) and (self.open_record is not None or self.parked)

    @property
    def too_early(self) -> str:
        """Why an operator that starts now would delete pods that serve (GM-314); empty if it would not."""
        over_full = next((one.ref for tree in self.trees for one in tree.staying if one.is_over_full), None)
        return f"pods of {over_full} are being deleted: an operator that starts deletes others" if over_full else ""

    @cached_property
    def phases(self) -> list[list[Batch]]:
        """The patches of the plan, set by set; no set is begun in one phase before all are written in the one before.

        A revert writes the commit records of all sets first, unless an operator of the target can start: until
        alpha.11, the old operator begins no update of a set whose generation hash is current.
        """
        plans = model.pending(self.plan)
        if not self.options.revert or self.target_may_start:
            return [[forward(one) for one in plans]]
        return [[part for one in plans if (part := commit(one)).changes], [rest(one) for one in plans]]

    @property
    def target_may_start(self) -> bool:
        """Whether the Deployment that would start, or an operator that runs, is the target's."""
        image = [self.operator.image] if self.operator is not None else []
        return any(map(self.options.is_target, (*image, *self.found.others.values())))

    @property
    def patches(self) -> Iterator[Patch]:
        """The patches of all sets, each made when it is asked for because all of them take much memory."""
        return (patch for phase in self.phases for batch in phase for patch in batch.patches)

    @property
    def blocking(self) -> list[Webhook]:
        """The operator's webhooks that would reject our writes while it is at zero."""
        return webhooks.in_the_way(self.webhooks, self.found.home, self.account)

    @property
    def openable(self) -> frozenset[str]:
        """The names of webhooks whose denials do not refuse a run: with ``--allow GM-202`` it exempts its account."""
        allowed = operators.WEBHOOK.code in self.options.plan.allow
        return webhooks.names(self.webhooks) if allowed else frozenset()

    @property
    def to_open(self) -> list[Webhook]:
        """The webhooks from which the run exempts its account before it stops the operator."""
        return [one for one in self.blocking if one.configuration in webhooks.OPENED] if self.openable else []

    @property
    def witnesses(self) -> list[Witness]:
        """What Leases of ours in other namespaces show."""
        return [found for lease in self.elsewhere.values() if (found := _witness(lease)) is not None]

    @cached_property
    def has_new_hashes(self) -> bool:
        """Whether a set holds a hash of the plan's target that is not the source's too."""
        return any(map(planner.holds_target, self.plan.set_plans))

    @cached_property
    def patch_count(self) -> int:
        """How many patches there are."""
        return sum(patch_count(set_plan.changes) for set_plan in model.pending(self.plan))

    @property
    def writes(self) -> bool:
        """Whether a run would write: it has an earlier run to end, or changes that nothing refuses."""
        return self.open_record is not None or (bool(model.pending(self.plan)) and not self.plan.refusals)

    @property
    def refused(self) -> errors.Refused | None:
        """The error for the first refusal, if there is one."""
        half_way = self.dirty or self.writing_record is not None
        return model.refused(self.plan, skip_refused=self.options.plan.skip_refused, half_way=half_way)

    @property
    def release(self) -> str | None:
        """The release of the operator that runs, if its image names one."""
        releases = {release_in(image) for image in (self.operator.images if self.operator else ())}
        (release,) = releases if len(releases) == 1 else (None,)
        return release.name if release else None

    @property
    def installed_release(self) -> Release | None:
        """The release of the operator's Deployment, also at zero, if its image names one."""
        return release_in(self.operator.image) if self.operator is not None else None

    @property
    def other_migration(self) -> Record | None:
        """The record of a run to another target that did not end and may have written."""
        return self.writing_record if self.last_run is None else None

    def known(self, now: datetime) -> planner.Known:
        """What the planner must know besides the sets."""
        run, installed = self.writing_record, self.operator
        at_rest = installed is not None and (installed.gone or self.parked)
        return planner.Known(
            now,
            self.release,
            resumes=self.dirty,
            recorded=run.source_scheme if run is not None and run is self.last_run else None,
            begun=self.begun,
            half_way=run is not None,
            stopped=at_rest and not self.target_may_start,
        )

    def check_target_image(self) -> None:
        """Raise :class:`~migrator.errors.UsageError` if the operator of the old hashes has the target's image."""
        image = self.options.target_image
        runs = self.operator is not None and image in self.operator.images and not (self.open_record or self.parked)
        if runs and model.pending(self.plan) and not self.has_new_hashes and not self.options.revert:
            raise errors.UsageError(
                f"--target-image {image} is the image of the operator that runs, and no set holds the target's "
                "hashes: give the next operator's image, by its digest if both have one tag, or leave it out"
            )

    def findings(self) -> list[model.Finding]:
        """The objections of operators, webhooks and records to a run."""
        found = [one for one in self.found.findings if one.code != operators.NO_ELECTION.code or not self.elects]
        found += [*self.elsewhere_findings(), *self._of_operator()]
        allowed = operators.WEBHOOK.code in self.options.plan.allow
        found += webhooks.findings(self.blocking, self.account, allowed=allowed)
        if (run := self.other_migration) is not None:
            again = f"grove-migrator run {shlex.join(run.flags)} --stop-operator"
            remedy = f"finish it with `{again}`" + ("" if run.revert else f", or undo it with `{again} --revert`")
            found.append(operators.OPEN_RECORD.found(None, None, str(run), remedy))
        return found

    def elsewhere_findings(self, moving: Iterable[str] = ()) -> list[model.Finding]:
        """What other namespaces show, of which operators renew their Leases in ``moving``.

        Naming the operator overrules it: anybody may be able to write Leases there.
        """
        if self.options.flags.namespace is not None:
            return self.of_witnesses()
        webhook = webhooks.operator_namespace(self.webhooks)
        return operator.contradictions(self.found, webhook, moving) + self.of_witnesses()

    def of_witnesses(self) -> list[model.Finding]:
        """What Leases of ours in other namespaces show; only a warning once the operator is named."""
        found, named = list[model.Finding](), self.options.flags.namespace is not None
        otherwise = "" if named else "; if it is not, name your operator's with --operator NAMESPACE/NAME"
        for one in self.witnesses:
            message = f"Lease {one.namespace}/{leases.OWN_LEASE} {one.what}"
            yours = f"finish it with --operator {one.namespace}/NAME, the operator's Deployment there"
            remedy = f"if that run is yours, {yours}{otherwise}"
            found.append(operators.OPEN_RECORD.found(None, None, message, remedy))
        return [finding.as_warning for finding in found] if named else found

    def _of_operator(self) -> Iterator[model.Finding]:
        installed, options = self.operator, self.options
        if installed is None or installed.gone or (self.parked and not self.acts):
            return
        pod = next(iter(installed.pods), None)
        ref = pod.ref if pod else None
        if not options.stop_operator:
            replicas = count(installed.replicas, "replica")
            what = "belongs to the operator, which" if pod else f"{installed} has {replicas}, and"
            message = f"{what} starts a rolling update if it sees hashes of another scheme"
            yield operators.RUNNING.found(ref, None, message)
        elif not installed.deployment and installed.live:
            message, remedy = "belongs to an operator that has no Deployment", "stop it yourself, then run again"
            yield operators.RUNNING.found(ref, None, message, remedy)


def unplanned(options: RunOptions) -> Observation:
    """What is seen before anything is read."""
    return Observation(options, model.Plan(options.plan.source, options.plan.target))


def is_same_target(record: Record, options: RunOptions) -> bool:
    """Whether a record is of a run to the target that is asked for now."""
    with suppress(errors.UnknownScheme):  # another version wrote it
        return named(record.target).scheme == options.plan.target.scheme
    return False


def read_sets(cluster: Cluster, seen: Observation, now: datetime, *, search: bool) -> Observation:
    """Read the sets and plan; raises what the cluster, :func:`check_there` and the planner raise."""
    options = seen.options
    snapshot = read_snapshot(cluster, search=search)
    if not search:
        snapshot = replace(snapshot, possible_hashes=seen.possible_hashes)
    check_there(snapshot, seen)
    if options.revert:
        plan = _revert_plan(snapshot, seen)
    else:
        plan = planner.make_plan(snapshot, options.plan, seen.known(now))
    elsewhere = seen.elsewhere_findings() if options.revert else seen.witnesses
    if any(set_plan.changes for set_plan in plan.set_plans) or seen.other_migration or elsewhere:
        plan = replace(plan, findings=(*plan.findings, *seen.findings()))
    return replace(seen, plan=plan, trees=snapshot.trees, possible_hashes=snapshot.possible_hashes)


def look_at_records(cluster: Cluster, seen: Observation) -> tuple[list[Record], Observation]:
    """The records of the operator's namespace, newest last, and what Leases elsewhere show; raises ``Unreadable``."""
    elsewhere = leases.everywhere(cluster, leases.OWN_LEASE)
    is_anywhere = seen.found.home is None and seen.found.operator is None  # then every record may be the one
    ours = [elsewhere.pop(one) for one in tuple(elsewhere) if is_anywhere or one == seen.found.home]
    read = (parse(lease.annotations.get(leases.RECORD, ""), lease.namespace) for lease in ours)
    records = sorted((one for one in read if one is not None), key=lambda one: one.started)
    return records, replace(seen, elsewhere=elsewhere)


def look_around(cluster: Cluster, seen: Observation) -> Observation:
    """Read what a run does not read at every look: other namespaces' Leases, and the webhooks."""
    elsewhere = leases.everywhere(cluster, leases.OWN_LEASE)
    elsewhere.pop(seen.found.home or "", None)
    return look_at_webhooks(cluster, replace(seen, elsewhere=elsewhere))


def look_at_webhooks(cluster: Cluster, seen: Observation) -> Observation:
    """Read the webhooks, and the name of our account if one of them may be in our way."""
    found = changing.read(cluster)
    account = changing.account_of(cluster) if any(one.fails_closed and one.matches_us for one in found) else ""
    return replace(seen, webhooks=found, account=account)


def _witness(lease: Lease) -> Witness | None:
    try:
        run = parse(lease.annotations.get(leases.RECORD, ""), lease.namespace)
    except errors.Unreadable:
        return Witness(lease.namespace, "has a record that cannot be read", may_have_written=True)
    if run is not None and run.is_open:
        return Witness(lease.namespace, f"has a record: {run}", run.state is State.WRITING)
    if lease.holder:
        what = f"is held by {as_name(lease.holder)}, whose run has written nothing yet"
        return Witness(lease.namespace, what, may_have_written=False)
    return None


def check_there(snapshot: objects.Snapshot, seen: Observation) -> None:
    """Raise ``ClusterError`` if sets that are absent must be there: one wrong answer must not look like success."""
    if not snapshot.installed and (seen.operator is not None or seen.record is not None):
        what = "there is an operator" if seen.operator is not None else "there is a record of a run"
        raise errors.ClusterError(f"the API server does not know podcliquesets.grove.io, although {what}")
    if seen.writing_record is not None and not snapshot.trees:
        raise errors.ClusterError(
            "a run did not end, and no PodCliqueSet was read; if all of them were deleted on purpose, first delete the "
            "record: docs/upgrade.md has the command"
        )


def _revert_plan(snapshot: objects.Snapshot, seen: Observation) -> model.Plan:
    """The plan of ``--revert``; raises ``Refused`` beside a record of another target, and what the planner raises."""
    options, record = seen.options, seen.record
    if any(one.severity is model.Severity.REFUSAL for one in seen.elsewhere_findings()):
        return model.Plan(options.plan.source, options.plan.target, ())  # refused: the record may be in that namespace
    if record is not None and seen.last_run is None:
        raise errors.Refused(
            f"by the record, the last run, by version {record.version}, went to {record.target}, not to --to "
            f"{options.plan.target}: undo that one with "
            f"`grove-migrator run --revert --to {shlex.quote(record.target)}`"
        )
    return planner.plan_revert(snapshot, options.plan, record.source_scheme if record is not None else None)
