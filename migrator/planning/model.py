"""A plan: what is to be changed, what was found, and which pods are at stake. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from migrator.errors import Refused
from migrator.grove.objects import Ref, Tree
from migrator.grove.places import subresource_of
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import HashPair, next_has_begun
from migrator.releases.table import Named
from migrator.words import count


class Severity(StrEnum):
    """A guard's judgement: it forbids the migration, or it only informs."""

    REFUSAL = "refusal"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A guard's finding: a stable code, the object, its field (JSON Pointer), the fact, and what to do about it.

    ``ref`` is ``None`` for a finding about the cluster or the run. ``message`` says what is with the object, without
    naming it: "has no label x". ``remedy`` is empty if there is nothing to do. ``overridable``: ``--allow`` accepts
    this refusal. ``settles``: the running operator may end it without help, so that ``--wait`` waits for it.
    """

    code: str
    severity: Severity
    ref: Ref | None
    field: str | None
    message: str
    remedy: str = ""
    overridable: bool = False
    settles: bool = False

    @property
    def fact(self) -> str:
        """The object, and what is with it."""
        return f"{self.ref} {self.message}" if self.ref is not None else self.message

    @property
    def as_warning(self) -> Finding:
        """The same finding as a warning."""
        return replace(self, severity=Severity.WARNING)

    def __str__(self) -> str:
        """The fact and the remedy, for a log line or an error."""
        return f"{self.fact}. {self.remedy[:1].upper()}{self.remedy[1:]}" if self.remedy else self.fact


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A guard that could not be judged, what it asks, and the reason: this is a dump, or a permission is missing."""

    code: str
    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class KnownIssue:
    """The entry of a known issue, which never refuses: a short title, what happens, where that is said, what to do."""

    code: str
    title: str
    effect: str
    source: str
    remedy: str
    confidence: str

    def advice(self, ref: Ref, conditions: Sequence[str] = (), effect: str = "", remedy: str = "") -> Advice:
        """What this issue says of an object, under ``conditions``; effect and remedy are the issue's by default."""
        message = (effect or self.effect) + (f" (if {' and '.join(conditions)})" if conditions else "")
        return Advice(self, ref, message, remedy or self.remedy)


@dataclass(frozen=True, slots=True)
class Advice:
    """What a known issue says of an object."""

    issue: KnownIssue
    ref: Ref
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Change:
    """One field whose value is the source's hash and will become the target's.

    ``clique`` and ``identity`` are those of :class:`~migrator.grove.places.StoredHash`.
    """

    ref: Ref
    field: str
    old: str
    new: str
    clique: str | None = None
    identity: tuple[str, str] | None = None

    @property
    def subresource(self) -> str:
        """The subresource that accepts this change."""
        return subresource_of(self.field)


class SetState(StrEnum):
    """What a plan does with a set."""

    DONE = "done"
    MIGRATE = "migrate"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Disruption:
    """The pods that the next operator recreates, and their GPUs."""

    pods: int = 0
    gpus: int = 0

    def __add__(self, other: Disruption) -> Disruption:
        return Disruption(self.pods + other.pods, self.gpus + other.gpus)


@dataclass(frozen=True, slots=True)
class SetPlan:
    """The plan of one set.

    ``source`` is ``None`` if no scheme explains it. ``hashes`` is ``None`` if it was left alone without a look at its
    hashes. ``disruption`` is what the next operator recreates without the migration, ``remaining`` what it recreates
    although this set is migrated, if it can be.
    """

    tree: Tree
    source: Scheme | None
    target: Scheme
    state: SetState
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    disruption: Disruption = Disruption()
    remaining: Disruption = Disruption()
    hashes: HashPair | None = None

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that forbid the migration of this set."""
        return tuple(f for f in self.findings if f.severity is Severity.REFUSAL)

    @property
    def next_has_begun(self) -> bool:
        """Whether the next operator has begun the update that a migration prevents."""
        return self.hashes is not None and next_has_begun(self.tree, self.hashes)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plans of the selected sets, and the findings about the cluster as a whole.

    ``source`` is ``None`` if it was not named. ``cluster_disruption`` counts the whole cluster. ``operator`` describes
    the one that was seen, and ``running`` is its release. ``not_checked`` are the guards that could not be judged.
    """

    source: Named | None
    target: Named
    set_plans: tuple[SetPlan, ...] = ()
    findings: tuple[Finding, ...] = ()
    cluster_disruption: Disruption = Disruption()
    advisories: tuple[Advice, ...] = ()
    operator: str | None = None
    running: str | None = None
    not_checked: tuple[NotChecked, ...] = ()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings of the sets, then those about the cluster."""
        return (*(finding for set_plan in self.set_plans for finding in set_plan.findings), *self.findings)

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Everything that forbids the run."""
        return tuple(finding for finding in self.all_findings if finding.severity is Severity.REFUSAL)

    @property
    def waits_for_an_operator(self) -> bool:
        """Whether something forbids the run that an operator may end."""
        return any(finding.settles for finding in self.refusals)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Everything that informs."""
        return tuple(finding for finding in self.all_findings if finding.severity is Severity.WARNING)

    def number_of(self, state: SetState) -> int:
        """How many of the selected sets are in this state."""
        return sum(set_plan.state is state for set_plan in self.set_plans)

    @property
    def remaining(self) -> Disruption:
        """The pods of the cluster that are recreated although the sets that can be migrated are."""
        total, sets = self.cluster_disruption, self.set_plans
        return Disruption(
            pods=total.pods - sum(one.disruption.pods - one.remaining.pods for one in sets),
            gpus=total.gpus - sum(one.disruption.gpus - one.remaining.gpus for one in sets),
        )


def refused(plan: Plan, *, skip_refused: bool, half_way: bool) -> Refused | None:
    """The error for the first refusal, if there is one; ``skip_refused`` if refused sets were to be left out.

    ``half_way``: no operator may run, so the remedy of a refusal that an operator would end is left out.
    """
    found = sorted(plan.refusals, key=lambda finding: finding.code != "GM-205")  # the others follow from it
    if not found:
        return None
    rest = count(len(found) - 1, "more refusal")
    more = f" (and {rest}; `grove-migrator plan --to {plan.target}` lists them all)" if len(found) > 1 else ""
    if skip_refused and not {one.state for one in plan.set_plans} & {SetState.MIGRATE, SetState.DONE}:
        more += "; --skip-refused would leave nothing to migrate"
    first = found[0]
    said = first.fact if half_way and first.settles else str(first)
    return Refused(f"{said}{more}", guard=first.code, ref=first.ref, field=first.field)


def codes_to_wait_for(plan: Plan) -> list[str]:
    """The codes that ``--wait`` waits for; none if a refusal stays until somebody helps.

    A set that ``--skip-refused`` leaves out is waited for too, if a refusal of it may end without help.
    """
    skipped = (one for one in plan.set_plans if one.state is SetState.SKIPPED)
    left_out = (finding for one in skipped for finding in one.findings if finding.settles)
    all_settle = all(finding.settles for finding in plan.refusals)
    return sorted({finding.code for finding in (*plan.refusals, *left_out)}) if all_settle else []


def pending(plan: Plan) -> list[SetPlan]:
    """The sets that are to be written."""
    return [set_plan for set_plan in plan.set_plans if set_plan.state is SetState.MIGRATE]
