"""The decision table, enumerated: one answer for every combination, each of them safe, and no way round in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from migrator.run.decisions import (
    Exit,
    Goal,
    Lease,
    OperatorState,
    Phase,
    RecordState,
    Sets,
    Situation,
    Step,
    Why,
    decide,
    exit_code,
    goal,
    parks,
    why,
)
from tests.support.counts import record

BOTH = (False, True)
LIVE = {OperatorState.TARGET, OperatorState.LOOSE, OperatorState.OTHER}
WROTE = {RecordState.WRITING, RecordState.REVERTING}
READING = {Step.LOOK, Step.WAIT, Step.END}

#: What a step that succeeds uses up: how long others are waited for, and how often sets are written to.
COUNTED = {Step.WAIT, Step.FORWARD, Step.BACKWARD}


def every() -> Iterator[Situation]:
    """Every combination; what cannot matter beside the others has one value."""
    for revert, kept, ours, theirs, operator in product(BOTH, RecordState, Lease, Lease, OperatorState):
        live = operator in LIVE
        for stoppable, sets, phase in product(BOTH if live else (True,), Sets, Phase):
            for begun, restore_due, tired, reason in product(
                BOTH if kept in WROTE else (kept is RecordState.OTHER,),
                BOTH if not live and kept not in {RecordState.NONE, RecordState.OTHER} else (False,),
                BOTH,
                Why,
            ):
                if tired and reason is Why.NONE:
                    continue
                for whole, backable in product(
                    BOTH if begun and sets is not Sets.UNREAD else (True,),
                    BOTH if begun and kept in WROTE else (True,),
                ):
                    yield Situation(
                        revert=revert,
                        record=kept,
                        ours=ours,
                        theirs=theirs,
                        operator=operator,
                        stoppable=stoppable,
                        sets=sets,
                        phase=phase,
                        begun=begun,
                        whole=whole,
                        restore_due=restore_due,
                        backable=backable,
                        tired=tired,
                        why=reason,
                    )


def wrong(seen: Situation, step: Step) -> str | None:  # noqa: C901, PLR0911 - one line for each rule
    """What a step would break."""
    if step in READING:
        return None
    if step is Step.TAKE_LEASE:
        return None if seen.ours is Lease.FREE else "our Lease is not free"
    if seen.ours is not Lease.OURS or seen.theirs is Lease.LOST:
        return "a write without our Lease"
    if step in {Step.FORWARD, Step.BACKWARD} and not (seen.fenced and seen.read):
        return "a write to sets that were not read behind the fence"
    if step is Step.FORWARD and not (seen.open and why(seen) is Why.NONE):
        return "forward without a record, or although there is a reason to give up"
    if step is Step.STOP_OPERATOR and not (seen.stoppable and seen.open):
        return "the operator is stopped before there is a record"
    if step is Step.BACKWARD and (not seen.backable or seen.operator is OperatorState.LOOSE):
        return "hashes are brought back beside an operator that reads the others"
    if step is Step.BACKWARD and (seen.revert or not seen.begun):
        return "there is nothing to bring back"
    if step is Step.RESTORE_OPERATOR and not seen.restore_due:
        return "an operator is started that reads something else"
    if step is Step.FORGET_RECORD and seen.begun and not (seen.revert and seen.sets is Sets.DONE):
        return "the record goes, and what it explains stays"
    return None


@pytest.mark.timeout(600)
def test_every_combination_has_one_safe_answer() -> None:
    """Each answer is one step, and no step breaks a rule: no write without its Leases, its record, its proof."""
    number = 0
    for seen in every():
        step = decide(seen)
        assert type(step) is Step, seen
        assert wrong(seen, step) is None, (wrong(seen, step), step, seen)
        if goal(seen) is Goal.ONWARD and why(seen) is not Why.NONE:  # told to end when all was done
            assert seen.why not in {Why.ENDS_HERE, Why.FOREIGN}, seen
            assert (seen.sets, seen.read, seen.tired) == (Sets.DONE, True, False), seen
        number += 1
    record("decisions", number)
    assert number > 500_000


@pytest.mark.timeout(600)
def test_no_exit_code_says_more_than_what_is_seen() -> None:
    """1, 2, 3 and 5 only where nothing of the run is left; 0 only where all is done; half-written sets are a 6."""
    names = ("record", "ours", "theirs", "sets", "begun", "whole", "restore_due", "revert", "why")
    for found in product(RecordState, Lease, Lease, Sets, BOTH, BOTH, BOTH, BOTH, (Why.NONE, Why.BUSY)):
        seen = Situation(**dict(zip(names, found, strict=True)))
        for reason_code in (Exit.DONE, Exit.FAILED, Exit.USAGE, Exit.REFUSED, Exit.LOST, Exit.REVERTED):
            code = exit_code(reason_code, seen)
            if code in {Exit.FAILED, Exit.USAGE, Exit.REFUSED, Exit.REVERTED}:
                assert not seen.begun, (code, seen)
                assert not seen.restore_due, (code, seen)
            if code == Exit.DONE:
                assert seen.sets is Sets.DONE, seen
            if code == Exit.LOST and seen.begun and seen.ours is not Lease.HELD:
                assert seen.whole, seen
            if code == Exit.STUCK:
                known = seen.operator is OperatorState.TARGET and seen.phase is Phase.FENCED
                assert parks(code, seen) is not known, seen


def after(seen: Situation, step: Step) -> Iterator[Situation]:  # noqa: C901 - one case for each step
    """What may be seen after a step that succeeded, and that uses nothing up."""
    match step:
        case Step.LOOK:
            phase = Phase.WRITTEN if seen.phase is Phase.WRITTEN else Phase.FENCED if seen.fenced else Phase.START
            for sets in (Sets.DONE, Sets.PENDING, Sets.REFUSED):
                for begun in BOTH if seen.record in WROTE else (seen.begun,):
                    yield replace(seen, sets=sets, phase=phase, begun=begun)
        case Step.TAKE_LEASE:
            yield replace(seen, ours=Lease.OURS)
        case Step.OPEN_RECORD:
            yield replace(seen, record=RecordState.STOPPING)
        case Step.STOP_OPERATOR:
            yield replace(seen, operator=OperatorState.GONE)
            yield replace(seen, operator=OperatorState.ENDING)
        case Step.TAKE_OPERATOR_LEASES:
            yield replace(seen, theirs=Lease.OURS)
        case Step.RESTORE_OPERATOR:
            yield replace(seen, restore_due=False, operator=OperatorState.TARGET)
            yield replace(seen, restore_due=False, operator=OperatorState.OTHER)
        case Step.CLOSE_RECORD:
            yield replace(seen, record=RecordState.CLOSED, begun=False)
        case Step.FORGET_RECORD:
            yield replace(seen, record=RecordState.NONE, begun=False, restore_due=False)
            yield replace(seen, record=RecordState.CLOSED, begun=False, restore_due=False)


@pytest.mark.timeout(600)
def test_no_circle_costs_nothing() -> None:
    """Whatever is seen next, steps that succeed lead to the end, or to one that lowers a bounded counter."""
    finished: set[Situation] = set()
    for start in every():
        if start in finished or start.tired or start.why is Why.SKIP:
            continue
        path: list[tuple[Situation, Iterator[Situation]]] = [(start, after(start, decide(start)))]
        on_path = {start}
        while path:
            here, following = path[-1]
            there = next(following, None) if decide(here) not in COUNTED | {Step.END} else None
            if there is None:
                path.pop()
                on_path.discard(here)
                finished.add(here)
            elif there in on_path:
                raise AssertionError([str(decide(seen)) for seen, _ in path] + [here])
            elif there not in finished:
                path.append((there, after(there, decide(there))))
                on_path.add(there)
