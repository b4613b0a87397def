"""A run that writes nothing to a cluster: on a file, or as a dry run."""

from __future__ import annotations

from dataclasses import replace

from migrator.errors import VerificationFailed
from migrator.grove.model import Finding, Severity
from migrator.run import operator, record
from migrator.run.context import Context
from migrator.run.preview import in_the_way
from migrator.run.runs import (
    RunOptions,
    RunResult,
    Stages,
    executor_for,
    jobs_of,
    log_findings,
    namespace_of,
    plan_for,
    refuse_if_any,
)
from migrator.run.snapshot import take
from migrator.run.verify import check_written
from migrator.store import DryRun, Store


class Rehearsal:
    """A run on a file, or a dry run: no Lease, no record, no Deployment; refuses where the run would."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._stages = Stages(context)

    def run(self) -> RunResult:
        """Raise what the run would raise, and write what a file or a dry run may be given."""
        with self._stages.stage("snapshot"):
            snapshot = take(self._store)
        recorded, findings = self._surroundings() if self._store.is_cluster else (record.Recorded(), [])
        with self._stages.stage("plan"):
            plan = plan_for(snapshot, self._options, recorded, self._context)
            if any(tree.changes for tree in plan.trees):
                plan = replace(plan, findings=(*plan.findings, *findings))
        log_findings(plan, self._context)
        refuse_if_any(plan)
        result = RunResult(plan, seconds=self._stages.seconds)
        jobs = jobs_of(plan, revert=self._options.revert)
        if self._store.dry_run is DryRun.CLIENT:
            return result
        with self._stages.stage("execute"):
            outcomes = executor_for(self._store, self._context, check=lambda: None).run(jobs)
            for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
        result.patches, result.trees = sum(o.writes for o in outcomes), len(outcomes)
        if self._store.dry_run is DryRun.NONE:  # a file: what a dry run sent is nowhere to be read
            with self._stages.stage("verify"):
                wrong, _ = check_written(jobs, (), take(self._store))
                if wrong:
                    raise VerificationFailed(wrong[0].message)
        return result

    def _surroundings(self) -> tuple[record.Recorded, list[Finding]]:
        """What was recorded, and what stands in the way: a live operator is worth a warning, for nothing is written."""
        found = operator.find(
            self._store,
            namespace=self._options.operator_namespace,
            deployment=self._options.operator_deployment,
            lease_name=self._options.lease_name,
        )
        namespace = namespace_of(self._store, self._options, self._context, found)
        findings = [
            replace(finding, severity=Severity.REFUSAL)
            if finding.code == "GM-202" and not self._options.exempt_from_authorizer
            else finding
            for finding in in_the_way(self._store, found)
        ]
        return record.Recorder(self._store, namespace).load(), findings
