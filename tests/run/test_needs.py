"""The rights of a plan and a run are written down once: the manifests grant these, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
import yaml

from migrator import resources
from migrator.resources import Resource
from migrator.run import rights
from migrator.run.operator import Operator, OperatorFlags
from migrator.run.rights import Right
from tests.support.paths import ROOT

HOME: Final = "grove-system"
KINDS: Final = (
    resources.POD_CLIQUE_SETS,
    resources.POD_CLIQUE_SCALING_GROUPS,
    resources.POD_CLIQUES,
    resources.POD_GANG_MAPS,
    resources.POD_GANGS,
    Resource("grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", namespaced=False),
)
OPERATOR: Final = Operator(HOME, "grove-operator", 1, "example.test/grove-operator:v0.1.0-alpha.9", (), None)
Granted = tuple[str, str, str, str, str]


def granted(file: str) -> set[Granted]:
    """Namespace (empty for all), verb, group, resource with subresource, and name, of each right in a manifest."""
    objects = yaml.safe_load_all((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    return {
        (role["metadata"].get("namespace", ""), verb, group, resource, name)
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for pattern in rule["resources"]
        for resource in ([kind.plural for kind in KINDS if kind.group == group] if pattern == "*" else [pattern])
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def needed(needs: Iterable[Right]) -> set[Granted]:
    """The same of rights that are needed."""
    return {
        (
            right.namespace,
            right.verb,
            right.resource.group,
            "/".join(filter(None, (right.resource.plural, right.subresource))),
            right.name,
        )
        for right in needs
    }


def test_the_manifests_grant_what_a_run_needs_and_no_more() -> None:
    """manifests/base/rbac.yaml against the list that `check run` asks for, in both directions."""
    assert needed(rights.of_run(KINDS, HOME, OPERATOR, OperatorFlags())) == granted("base/rbac.yaml")


def test_the_planners_roles_grant_what_a_plan_needs_and_no_more() -> None:
    """manifests/planner against the list that `check plan` asks for, in both directions."""
    assert needed(rights.of_plan(KINDS, HOME)) == granted("planner/planner.yaml")


def test_a_run_works_without_two_rights() -> None:
    """Those to write Events and to read the webhook's Service; kinds that are not there need no right at all."""
    kinds = [kind for kind in KINDS if kind != resources.POD_GANG_MAPS]
    needs = rights.of_run(kinds, HOME, OPERATOR, OperatorFlags())
    assert {right.resource for right in needs if right.without} == {resources.EVENTS, resources.SERVICES}
    assert resources.POD_GANG_MAPS not in {right.resource for right in needs}


def test_a_plan_of_a_namespace_needs_rights_there_alone() -> None:
    """Without a right outside the namespace the plan goes on."""
    needs = rights.of_plan(KINDS, HOME, "team")
    assert {right.namespace for right in needs if not right.without} == {"team"}


@pytest.mark.parametrize("maps", [True, False])
def test_pod_gangs_are_needed_where_there_are_maps(*, maps: bool) -> None:
    """Without PodGangMaps a PodGang holds no hash that must be known."""
    kinds = [kind for kind in KINDS if maps or kind != resources.POD_GANG_MAPS]
    needs: dict[Any, Right] = {right.resource: right for right in rights.of_plan(kinds, HOME)}
    assert (not needs[resources.POD_GANGS].without) is maps
