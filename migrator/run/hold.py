"""A run's hold on the cluster: the operator stopped, its Lease held, ourselves exempt; and letting go of all that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from migrator.errors import Interrupted, MigratorError, NotFound
from migrator.grove.model import Finding
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.guards.base import refuse
from migrator.planning.options import direction
from migrator.run import authorizer, operator, rights
from migrator.run.context import Context
from migrator.run.fence import Fence
from migrator.run.lease import LeaseObject
from migrator.run.record import Recorded, Recorder, RunRecord
from migrator.run.rights import Right
from migrator.run.runs import DEFAULT_NAMESPACE, REVERTING, STOPPING, RunOptions, namespace_of
from migrator.store import Store

#: The Lease of a run where no operator tells its own (seconds), and how many durations a holder is waited for.
_OWN_LEASE: Final = "grove-migrator"
_OWN_DURATION: Final = 15.0
_PATIENCE: Final = 8


class Hold:
    """Who may write, and what was recorded: everything about a run that must be undone when it ends."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._fences: dict[str, Fence] = {}  # by the name of the Lease
        self._alone = False  # whether no other run can be writing any more
        self._exempted = False
        self._stopped: operator.Operator | None = None  # the operator as it was when this run stopped it
        self.left_down = False  # whether this run stopped it and did not give it back
        self._namespace = DEFAULT_NAMESPACE
        self.operator: operator.Operator | None = None
        self.recorder = Recorder(store, DEFAULT_NAMESPACE)
        self.recorded = Recorded()

    def look(self) -> None:
        """Find the operator and read the record."""
        self.operator = self._find()
        self._namespace = namespace_of(self._store, self._options, self._context, self.operator)
        self.recorder = Recorder(self._store, self._namespace)
        self.recorded = self.recorder.load()

    @property
    def in_charge(self) -> bool:
        """Whether the operator's replicas and the record are ours to put back: never while another run may write.

        Before the Lease is ours, whoever holds it may be such a run, unless it is the operator that we stopped; and so
        may be whoever writes to the record.
        """
        if self.recorder.contended:
            return False
        if self._fences:
            return self._alone and all(fence.held for fence in self._fences.values())
        return self._stopped is not None and not self._another_leads(self._stopped)

    @property
    def serves_target(self) -> bool:
        """Whether the target's operator was at work before this run, which may have stopped it: it has been through.

        What it finds is what it reads, whoever wrote it, so nothing may be brought back beside it.
        """
        run = self.recorded.run
        recorded = run.operator_image if run is not None and run.operator_replicas else None
        live = self.operator.image if self.operator is not None and self.operator.replicas > 0 else None
        way = direction(self._options.plan)
        speak = [way.target_of(source) for source in way.candidates]
        return any(image is not None and self._is_target(image, speak) for image in (recorded, live))

    @property
    def fenced(self) -> bool:
        """Whether the Lease was taken and not let go."""
        return bool(self._fences)

    def check(self) -> None:
        """Raise :class:`~migrator.errors.LeaseLost` unless we may write; local and cheap."""
        for fence in self._fences.values():
            fence.check()

    def has_loose_ends(self, *, revert: bool) -> bool:
        """Whether a run died after its last write, so that its record, exemption or operator wait to be put in order.

        Not while an operator runs: then it holds the Lease, and nothing is urgent.
        """
        run = self.recorded.run
        open_record = run is not None and (revert or run.finished is None)
        found = self.operator
        stopped = found is None or (found.replicas == 0 and all(pod.terminating for pod in found.pods))
        return open_record and stopped

    # --- taking hold --------------------------------------------------------------------------------------------

    def stop_operator(self) -> None:
        """Record the replicas, scale to zero, and wait until no operator pod exists."""
        found = self.operator
        if found is None or not self._options.stop_operator:
            return
        if found.replicas > 0:  # at zero somebody else may be in charge, and has recorded what there was
            if not self._options.revert or self.recorded.run is None:
                begun = REVERTING if self._options.revert else STOPPING
                state = self.unfinished.state if self.unfinished is not None else begun
                self.begin_record(state, found.replicas, found.image)
            self._stopped = found
            operator.scale(self._store, found, 0)
            self.left_down = True
            self._context.log.info(
                "operator_stopped", deployment=str(found), replicas=found.replicas, image=found.image
            )
        self.operator = operator.wait_until_gone(
            self._store,
            found,
            clock=self._context.clock,
            sleep=self._pause,
            deadline=self._context.until(_PATIENCE * found.lease_duration),
        )

    def take_lease(self) -> None:
        """Hold the operator's Lease, or our own where it has none; waits for a dead holder.

        Until then somebody else may be in charge, so what was recorded is read again. A run that did not end may have
        been told another Lease and be alive: then that one is taken too, before anything is written.
        """
        wanted: str | None = self.lease_name
        while wanted is not None:
            self._take(wanted)
            self.recorded = self.recorder.load()
            wanted = next((name for name in self._leases_of_others() if name not in self._fences), None)
        self._alone = True

    def _leases_of_others(self) -> Iterator[str]:
        """The Leases of the runs that have not ended, as far as the record knows."""
        for run in filter(None, (self.recorded.run, *self.recorded.history)):
            if run.finished is not None:
                return
            if run.lease is not None:
                yield run.lease

    def _take(self, name: str) -> None:
        found = self.operator
        duration = found.lease_duration if found else _OWN_DURATION
        fence = Fence(
            self._store,
            namespace=self._namespace,
            name=name,
            duration=duration,
            identity=self._context.identity,
            request_timeout=self._store.request_timeout,
            clock=self._context.clock,
            sleep=self._pause,
            log=self._context.log,
        )
        fence.acquire(self._context.until(_PATIENCE * duration + self._store.request_timeout))
        self._fences[name] = fence
        self._context.log.info("lease_held", lease=str(fence))

    def check_exemption(self) -> None:
        """Refuse to stop the operator for an exemption that we cannot have."""
        if self._options.exempt_from_authorizer:
            authorizer.check_user(self._store)

    def settle_exemption(self) -> bool:
        """Exempt ourselves from the authorizer if asked to, else remove what a dead run left of that."""
        if self._options.exempt_from_authorizer:
            self._exempted = authorizer.exempt(self._store, self._context)
        else:
            authorizer.withdraw_stale(self._store, self._context.log)
        return self._exempted

    @property
    def lease_name(self) -> str:
        """The Lease that keeps operators and other runs out."""
        return self.operator.lease_name if self.operator else self._options.lease_name or _OWN_LEASE

    # --- what stands in the way ---------------------------------------------------------------------------------

    def rights(self) -> tuple[Right, ...]:
        """What taking hold requires of RBAC."""
        stops_it = self._options.stop_operator
        own = rights.of_hold(self._namespace, self.lease_name, self.operator, stops_it=stops_it)
        return (*own, *rights.of_exemption(self._store)) if self._options.exempt_from_authorizer else own

    def findings(self) -> list[Finding]:
        """A live operator that this run will not stop, and a webhook that will refuse label patches."""
        findings = []
        found = self._refreshed()
        stops_it = self._options.stop_operator and not self.fenced
        if found is not None and (found.pods or found.replicas) and not stops_it:
            who = f"operator pod {found.pods[0].ref} ({found.pods[0].image}) exists" if found.pods else ""
            what = who or f"{found} has replicas {found.replicas}"
            findings.append(
                refuse(
                    "GM-122",
                    found.pods[0].ref if found.pods else None,
                    None,
                    f"{what}: a live operator that sees other hashes starts a rolling update; scale it to zero, or run "
                    "with --stop-operator",
                )
            )
        blocking = authorizer.blocking(self._store)
        if blocking is not None and not self._options.exempt_from_authorizer:
            findings.append(refuse("GM-202", None, None, blocking.remedy))
        return findings

    def stranger(self, targets: Iterable[str]) -> str | None:
        """An operator that speaks none of the target schemes and may read what was written; its description.

        A Deployment at zero with the old image is how every Helm hook ends, and is none.
        """
        found = self._refreshed()
        if found is None:
            return None
        speak = [schemes.by_name(name) for name in targets]
        for pod in found.pods:
            if not self._is_target(pod.image, speak):
                return f"operator pod {pod.ref} ({pod.image})"
        if found.replicas > 0 and not self._is_target(found.image, speak):
            return f"{found} with replicas {found.replicas} and image {found.image}"
        return None

    def _is_target(self, image: str, speak: Iterable[Scheme]) -> bool:
        return any(
            operator.is_target(image, one, self._options.target_image, self._options.target_digests) for one in speak
        )

    # --- the record ---------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> RunRecord | None:
        """The record of a run that did not end: this one, or one that died."""
        run = self.recorded.run
        return run if run is not None and run.finished is None else None

    @property
    def superseded(self) -> RunRecord | None:
        """The newest run that ended well before this one: what it wrote stands, whatever becomes of this run."""
        return next((run for run in self.recorded.history if run.finished is not None), None)

    def remembered_operator(self) -> tuple[int | None, str | None]:
        """Replicas and image of the operator before it was stopped, so that a revert gives it back.

        Where this run did not stop it, as the last run recorded, if it still is that operator.
        """
        if self._stopped is not None:
            return self._stopped.replicas, self._stopped.image
        found, last = self.operator, self.recorded.run
        if found is None:
            return None, None
        known = last is not None and last.operator_image == found.image
        return (last.operator_replicas if last is not None and known else None), found.image

    def begin_record(self, state: str, replicas: int | None, image: str | None) -> None:
        """Record that this run is under way, before anything is touched."""
        self.save_record(
            RunRecord(
                run_id=self._context.run_id,
                identity=self._context.identity,
                source=self._options.plan.source,
                target=self._options.plan.target,
                started=self._context.now(),
                finished=None,
                state=state,
                operator_replicas=replicas,
                operator_image=image,
                lease=self.lease_name,
            )
        )

    def save_record(self, run: RunRecord) -> None:
        """Replace the run's record."""
        self.recorded = replace(self.recorded, run=run, history=self.recorder.save_run(run))

    def forget(self) -> None:
        """Remove the record: nothing is left that it could explain. What an earlier run recorded stands."""
        if self.superseded is not None and not self._options.revert:
            self.save_record(self.superseded)
            return
        self.recorder.delete_all()
        self.recorded = Recorded()

    # --- letting go ---------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Let go of the exemption and the Lease; what fails is logged, for the run is over either way."""
        if self._exempted:
            self._exempted = False
            try:
                authorizer.withdraw(self._store, self._context.log)
            except MigratorError as error:
                self._context.log.warning("exemption_not_removed", error=str(error))
        self._alone = False
        while self._fences:
            self._fences.popitem()[1].release()

    def restore_operator(self) -> None:
        """Give back the replicas that a run of ours took, if the operator is still the one that it stopped.

        Only where nothing of what was written is left: the caller knows. And only an operator that reads what is
        there: after a revert none of the target's, beside an earlier migration that stands no other. The Lease is
        still held, so that no other run begins in between; the operator waits for it.
        """
        run = self.recorded.run
        if run is None or not run.operator_replicas or self.operator is None or not self._options.stop_operator:
            return
        found = operator.refresh(self._store, self.operator)
        if found.replicas > 0:
            return
        way = direction(self._options.plan)
        of_target = self._is_target(found.image, map(way.target_of, way.candidates))
        misreads = of_target if self._options.revert else self.superseded is not None and not of_target
        if found.image != run.operator_image or misreads:
            self._context.log.warning(
                "operator_left_at_zero", deployment=str(found), image=found.image, stopped_image=run.operator_image
            )
            return
        operator.scale(self._store, found, run.operator_replicas)
        self.left_down = False
        self._context.log.info(
            "operator_restored", deployment=str(found), replicas=run.operator_replicas, image=found.image
        )

    def current_operator(self) -> operator.Operator | None:
        """The operator as it is now, ``None`` where there is none or it may not be read any more."""
        if self.operator is None or not self.operator.deployment:
            return None
        try:
            return operator.refresh(self._store, self.operator)
        except MigratorError as error:
            self._context.log.warning("operator_not_read", error=str(error))
            return None

    def _another_leads(self, stopped: operator.Operator) -> bool:
        """Whether somebody else than the operator that we stopped holds the Lease, or that cannot be seen."""
        try:
            holder = LeaseObject(self._store, self._namespace, stopped.lease_name).get().holder
        except NotFound:
            return False
        except MigratorError:
            return True
        operators = tuple(f"{pod.ref.name}_" for pod in stopped.pods)  # client-go: host name, underscore, uuid
        return bool(holder) and holder != self._context.identity and not holder.startswith(operators)

    def _find(self) -> operator.Operator | None:
        return operator.find(
            self._store,
            namespace=self._options.operator_namespace,
            deployment=self._options.operator_deployment,
            lease_name=self._options.lease_name,
        )

    def _refreshed(self) -> operator.Operator | None:
        if self.operator is None:  # one may have appeared since
            self.operator = self._find()
            return self.operator
        return operator.refresh(self._store, self.operator)

    def _pause(self, seconds: float) -> None:
        self._context.sleep(seconds)
        if self._context.stop.is_set():
            raise Interrupted("interrupted while waiting, before the first write; run again")
