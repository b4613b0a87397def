"""The first look: the cluster as it is, and a plan for every scheme that a release uses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from migrator.hashing.schemes import Scheme
from migrator.planning.model import Disruption, Plan, SetState
from migrator.releases import table


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cluster or the dump as it is, whatever the target; counts are of selected sets and their pods.

    ``installed`` is the release that the operator's image names, and ``running`` is the same if the operator runs.
    ``record`` tells of the last run, ``reached`` is the plan of an upgrade to its target, and ``resumes`` are the flags
    that finish or undo one that did not end.
    """

    name: str
    is_cluster: bool
    sets: int = 0
    pods: int = 0
    gpus: int = 0
    operator: str | None = None
    running: str | None = None
    record: str = ""
    reached: Plan | None = None
    resumes: tuple[str, ...] = ()
    installed: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A scheme, the releases that use it (``running``: one of them runs), and the plan of an upgrade to them."""

    scheme: Scheme
    releases: tuple[str, ...]
    running: bool
    plan: Plan


def plans_for_all_releases(plan_to: Callable[[table.Named], Plan], running: str | None) -> Iterator[Target]:
    """Plan for every scheme that a release uses, one by one, because a plan is as large as a cluster."""
    for scheme in table.released_schemes():
        releases = tuple(one.name for one in table.releases() if one.scheme == scheme and not one.from_main)
        if releases:
            is_running = running in table.builds_with(scheme)
            yield Target(scheme, releases, is_running, plan_to(table.Named(scheme.name, scheme)))


def recreated_by_installed(look: Outlook, targets: Iterable[Target]) -> Disruption:
    """What the installed operator recreates, now or once it starts: nothing if the stored hashes are its own."""
    plans = (target.plan for target in targets if look.installed in target.releases)
    return next((plan.cluster_disruption for plan in plans), Disruption())


def newer_releases(targets: Sequence[Target], running: str | None) -> list[str]:
    """The releases to which an upgrade may lead: those of the targets that are newer than the one that runs.

    If the ``running`` one is not known, it is the newest that uses the scheme of the stored hashes: the old scheme if
    an upgrade has begun to update a set. If none uses that, it is taken for newer than all that are built with the
    same k8s.io/api or an older one.
    """
    plans = [plan for target in targets for plan in target.plan.set_plans]
    stored = {plan.target if plan.state is SetState.DONE else plan.source for plan in plans}
    begun = {plan.source for plan in plans if plan.next_has_begun} - {None}
    sources = [scheme for scheme in begun or stored if scheme is not None]
    schemes = {release: target.scheme for target in targets for release in target.releases}
    older = [running] if running else [name for scheme in sources for name in table.builds_with(scheme)]
    if not older and sources:
        minor = max(scheme.minor for scheme in sources)
        older = [name for name, scheme in schemes.items() if scheme.minor <= minor]
    builds = table.builds()
    newest = max(map(builds.index, older), default=-1)
    return [name for name in builds[newest + 1 :] if name in schemes]
