"""A run: observe, decide, act, until the decision is to end.

Nothing of what was written is remembered. What is remembered is: when each Lease was last seen to move (in
:class:`~migrator.run.leases.Leases`), which step failed how often in a row, since when we wait or go back, the reason
to give up, and the newest reading of the sets, which every write makes worthless.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from migrator.errors import (
    ClusterError,
    Interrupted,
    Rejected,
    UsageError,
)
from migrator.grove.model import Plan
from migrator.planning.options import direction
from migrator.run import admission, events, operator
from migrator.run.actions import Actions
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.decisions import Exit, Lease, Phase, Sets, Situation, Step, Why, decide, exit_code, parks, why
from migrator.run.dry_run import rehearse
from migrator.run.endings import Memory, cause_of, error_of, overdue, reason_code, reason_of
from migrator.run.observation import (
    Control,
    Observation,
    SetsSeen,
    observe,
    pending,
    read_sets,
    refusals_of,
    situation,
)
from migrator.store import DryRun, Store

#: How long others are waited for, and how long going back may take, in seconds.
PATIENCE: Final = 120.0
TIME_TO_GO_BACK: Final = 600.0

#: How often one step may fail in a row, and how often sets are brought back, before that is given up.
ATTEMPTS: Final = 3
_BACK: Final = frozenset({Step.BACKWARD, Step.BACKWARD_HALF, Step.BACKWARD_EDITED})
_LONGEST_PAUSE: Final = 1.0
_TIME_TO_LEAVE: Final = 60.0

_STAGES: Final = {
    Step.STOP_OPERATOR: "stop",
    Step.TAKE_LEASE: "fence",
    Step.TAKE_OPERATOR_LEASES: "fence",
    Step.OPEN_RECORD: "record",
    Step.SAVE_TABLES: "record",
    Step.FORWARD: "execute",
    Step.BACKWARD: "revert",
    Step.BACKWARD_HALF: "revert",
    Step.BACKWARD_EDITED: "revert",
    Step.CLOSE_RECORD: "close",
    Step.FORGET_RECORD: "close",
    Step.RESTORE_OPERATOR: "close",
}
_LOOKS: Final = {Phase.START: "preflight", Phase.FENCED: "snapshot", Phase.WRITTEN: "verify"}


def run(store: Store, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns when every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code says what state the cluster is in.
    """
    direction(options.plan)
    if not store.is_cluster or store.dry_run is not DryRun.NONE:
        return rehearse(store, options, context)
    return _Run(store, options, context).run()


