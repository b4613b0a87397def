"""What a run records: which run it is, how far it got, and which operator knows the old hashes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from migrator import __version__
from migrator.planning import model, planner
from migrator.planning.options import AUTO
from migrator.releases.table import accepts
from migrator.run.record import OperatorBefore, Record, State
from migrator.run.seen import Observation


def next_record(seen: Observation, run_id: str, now: datetime, changes: dict[str, Any], *, wrote: bool) -> Record:
    """The record of the run to this target that did not end, this one or one that died, or a new one; with changes.

    ``wrote``: this run has sent a patch.
    """
    plan, revert = seen.options.plan, seen.options.revert
    last, untouched = seen.last_run, not (seen.dirty or wrote)
    asked: dict[str, Any] = {"source": str(plan.source or AUTO), "target": str(plan.target), "revert": revert}
    if last is not None and last.is_open:
        record = replace(last, **asked)
        if untouched and record.run != run_id:  # that run died before it wrote: it is ours from now on
            record = replace(record, run=run_id, elects=seen.elects)
    else:
        record = Record(
            run=run_id,
            version=__version__,
            started=last.started if last is not None else now,
            state=State.STOPPING if untouched else State.WRITING,
            elects=seen.elects,
            operator=last.operator if last is not None else None,
            # What a run to another target stopped is to be started again, too.
            stopped=seen.open_record.stopped if seen.open_record is not None else None,
            repeats=last is not None,
            **asked,
        )
    if changes.get("state") is State.WRITING and record.run == run_id and not wrote:
        record = replace(record, started=now)
    record = replace(record, scheme=_certain_scheme(seen), **changes)
    old = _old_operator(seen, record, untouched=untouched, has_just_stopped="stopped" in changes)
    return replace(record, operator=old)


def _certain_scheme(seen: Observation) -> str:
    """The source of what this run writes and of what others to this target have written; empty if not certain."""
    plans, last, release = model.pending(seen.plan), seen.last_run, seen.installed_release
    if not plans:
        return last.scheme if last is not None else ""
    if seen.options.revert:
        return plans[0].target.name  # a revert writes the hashes of the source
    likely = release.scheme if release is not None else None
    writer = last if last is not None and (last.repeats or last.state is not State.STOPPING) else None
    if writer is not None:
        likely = writer.source_scheme
    source = planner.certain_source(plans, seen.options.plan, likely)
    return source.name if source is not None and (source == likely or writer is None) else ""


def _old_operator(
    seen: Observation, record: Record, *, untouched: bool, has_just_stopped: bool
) -> OperatorBefore | None:
    """The Deployment of the old hashes: the one that was stopped, if it certainly is, otherwise the recorded one.

    ``untouched``: no run has written yet.
    """
    stopped, recorded = record.stopped, record.operator
    is_proven = recorded is None or record.repeats or accepts(recorded.image, {record.scheme})
    if untouched and not is_proven and seen.has_new_hashes:
        recorded = None  # no hash was new when it was stopped, so it may have written these before it was gone
    if stopped is None or accepts(stopped.image, {record.scheme}):
        return stopped or recorded
    is_first = untouched and recorded is None and not record.revert and not seen.options.is_target(stopped.image)
    if is_first and not seen.has_new_hashes:
        return stopped  # no hash is new yet, so it knows those that are there
    # One tag such as `latest` may be another program now, and a later revert would start that.
    same_tag = has_just_stopped and recorded is not None and stopped.image == recorded.image
    return None if same_tag and (seen.dirty or record.revert) else recorded
