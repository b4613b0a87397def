"""The plans of an upgrade without a named target: one for each scheme that a release speaks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from migrator.grove.objects import Snapshot
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.model import Plan, Table
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan
from migrator.planning.releases import targets


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cluster or the dump as it is, whatever the target; counts are of selected sets and their live pods.

    ``running`` is the release of the operator if its image names one. ``record`` tells of a run that did not end, and
    ``resumes`` is the target of that run.
    """

    name: str | None
    is_cluster: bool
    sets: int = 0
    pods: int = 0
    gpus: int = 0
    operator: str | None = None
    running: str | None = None
    record: str = ""
    resumes: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A scheme, the releases that speak it (``running``: one of them runs), and the plan of an upgrade to them."""

    scheme: Scheme
    releases: tuple[str, ...]
    running: bool
    plan: Plan


def outlook(
    snapshot: Snapshot,
    options: PlanOptions,
    *,
    tables: Mapping[str, Table] | None = None,
    now: datetime | None = None,
    running: str | None = None,
) -> Iterator[Target]:
    """Plan for every scheme that a release speaks, one by one, because a plan is as large as a cluster.

    Arguments and exceptions are those of :func:`~migrator.planning.planner.make_plan`; ``options.target`` is ignored.
    """
    for scheme, releases in targets():
        plan = make_plan(snapshot, replace(options, target=scheme.name), tables=tables, now=now, running=running)
        yield Target(scheme, releases, running in {r.name for r in schemes.speakers(scheme)}, plan)