class _Run:
    """One run; all that changes while it lasts is the memory."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._log = context.log
        self._actions: Actions | None = None
        self._memory = Memory(idle_until=context.clock() + (options.wait_for_idle or 0.0))
        self._control = Control()
        self._result = RunResult(Plan(options.plan.source, options.plan.target, ()))

    def run(self) -> RunResult:
        """Observe, decide and act, until the decision is to end."""
        step: Step | None = None
        while step is not Step.END:
            step = None
            try:
                self._observe()
                self._memory = replace(self._memory, unseen=None)
                self._judge()
                seen = self._situation()
                step = decide(seen)
                if step is not Step.END:
                    self._memory = replace(self._memory, unseen=step)
                    self._act(step, seen)
                    self._passed(step)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the cluster is put in order
                self._failed(step, error)
                if step is None and self._memory.why is not Why.NONE and self._memory.cause is error:
                    break  # what cannot be seen cannot be put in order
        return self._end()

    # --- observing ----------------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        found = operator.find(self._store, self._options.flags, everywhere=self._memory.sets is None)
        if self._actions is None and found.home is not None:
            pod = admission.own_pod(self._store)
            if pod is not None:
                self._context = replace(self._context, identity=f"{pod}_{self._context.run_id}")
            self._actions = Actions(self._store, self._options, self._context, found.home)
        actions = self._actions
        self._control = observe(found, self._options, actions.leases, actions.recorder) if actions else Control(found)

    @property
    def _seen(self) -> Observation:
        return Observation(self._control, self._memory.sets, self._memory.phase)

    def _situation(self) -> Situation:
        found = situation(self._seen, self._options, why=self._memory.why, tired=self._tired)
        idle = self._context.clock() < self._memory.idle_until
        restore_due = found.restore_due or self._memory.unseen is Step.STOP_OPERATOR
        return replace(found, idle=idle, restore_due=restore_due)

    @property
    def _tired(self) -> bool:
        since = self._memory.back_since
        late = since is not None and self._context.clock() - since > TIME_TO_GO_BACK
        waited = self._memory.why is not Why.NONE and self._impatient
        return late or waited or self._memory.backs > 2 * ATTEMPTS or self._memory.failed[1] >= ATTEMPTS

    def _judge(self) -> None:
        """Take note of what ends a run by being seen: a signal, the time, an operator."""
        memory, context = self._memory, self._context
        if memory.why is Why.NONE:
            if context.stop.is_set():
                self._give_up(Why.STOPPED, Interrupted("interrupted"))
            elif context.deadline.remaining() <= 0:
                self._give_up(Why.FAILED, overdue("--timeout is over", self._control))
            elif self._impatient and decide(self._situation()) is Step.WAIT:
                self._give_up(Why.BUSY, overdue(f"waited for {PATIENCE:.0f} s", self._control))
            elif memory.tries > ATTEMPTS:
                self._give_up(Why.FAILED, ClusterError("values that were written do not stay as they were written"))
        seen = self._situation()
        reason = why(seen)
        if reason is not Why.NONE and (self._memory.why is Why.NONE or reason is Why.ENDS_HERE is not self._memory.why):
            self._give_up(reason, cause_of(reason, seen, self._control, self._memory.sets))

    @property
    def _impatient(self) -> bool:
        since = self._memory.waiting
        return since is not None and self._context.clock() - since > PATIENCE

    # --- acting -------------------------------------------------------------------------------------------------------

    def _act(self, step: Step, seen: Situation) -> None:  # noqa: C901, PLR0912 - one case for each step
        now = self._seen
        if step is Step.LOOK:
            self._look(seen)
            return
        if step is Step.WAIT:
            self._wait(seen)
            return
        if self._actions is None:
            raise UsageError(
                "no Grove operator was found: say where it lives with --operator-namespace, where the Lease and the "
                "record are kept"
            )
        actions, context = self._actions, self._context
        if step in _BACK or step is Step.FORWARD:
            self._memory = replace(self._memory, sets=None, phase=Phase.WRITTEN)
        if step in _BACK and self._memory.back_since is None:
            context.deadline.extend(TIME_TO_GO_BACK)
            self._memory = replace(self._memory, back_since=context.clock())
        with events.timed(_STAGES[step], self._result.seconds, context):
            match step:
                case Step.TAKE_LEASE:
                    if not actions.take_lease(now):
                        self._memory = replace(self._memory, sets=None)
                case Step.OPEN_RECORD:
                    actions.open_record(now)
                case Step.STOP_OPERATOR:
                    actions.stop_operator(now)
                case Step.TAKE_OPERATOR_LEASES:
                    actions.take_operator_leases(now)
                case Step.SAVE_TABLES:
                    actions.save_tables(now)
                case Step.FORWARD:
                    self._memory = replace(self._memory, tries=self._memory.tries + 1)
                    actions.forward(now)
                case Step.BACKWARD_EDITED:
                    self._memory = replace(self._memory, phase=Phase.FENCED, backs=self._memory.backs + 1)
                    actions.backward(now, step)
                case Step.BACKWARD_HALF | Step.BACKWARD:
                    self._memory = replace(self._memory, went_back=True, backs=self._memory.backs + 1)
                    actions.backward(now, step)
                case Step.RESTORE_OPERATOR:
                    actions.restore_operator(now, seen.sets, begun=seen.begun)
                case Step.CLOSE_RECORD:
                    actions.close_record(now)
                case _:
                    actions.forget_record(now)

    def _look(self, seen: Situation) -> None:
        phase = Phase.WRITTEN
        if self._memory.phase is not Phase.WRITTEN:
            phase = Phase.FENCED if seen.fenced else Phase.START
        self._memory = replace(self._memory, sets=None, phase=phase)
        with events.timed(_LOOKS[phase], self._result.seconds, self._context):
            sets = read_sets(self._store, self._options, self._context, self._control, phase)
        self._memory = replace(self._memory, sets=sets)
        self._report(sets)

    def _report(self, sets: SetsSeen) -> None:
        if sets.phase is Phase.WRITTEN:
            if sets.complete:
                self._log.info("written_values_verified")
            return
        self._result.plan = sets.plan
        events.log_findings(sets.plan, self._context.log)
        if not pending(sets.plan) and not refusals_of(sets.plan):
            self._log.info("nothing_to_do", trees=len(sets.plan.trees))

    def _wait(self, seen: Situation) -> None:
        context, memory = self._context, self._memory
        if seen.sets is Sets.REFUSED and seen.idle and seen.phase is Phase.START:
            self._log.info("waiting_for_idle")
            context.sleep(self._options.interval)
            self._memory = replace(memory, sets=None)
            return
        if memory.waiting is None:
            self._memory = replace(memory, waiting=context.clock())
            self._log.info("waiting", why=str(overdue("waiting", self._control)))
        waits = [lease.wait for lease in (self._control.own, *self._control.theirs) if lease.standing is Lease.HELD]
        context.sleep(min([_LONGEST_PAUSE, *(wait for wait in waits if wait > 0)]))

    def _passed(self, step: Step) -> None:
        memory, only_looked = self._memory, step in {Step.WAIT, Step.LOOK}
        failed = memory.failed if only_looked and memory.failed[0] is not step else (None, 0)
        self._memory = replace(memory, failed=failed, waiting=memory.waiting if only_looked else None)

    def _failed(self, step: Step | None, error: BaseException) -> None:
        """Take note of a failure: a reason to give up, or one more of the same."""
        last, times = self._memory.failed
        times = times + 1 if last is step else 1
        self._memory = replace(self._memory, failed=(step, times))
        self._log.warning("step_failed", step=step.value if step else "observe", error=str(error), times=times)
        early = step in {None, Step.LOOK} and (self._actions is None or self._control.own.standing is not Lease.OURS)
        limit = 1 if early else ATTEMPTS - isinstance(error, Rejected)
        reason = reason_of(error)
        if step is None and times >= limit and not (reason is not Why.NONE is self._memory.why):
            reason = Why.ENDS_HERE
        elif reason is Why.NONE is self._memory.why and times >= limit:
            reason = Why.FAILED
        if reason is not Why.NONE and (self._memory.why is Why.NONE or reason is Why.ENDS_HERE):
            self._give_up(reason, error)
        elif step is None:
            self._context.sleep(_LONGEST_PAUSE)

    def _give_up(self, reason: Why, cause: BaseException) -> None:
        self._memory = replace(self._memory, why=reason, cause=cause, failed=(None, 0), waiting=None)
        self._context.deadline.extend(_TIME_TO_LEAVE)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> RunResult:
        """Say what the cluster's state is."""
        memory, seen = self._memory, self._situation()
        code = exit_code(reason_code(memory, seen), seen)
        try:
            self._take_leave(code, seen)
        except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - what the cluster's state is stays so
            self._log.warning("not_left_in_order", error=str(late), next="the Leases are free in a minute")
        if code == Exit.DONE:
            return self._done()
        error = error_of(code, memory, seen)
        self._log.error("run_failed", code=getattr(error, "code", "bug"), exit_code=code, error=str(error))
        raise error from (memory.cause if memory.cause is not error else None)

    def _take_leave(self, code: int, seen: Situation) -> None:
        """Let go of the Leases, and write Events."""
        if self._actions is not None:
            self._actions.let_go(park=parks(code, seen))
        if code == Exit.REFUSED and self._memory.sets is not None:
            events.refused(self._store, self._memory.sets.plan, self._context)
        if code == Exit.DONE and not self._options.revert:
            events.migrated(self._store, self._result.plan, self._context)

    def _done(self) -> RunResult:
        """Log whether the operator is up, with which image, and what is next."""
        result, actions = self._result, self._actions
        if actions is not None:
            result.patches, result.trees = actions.written.patches, actions.written.trees
        installed = self._control.found.operator
        if installed is not None and installed.deployment:
            result.operator_replicas, result.operator_image = installed.replicas, installed.image
        result.operator = installed
        up = installed is not None and installed.replicas > 0
        if self._options.revert:
            following = "the old operator may run" if up else "start the old operator"
        else:
            following = "grove-migrator verify --after-upgrade" if up else "start the target's operator (helm upgrade)"
        if self._control.recorded.unfinished is not None and actions is not None:
            self._log.warning("record_not_closed", next="run again: it closes the record")
        replicas, image = result.operator_replicas, result.operator_image
        self._log.info("operator", replicas=replicas, image=image, up=up, next=following)
        return result
