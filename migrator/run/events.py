"""One Event per PodCliqueSet, for people who use kubectl; a failure to write one is only logged.

Limits and required fields are those of events.k8s.io/v1 (Kubernetes: ``pkg/apis/core/validation/events.go``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import structlog

from migrator.errors import ClusterError, LostReply, NotAuthorised, Unreachable
from migrator.exact_json import JSONObject
from migrator.grove.objects import Ref
from migrator.planning.model import Plan, Severity, TreeState
from migrator.resources import EVENTS, POD_CLIQUE_SETS
from migrator.run.context import Context
from migrator.run.leases import micro_time
from migrator.store import Store

_NOTE_BYTES: Final = 1024
_INSTANCE_BYTES: Final = 128


def migrated(store: Store, plan: Plan, context: Context) -> None:
    """Write an Event about every PodCliqueSet that was migrated and verified."""
    notes = {}
    for tree in (tree for tree in plan.trees if tree.state is TreeState.MIGRATE):
        way = f"from {tree.source} to {tree.target}"
        notes[tree.tree.ref] = f"{len(tree.changes)} stored hashes were migrated {way}; no pod was touched"
    _write(store, notes, "Normal", "HashesMigrated", context)


def refused(store: Store, plan: Plan, context: Context) -> None:
    """Write an Event about every PodCliqueSet that a guard refuses, with the guards' codes."""
    notes = {}
    for tree in (tree for tree in plan.trees if tree.refusals and tree.state is TreeState.REFUSED):
        codes = ", ".join(sorted({finding.code for finding in tree.refusals}))
        notes[tree.tree.ref] = f"not migrated to {tree.target} ({codes}): {tree.refusals[0]}"
    _write(store, notes, "Warning", "MigrationRefused", context)


@contextmanager
def timed(stage: str, seconds: dict[str, float], context: Context) -> Iterator[None]:
    """Log the start and the end of a stage, and add its time to ``seconds``."""
    started = context.clock()
    context.log.info("stage_started", stage=stage)
    try:
        yield
    finally:
        spent = context.clock() - started
        seconds[stage] = round(seconds.get(stage, 0.0) + spent, 3)
        context.log.info("stage_ended", stage=stage, seconds=round(spent, 3))


def log_findings(plan: Plan, log: structlog.typing.FilteringBoundLogger) -> None:
    """One log line for each finding."""
    for finding in (*(found for tree in plan.trees for found in tree.findings), *plan.findings):
        write = log.error if finding.severity is Severity.REFUSAL else log.warning
        write(
            finding.severity.value,
            code=finding.code,
            object=str(finding.ref) if finding.ref else None,
            field=finding.field,
            message=finding.message,
            **({"remedy": finding.remedy} if finding.remedy else {}),
        )


def build(regarding: Ref, *, kind: str, reason: str, note: str, identity: str, now: datetime) -> JSONObject:
    """An Event about a PodCliqueSet; ``kind`` is ``Normal`` or ``Warning``. Long texts are cut."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"generateName": f"{regarding.name}-", "namespace": regarding.namespace},
        "eventTime": micro_time(now),
        "reportingController": "grove.io/migrator",
        "reportingInstance": _cut(identity, _INSTANCE_BYTES),
        "action": "Migrate",
        "reason": reason,
        "type": kind,
        "note": _cut(note, _NOTE_BYTES),
        "regarding": {
            "apiVersion": POD_CLIQUE_SETS.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
    }


def _write(store: Store, notes: Mapping[Ref, str], kind: str, reason: str, context: Context) -> None:
    for ref, note in notes.items():
        body = build(ref, kind=kind, reason=reason, note=note, identity=context.identity, now=context.now())
        try:
            store.create(EVENTS, ref.namespace, body)
        except (NotAuthorised, Unreachable) as error:
            context.log.warning("events_not_written", object=str(ref), error=str(error))
            return  # the others would fail too
        except (ClusterError, LostReply) as error:
            context.log.warning("event_not_written", object=str(ref), error=str(error))


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8: Go counts bytes."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "..."
