"""What rejects patches: Grove's authorizer, seen in its configuration or by a dry run, and webhooks of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from migrator.errors import Refused, Rejected, TestFailed
from migrator.grove.objects import LABEL_MANAGED_BY, MANAGED_BY_GROVE, Ref
from migrator.planning.patches import Patch
from migrator.resources import Op, Resource
from migrator.run import admission
from migrator.store import DryRun
from tests.support.memory_store import MemoryStore

GROVES = {"matchLabels": {LABEL_MANAGED_BY: MANAGED_BY_GROVE}}
RULE = {"operations": ["UPDATE"], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("webhook", "refuses"),
    [
        ({"name": admission.WEBHOOK}, True),
        ({"name": admission.WEBHOOK, "failurePolicy": "Ignore"}, False),
        ({"name": "renamed", "objectSelector": GROVES, "rules": [RULE]}, True),
        ({"name": "renamed", "objectSelector": GROVES, "rules": [RULE | {"resources": ["pods/status"]}]}, False),
        ({"name": "renamed", "objectSelector": GROVES, "rules": [RULE | {"operations": ["DELETE"]}]}, False),
        ({"name": "another", "rules": [RULE]}, False),
    ],
)
def test_the_authorizer_is_known_by_its_name_or_by_what_it_selects(webhook: dict[str, Any], *, refuses: bool) -> None:
    """GM-202 refuses where label changes are certain to be denied while the operator is at zero."""
    found = [*admission.authorizers([{"metadata": {"name": "hooks"}, "webhooks": [webhook]}])]
    assert [(finding.code, finding.remedy) for finding in found] == [("GM-202", admission.REMEDY)] * refuses


class Denier(MemoryStore):
    """A cluster that answers each dry run of a patch with the next of these; ``asked`` are the objects."""

    def __init__(self, *answers: Exception | None) -> None:
        super().__init__()
        self.answers, self.asked, self.modes = [*answers], list[str](), set[DryRun]()

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Iterable[Op], *, subresource: str = ""
    ) -> dict[str, Any]:
        """Answer."""
        del resource, ops
        self.modes.add(self.dry_run)
        self.asked.append("/".join(filter(None, (namespace, name, subresource))))
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer
        return {}


def patch(kind: str, name: str, subresource: str = "", namespace: str = "a") -> Patch:
    """A patch of no changes."""
    return Patch(Ref(kind, namespace, name), subresource, ())


def test_one_patch_is_tried_for_each_kind_subresource_and_namespace() -> None:
    """As dry runs; where a test fails, the webhooks have seen nothing, so the next patch is tried."""
    store = Denier(TestFailed("a test does not hold"))
    patches = [patch("Pod", f"pod-{number}") for number in range(9)]
    patches += [
        patch("Pod", "other", namespace="b"),
        patch("PodClique", "clique"),
        patch("PodClique", "clique", "status"),
    ]
    admission.probe(store, patches)
    assert store.asked == ["a/pod-0", "a/pod-1", "b/other", "a/clique", "a/clique/status"]
    assert store.modes == {DryRun.SERVER}


@pytest.mark.parametrize(
    ("denied_by", "guard", "remedy"),
    [
        (admission.WEBHOOK, "GM-202", admission.REMEDY),
        ("policy.example.test", "GM-202", "let policy.example.test accept it"),
        ("", "", "rejected"),
    ],
)
def test_a_denial_has_the_remedy_of_what_denied(denied_by: str, guard: str, remedy: str) -> None:
    """Grove's authorizer is switched off by its chart; any other webhook or policy is named; an invalid patch too."""
    store = Denier(Rejected("no", status=422, reason="Invalid", denied_by=denied_by))
    with pytest.raises(Refused, match="Pod a/p") as refused:
        admission.probe(store, [patch("Pod", "p")])
    assert refused.value.details.get("guard", "") == guard
    assert remedy in str(refused.value)
