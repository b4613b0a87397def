"""A run: observe, decide, act, until the decision is to end. What was written is never remembered, but read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from migrator.errors import ClusterError, Interrupted, Rejected, UsageError
from migrator.planning.model import Plan
from migrator.run import admission, events, operator
from migrator.run.actions import Actions
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.decisions import Exit, Lease, Phase, Sets, Situation, Step, Why, decide, exit_code, parks, why
from migrator.run.dry_run import rehearse
from migrator.run.endings import Memory, cause_of, error_of, overdue, reason_code, reason_of
from migrator.run.observation import NO_HOME, UNREAD, Observation, pending, read_sets, refusals_of
from migrator.store import DryRun, Store

#: How long others are waited for, and how long going back may take, in seconds.
PATIENCE: Final = 120.0
TIME_TO_GO_BACK: Final = 600.0

#: How often one step may fail in a row, and how often sets are brought back, before that is given up.
ATTEMPTS: Final = 3
_LONGEST_PAUSE: Final = 1.0
_TIME_TO_LEAVE: Final = 60.0

_LOOKS: Final = {Phase.START: "preflight", Phase.FENCED: "snapshot", Phase.WRITTEN: "verify"}

#: For each step the stage to which its time counts, and its action. If that returns true, the sets are read again.
_STEPS: Final[Mapping[Step, tuple[str, Callable[[Actions, Observation], bool | None]]]] = {
    Step.TAKE_LEASE: ("fence", Actions.take_lease),
    Step.OPEN_RECORD: ("record", Actions.open_record),
    Step.STOP_OPERATOR: ("stop", Actions.stop_operator),
    Step.TAKE_OPERATOR_LEASES: ("fence", Actions.take_operator_leases),
    Step.FORWARD: ("execute", Actions.forward),
    Step.BACKWARD: ("revert", lambda actions, seen: actions.backward(seen.to_go_back)),
    Step.RESTORE_OPERATOR: ("close", Actions.restore_operator),
    Step.CLOSE_RECORD: ("close", Actions.close_record),
    Step.FORGET_RECORD: ("close", Actions.forget_record),
}


def run(store: Store, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns once every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code names the state of the cluster.
    """
    _ = options.way  # wrong schemes are refused before anything is read
    if not store.is_cluster or store.dry_run is not DryRun.NONE:
        return rehearse(store, options, context)
    return _Run(store, options, context).run()


