"""What one run knows, holds and does, step by step; :mod:`migrator.run.migration` has their order.

Whatever is decided is decided by what was read last: :attr:`Session.seen`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, Final

from migrator import errors
from migrator.cluster import LONGEST_WRITE, Cluster
from migrator.errors import ClusterError, ForeignOperator, LeaseLost
from migrator.planning import model
from migrator.planning.patches import Batch
from migrator.releases.table import named
from migrator.run import admission, leases, operator, webhooks, write
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.keeping_out import LOOK_OFTEN, kept_out, to_stop
from migrator.run.leases import Leases
from migrator.run.operator import Operator, is_same_operator
from migrator.run.record import OperatorBefore, Record, State, parse
from migrator.run.recording import next_record
from migrator.run.seen import look_around, look_at_webhooks, read_sets, unplanned

#: For how many seconds a run waits for a Lease, for pods of the operator to end, and, before it gives one back, for
#: pods that are being deleted.
_PATIENCE: Final = 120.0

#: How often the operator is stopped at most, and for how many seconds several API servers need to see a condition.
_STOPS: Final = 3
_SPREADING: Final = 30.0

#: Seconds between two looks for an operator while patches are sent; it is looked for more often if no Lease keeps it
#: out, and while a run goes back.
_LOOK_EVERY: Final = 5.0


class Session:
    """One run: what it saw last, and its Leases.

    ``fenced``: the operator that it found or stopped last has ended, and its Lease is parked. ``wrote``: it has sent a
    patch. ``closed``: every value is as asked, and recorded so. ``stops``: how often it has stopped an operator.
    """

    def __init__(self, cluster: Cluster, options: RunOptions, context: Context) -> None:
        self.is_rehearsal = cluster.dry_run
        self.leases = Leases(cluster, "", context)
        self.unfenced = cluster  # writes of `cluster` end with our hold
        self.cluster = cluster if self.is_rehearsal else cluster.within(self.leases.seconds_left)
        self.is_asked_to_revert = options.revert  # a run that has to go back reverts, too
        self.context = context
        self.log = context.log
        self.seen = unplanned(options)
        self.result = RunResult(self.seen.plan)
        self.stops = 0
        self.fenced = self.wrote = self.closed = False
        self.judged = False  # `seen.dirty` stays as it was when we took our Lease: later we have written ourselves
        self.record_before: Record | None = None  # as it was then
        self._prepared = False  # what is done once, between our first record and the stop
        self._opened_at = -math.inf  # when our account was left out of webhooks
        self._pods_end_by = math.inf  # when an operator is started at the latest, once one is to be
        self._settled_at = -math.inf  # from when on no stop and no matchCondition of ours can arrive

    @property
    def options(self) -> RunOptions:
        """What is asked of the run; one that has to go back asks for a revert."""
        return self.seen.options

    @property
    def has_read_record(self) -> bool:
        """Whether it is known where our Lease is, and what it records: until then nothing is known of earlier runs."""
        return bool(self.leases.namespace)

    # --- looking ----------------------------------------------------------------------------------------------------

    def look(self, *, search: bool = False) -> None:
        """Operator, record and sets, as they are now; with ``search`` also what is read only once."""
        self.look_at_operators()
        if search:
            self.seen = look_around(self.unfenced, self.seen)
        self.read(search=search)
        if not self.judged:
            self.judge_again()

    def look_at_operators(self) -> None:
        """The operator and the record; while we hold our own Lease, nobody else writes that."""
        found, record = self._find(), None
        if found.home is not None:
            record = parse(self.leases.record_in(found.home), found.home)
            self.leases.namespace = found.home  # only now that it was read, see `has_read_record`
        self.seen = replace(self.seen, found=found, record=record)
        if not self.judged:
            self.judge()
            self.record_before, self.judged = record, self.leases.taken

    def judge(self) -> None:
        """Whether an earlier run may have written, by what was read last: before this one has recorded itself."""
        run, installed = self.seen.open_record, self.seen.operator
        at_zero = installed is None or installed.gone
        # Hashes of the target beside no operator show a run that died, even if its record is gone.
        new = at_zero and not self.options.revert and self.seen.has_new_hashes
        dirty = run.state is State.WRITING if run is not None else self.seen.parked or new
        elsewhere = any(one.may_have_written for one in self.seen.witnesses)
        self.seen = replace(self.seen, dirty=dirty or elsewhere)

    def judge_again(self) -> None:
        """Judge by the sets, too; if they show a run that died, plan again, to leave none of its sets out."""
        self.judge()
        if self.seen.dirty and self.options.plan.skip_refused:
            self.read()

    def look_behind_the_lock(self) -> None:
        """What was read before our Lease was ours, once more: another run may have written, and ended, since then."""
        self.seen = look_at_webhooks(self.unfenced, self.seen)
        self.read()
        self.judge_again()

    def look_again_elsewhere(self) -> None:
        """Refuse beside runs and operators in other namespaces; raises what that shows.

        After our record is saved: of two runs with different homes, at least one sees the other.
        """
        before = self.seen.elsewhere
        self.seen = look_around(self.unfenced, self.seen)
        moving = leases.renewed_elsewhere(self.unfenced, self.leases.namespace, self.context)
        for namespace, lease in self.seen.elsewhere.items():
            if before.get(namespace, leases.Lease()).spec != lease.spec:
                raise errors.LeaseHeld(f"a run is under way in namespace {namespace}: wait for its end, or stop it")
        for finding in self.seen.elsewhere_findings(moving):
            if finding.severity is model.Severity.REFUSAL:
                raise errors.Refused(str(finding), guard=finding.code)

    def read(self, *, search: bool = False) -> None:
        """Read the sets, and plan what is to be done to them."""
        # Until an operator is to be started, or is let in, none may act beside what is written.
        is_half_way = self.wrote and self.leases.keeps_operators_out and math.isinf(self._pods_end_by)
        with kept_out(self.seen, self._find, self._scale_again, self.context) if is_half_way else nullcontext():
            # GM-116 compares times that the cluster wrote, and the clock of a laptop may be wrong by minutes.
            self.seen = read_sets(self.unfenced, self.seen, self.leases.server_time, search=search)
        if not self.wrote:
            self.result.plan = self.seen.plan

    def _find(self) -> operator.Found:
        home = self.leases.namespace or None
        return operator.find(self.unfenced, self.options.flags, home=home, own=self.context.namespace)

    # --- the record -------------------------------------------------------------------------------------------------

    def record_run(self, **changes: Any) -> None:  # noqa: ANN401 - fields of a record
        """Record the run, how far it got, and the operator that it is about to stop."""
        now = self.leases.server_time
        self.save(next_record(self.seen, self.context.run_id, now, changes, wrote=self.wrote))

    def save(self, record: Record | None) -> None:
        """Replace the record, or remove it."""
        self.leases.save(record.text() if record is not None else "")
        self.seen = replace(self.seen, record=record)

    # --- who may write ----------------------------------------------------------------------------------------------

    def lock(self) -> bool:
        """Take our Lease once it is free; returns whether it had to wait.

        Raises :class:`~migrator.errors.UsageError` if it is not known where it is to be.
        """
        if not self.has_read_record:
            raise errors.UsageError("no Grove operator was found: name its Deployment with --operator NAMESPACE/NAME")
        return self.wait_until_free(self.leases.obtain)

    def wait_until_free(self, obstacle: Callable[[], str]) -> bool:
        """Wait until nothing is in the way; returns whether it had to wait.

        Raises :class:`~migrator.errors.LeaseHeld` if there still is one after two minutes.
        """
        until, told = self.context.clock() + _PATIENCE, ""
        while why := obstacle():
            self.context.heed_signals()
            if self.context.clock() >= until:
                raise errors.LeaseHeld(f"waited {_PATIENCE:.0f} s: {why}; wait for its end, or stop it")
            if why != told:
                self.log.info("waiting", why=why)
                told = why
            self.context.sleep(1.0)
        return bool(told)

    def fence(self) -> None:
        """Stop the operator and park its Lease: from here on none acts that elects its leader."""
        self.record_run()
        if not self._prepared:
            self.look_again_elsewhere()
            self.context.heed_signals()  # that may have waited, and nothing is stopped yet
            self._open_webhooks()
            self._prepared = True
        self.wait_until_free(self._try_to_fence)
        self.fenced = True
        self.look_at_operators()

    def _try_to_fence(self) -> str:
        """Stop an operator that runs, and park its Lease once it is gone; returns what is in the way."""
        self.look_at_operators()
        installed = self.seen.operator
        self.seen.found.refuse_unclear()
        if installed is not None and not installed.gone:
            if installed.replicas:
                self._stop(installed)
            elif not installed.deployment and installed.live:
                raise ForeignOperator(f"{installed.evidence} runs without a Deployment: stop it yourself")
            # What is scaled up again and again never ends: a revert keeps it at zero while it writes.
            if not self.options.revert or self.stops < _STOPS or not model.pending(self.seen.plan):
                return f"{installed.evidence} still exists"
        return self.leases.park()

    def _stop(self, installed: Operator) -> None:
        """Scale the operator to zero, three times at most; what it was is recorded first."""
        if not self.options.stop_operator:
            raise ForeignOperator(f"{installed.evidence} runs: scale it to zero, or run with --stop-operator")
        if self.stops == _STOPS and not self.options.revert:
            raise ForeignOperator(
                f"something scales the operator up again ({installed.evidence}), for instance GitOps or an "
                "autoscaler: pause it, or name the target's image with --target-image"
            )
        self.record_run(stopped=OperatorBefore(installed.replicas, installed.image, installed.uid))
        self._scale_to_zero(installed)

    def keep_at_zero(self) -> None:
        """Scale an operator that runs to zero, however often: going back is when no operator must act."""
        if (installed := to_stop(self.seen)) is not None:
            self._scale_to_zero(installed)

    def _scale_again(self, installed: Operator) -> None:
        self._settled_at = self.context.clock() + LONGEST_WRITE
        operator.scale(self.cluster, installed, 0, attempts=1)  # a later one might undo what `restore` does

    def _scale_to_zero(self, installed: Operator) -> None:
        self.fenced = False
        try:
            self._scale(installed, 0)
        finally:
            self._settled_at = self.context.clock() + LONGEST_WRITE
        self.stops += 1
        self.log.info("operator_stopped", deployment=str(installed), image=installed.image, times=self.stops)

    def _scale(self, installed: Operator, replicas: int) -> None:
        operator.scale(self.cluster, installed, replicas)
        self.seen = replace(self.seen, found=replace(self.seen.found, operator=replace(installed, replicas=replicas)))

    def restore(self, was: OperatorBefore | None) -> bool:
        """Give a Deployment that a run of ours stopped its replicas back; false if it is not the same any more."""
        if was is None:
            return True
        self._settle()
        self.let_pods_end()
        self.look_at_operators()
        installed = self.seen.operator
        if installed is None or not (installed.replicas or is_same_operator(installed, was)):
            return False
        if not installed.replicas:
            self._scale(installed, was.replicas)
            self.log.info("operator_restored", deployment=str(installed), replicas=was.replicas)
        return True

    def let_pods_end(self) -> None:
        """Wait until an operator that starts deletes no pod in place of one that ends: two minutes at most in a run."""
        # Without an operator, nothing replaces a pod that fails.
        self._pods_end_by = min(self._pods_end_by, self.context.clock() + _PATIENCE)
        while (why := self.seen.too_early) and self.context.clock() < self._pods_end_by:
            self.log.info("waiting", why=why)
            self.context.deadline.extend(_PATIENCE)
            self.context.rest(_LOOK_EVERY)
            with suppress(Exception):  # what cannot be read now is read again, and only tells how long to wait
                self.read()

    def let_operators_in(self) -> None:
        """Take our condition from webhooks, and give the operator's Lease back, also what a killed run left."""
        self.close_webhooks()
        self.leases.unpark()

    def _settle(self) -> None:
        """Wait until no request whose reply was lost can arrive after it is undone."""
        self.context.rest(max(0.0, self._settled_at - self.context.clock()))

    # --- webhooks ---------------------------------------------------------------------------------------------------

    def _open_webhooks(self) -> None:
        """With ``--allow GM-202`` leave our account out of the webhooks in the way, and see that this holds."""
        if not self.seen.to_open:
            return
        self._opened_at = self.context.clock()
        try:
            webhooks.open_for(self.cluster, self.seen.account, self.seen.to_open)
        finally:
            self._settled_at = self.context.clock() + LONGEST_WRITE
        self.log.warning("webhooks_opened", account=self.seen.account, webhooks=sorted(self.seen.openable))
        self.wait_until_free(self._try_patches)

    def _try_patches(self) -> str:
        """Probe; returns what still denies our patches, at an API server that does not know our condition yet."""
        try:
            self.probe()
        except errors.Rejected as error:
            return str(error)
        return ""

    def probe(self) -> None:
        """Dry-run one patch for each kind, subresource and namespace, behind the fence.

        Raises :class:`~migrator.errors.Refused` for one that is denied or invalid, and
        :class:`~migrator.errors.NotAuthorised` for a missing right. A rejection that is spreading is raised as it is.
        """
        for patch, error in admission.rejected(self.cluster.in_dry_run(), self.seen.patches):
            if isinstance(error, errors.Forbidden) or self.is_spreading(error):
                raise error
            raise admission.refusal(patch.ref, error) from error

    def is_spreading(self, error: errors.Rejected) -> bool:
        """Whether a rejection may be of an API server that does not know our condition yet."""
        return self.context.clock() < self._opened_at + _SPREADING and error.denied_by in self.seen.openable

    def close_webhooks(self) -> None:
        """Remove our conditions, also those that a killed run left; what prevents that is told."""
        if math.isinf(self._opened_at) and not any(one.ours for one in self.seen.webhooks):
            return
        try:
            self._settle()
            webhooks.close(self.cluster)
            self.seen, self._opened_at = replace(self.seen, webhooks=()), -math.inf
        except Exception as error:  # noqa: BLE001 - the run has ended, and its exit code must be the one that is true
            who = "a rerun or a revert closes them, or an administrator with the command of docs/upgrade.md"
            self.log.warning("webhooks_left_open", error=errors.said(error), consequence=who)

    # --- writing ----------------------------------------------------------------------------------------------------

    def go_back(self, scheme: str) -> None:
        """From here on this is a revert to that scheme, which the first signal does not end.

        It is the way out of a run that failed, and to stop half-way would cost pods beside an operator that acts.
        """
        self.log.warning("reverting", scheme=scheme)
        self.context = replace(self.context, stop=threading.Event(), sleep=self.context.rest)
        plan = replace(self.options.plan, source=named(scheme))
        self.seen = replace(self.seen, options=replace(self.options, revert=True, plan=plan))

    def send(self) -> bool:
        """Write, and watch operators; returns whether every set was begun and no operator acts.

        A signal ends this after the sets that are begun.
        """
        return all(map(self._send, self.seen.phases))

    def _send(self, batches: Sequence[Batch]) -> bool:
        """Write one phase; false if an operator acts, which is stopped before the sets are read again."""
        executor = write.Executor(self.cluster, self.context, check=self._before_each_patch())
        try:
            outcomes = executor.run(batches)
        finally:
            begun = {outcome.batch.pcs.ref.uid for outcome in executor.outcomes if outcome.written}
            self.wrote = self.wrote or executor.unconfirmed or bool(begun)
            self.seen = replace(self.seen, begun=self.seen.begun | begun)
            if executor.unconfirmed:
                self.context.rest(LONGEST_WRITE)  # what is still under way ends before anything is read
        self.result.patches += sum(outcome.written for outcome in outcomes)
        self.result.sets |= {outcome.batch.pcs.ref for outcome in outcomes if outcome.complete}
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        # A lost Lease ends everything, so it counts first; a conflict of one set counts last.
        failed.sort(key=lambda error: (not isinstance(error, LeaseLost), isinstance(error, write.SetConflict)))
        if failed and not isinstance(failed[0], ForeignOperator):
            raise failed[0]
        return not failed and len(outcomes) == len(batches)

    def _before_each_patch(self) -> Callable[[], None]:
        """What is asked before every patch: our hold, and every so many seconds whether an operator acts."""
        if self.is_rehearsal:
            return lambda: None
        going_back = self.options.revert
        due, every = self.context.clock(), LOOK_OFTEN if going_back or not self.seen.elects else _LOOK_EVERY

        def check() -> None:
            nonlocal due
            self.leases.seconds_left()
            if (began := self.context.clock()) < due:
                return
            with suppress(ClusterError, errors.LostReply, errors.LostRace):  # what cannot be read now is seen later
                self.look_at_operators()
                self.leases.park()  # again: in a run of hours one that waits would take it, and some delete it
                if going_back:
                    self.keep_at_zero()
            due = self.context.clock() + max(every, self.context.clock() - began)
            if self.seen.acts and not going_back:
                raise ForeignOperator("an operator acts without waiting for a Lease")

        return check