class _Run:
    """One run: what it saw last, and what it remembers."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._log = context.log
        self._actions: Actions | None = None
        self._seen = Observation(options)
        self._memory = Memory(idle_until=context.clock() + (options.wait_for_idle or 0.0))
        self._result = RunResult(Plan(options.plan.source, options.plan.target, ()))

    def run(self) -> RunResult:
        """Observe, decide and act, until the decision is to end."""
        step: Step | None = None
        while step is not Step.END:
            step = None
            try:
                self._observe()
                self._judge()
                seen = self._situation()
                step = decide(seen)
                if step is not Step.END:
                    self._memory.unseen = step
                    self._act(step, seen)
                    self._passed(step)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the cluster is put in order
                self._failed(step, error)
                if step is None and self._memory.cause is error:
                    break  # without an observation there is no next step
        return self._end()

    def _observe(self) -> None:
        found = operator.find(self._store, self._options.flags, everywhere=not self._seen.sets.read)
        if self._actions is None and found.home is not None:
            pod = admission.own_pod(self._store)
            if pod is not None:
                self._context = replace(self._context, identity=f"{pod}_{self._context.run_id}")
            self._actions = Actions(self._store, self._options, self._context, found.home, self._result)
        seen = replace(self._seen, found=found)
        self._seen = self._actions.observe(seen) if self._actions is not None else seen
        self._memory.unseen = None

    def _situation(self) -> Situation:
        memory, now = self._memory, self._context.clock()
        late = memory.back_since is not None and now - memory.back_since > TIME_TO_GO_BACK
        waited = self._seen.why is not Why.NONE and self._impatient
        return self._seen.situation(
            tired=late or waited or memory.tried[Step.BACKWARD] > 2 * ATTEMPTS or memory.times >= ATTEMPTS,
            idle=now < memory.idle_until,
            stopping=memory.unseen is Step.STOP_OPERATOR,
        )

    def _judge(self) -> None:
        """Give up if a reason is seen: a signal, a timeout, an operator."""
        memory, context = self._memory, self._context
        if self._seen.why is Why.NONE:
            if context.stop.is_set():
                self._give_up(Why.STOPPED, Interrupted("interrupted"))
            elif context.deadline.remaining() <= 0:
                self._give_up(Why.FAILED, overdue("--timeout has expired", self._seen))
            elif self._impatient and decide(self._situation()) is Step.WAIT:
                self._give_up(Why.BUSY, overdue(f"waited for {PATIENCE:.0f} s", self._seen))
            elif memory.tried[Step.FORWARD] > ATTEMPTS:
                self._give_up(Why.FAILED, ClusterError("somebody else keeps changing the written values"))
        reason = why(self._situation())
        if reason is not Why.NONE and (self._seen.why is Why.NONE or reason is Why.ENDS_HERE is not self._seen.why):
            self._give_up(reason, cause_of(reason, self._seen))

    @property
    def _impatient(self) -> bool:
        since = self._memory.waiting
        return since is not None and self._context.clock() - since > PATIENCE

    def _act(self, step: Step, situation: Situation) -> None:
        memory, context = self._memory, self._context
        if step is Step.LOOK:
            self._look()
        elif step is Step.WAIT:
            self._wait(situation)
        elif self._actions is None:
            raise UsageError(NO_HOME)
        else:
            seen, (stage, do) = self._seen, _STEPS[step]
            if step is Step.FORWARD:
                with events.timed("record", self._result.seconds, context):
                    self._actions.save_tables(seen)
                # From here on the run counts as begun, even if nothing can be read any more.
                self._seen = replace(seen, recorded=self._actions.recorded)
            if step in {Step.FORWARD, Step.BACKWARD}:
                memory.tried[step] += 1
                self._unread(Phase.WRITTEN)
            if step is Step.BACKWARD and memory.back_since is None:
                context.deadline.extend(TIME_TO_GO_BACK)
                memory.back_since = context.clock()
            with events.timed(stage, self._result.seconds, context):
                if do(self._actions, seen):
                    self._unread(seen.phase)

    def _unread(self, phase: Phase) -> None:
        """Forget the sets; they are read again in this phase."""
        self._seen = replace(self._seen, sets=UNREAD, phase=phase)

    def _look(self) -> None:
        phase = Phase.FENCED if self._seen.fenced else Phase.START
        self._unread(Phase.WRITTEN if self._seen.phase is Phase.WRITTEN else phase)
        if self._seen.phase is not Phase.WRITTEN:
            self._result.plan = self._seen.plan  # the next reading needs the memory of the last plan
        with events.timed(_LOOKS[self._seen.phase], self._result.seconds, self._context):
            self._seen = read_sets(self._store, self._seen, self._context)
        if self._seen.phase is not Phase.WRITTEN:
            plan = self._result.plan = self._seen.plan
            events.log_findings(plan, self._context.log)
            if not pending(plan) and not refusals_of(plan):
                self._log.info("nothing_to_do", trees=len(plan.trees))

    def _wait(self, situation: Situation) -> None:
        context, memory = self._context, self._memory
        if situation.sets is Sets.BUSY:
            self._log.info("waiting_for_idle")
            context.sleep(self._options.interval)
            self._unread(self._seen.phase)
            return
        if memory.waiting is None:
            memory.waiting = context.clock()
            self._log.info("waiting", why=str(overdue("waiting", self._seen)))
        held = (lease for lease in (self._seen.own, *self._seen.theirs) if lease.standing is Lease.HELD)
        context.sleep(min([_LONGEST_PAUSE, *(lease.wait for lease in held if lease.wait > 0)]))

    def _passed(self, step: Step) -> None:
        memory, only_looked = self._memory, step in {Step.WAIT, Step.LOOK}
        if not only_looked or memory.failed is step:
            memory.failed, memory.times = None, 0
        if not only_looked:
            memory.waiting = None

    def _failed(self, step: Step | None, error: BaseException) -> None:
        """Record a failure; give up if it is a reason to, or repeats."""
        memory = self._memory
        memory.failed, memory.times = step, memory.times + 1 if memory.failed is step else 1
        self._log.warning("step_failed", step=step.value if step else "observe", error=str(error), times=memory.times)
        early = step in {None, Step.LOOK} and (self._actions is None or self._seen.own.standing is not Lease.OURS)
        enough = memory.times >= (1 if early else ATTEMPTS - isinstance(error, Rejected))
        skips, known = self._options.on_conflict == "skip", self._seen.why is not Why.NONE
        reason = reason_of(error, skips=skips)
        if enough and (reason is Why.NONE or known):
            reason = Why.ENDS_HERE if step is None else reason if known else Why.FAILED
        if reason is not Why.NONE and (not known or reason is Why.ENDS_HERE):
            self._give_up(reason, error)
        elif step is None:
            self._context.sleep(_LONGEST_PAUSE)

    def _give_up(self, reason: Why, cause: BaseException) -> None:
        self._seen, memory = replace(self._seen, why=reason), self._memory
        memory.cause, memory.failed, memory.times, memory.waiting = cause, None, 0, None
        self._context.deadline.extend(_TIME_TO_LEAVE)

    def _end(self) -> RunResult:
        """Release the Leases, write Events, and return or raise by the state of the cluster."""
        memory, seen = self._memory, self._situation()
        code = exit_code(reason_code(memory, seen), seen)
        try:
            if self._actions is not None:
                self._actions.leases.let_go(park=parks(code, seen))
            if code == Exit.REFUSED:
                events.refused(self._store, self._seen.plan, self._context)
            if code == Exit.DONE and not self._options.revert:
                events.migrated(self._store, self._result.plan, self._context)
        except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - the cluster's state does not depend on it
            self._log.warning("not_left_in_order", error=str(late), next="the Leases are free in a minute")
        if code == Exit.DONE:
            return self._done()
        error = error_of(code, memory.cause, seen)
        self._log.error("run_failed", code=getattr(error, "code", "bug"), exit_code=code, error=str(error))
        raise error from (memory.cause if memory.cause is not error else None)

    def _done(self) -> RunResult:
        """Log whether the operator is up, with which image, and what is next."""
        result, installed = self._result, self._seen.operator
        result.operator = installed
        if installed is not None and installed.deployment:
            result.operator_replicas, result.operator_image = installed.replicas, installed.image
        up = installed is not None and installed.replicas > 0
        if self._options.revert:
            following = "the old operator may run" if up else "start the old operator"
        elif up and self._options.speaks(result.operator_image or ""):
            following = "grove-migrator verify --after-upgrade"
        else:
            following = "start the target's operator (helm upgrade)"
        if self._seen.continues and self._actions is not None:
            self._log.warning("record_not_closed", next="run again: it closes the record")
        replicas, image = result.operator_replicas, result.operator_image
        self._log.info("operator", replicas=replicas, image=image, up=up, next=following)
        return result
