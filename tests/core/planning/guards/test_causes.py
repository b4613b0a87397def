"""Causes of hashes that the operator computed and nobody can recompute: named once, in place of what follows."""

from __future__ import annotations

from typing import Any

from tests.support.builders import HASH_LABEL, LABEL, World, clique, refusals, warnings
from tests.support.tables import table


def trapped(*, first: str = "worker", then: str = "prefill-worker") -> World:
    """Two cliques, the name of one a suffix of the other's, as the operator would have hashed them."""
    world = World().grow(cliques=[clique(first), clique(then)], groups={})
    found = world.hashes("legacy-1.34").pod_template_hashes
    match = first if then.endswith(first) else then
    for field in (LABEL, "/status/currentPodTemplateHash", "/status/updateProgress/podTemplateHash"):
        world.put("PodClique", f"web-0-{then}", field, found[match])
    for number in (0, 1):
        world.put("Pod", f"web-0-{then}-{number}", LABEL, found[match])
    return world


def test_the_suffix_trap_is_named_once() -> None:
    """A clique hashed from another's template by its name's ending refuses, once for all values that follow."""
    assert refusals(trapped().findings()) == [("GM-123", "web-0-prefill-worker", LABEL)]


def test_the_way_out_of_the_suffix_trap_is_one_that_the_webhook_allows() -> None:
    """Cliques change places under AnyOrder only; elsewhere the set is made anew."""
    world = trapped()
    assert "put prefill-worker before worker" in world.findings()[0].message
    world.pcs["spec"]["template"]["cliqueStartupType"] = "CliqueStartupTypeInOrder"
    assert "recreate the set with other names" in world.findings()[0].message


def test_the_suffix_trap_needs_the_shorter_name_first() -> None:
    """In the other order the operator finds the right template."""
    assert trapped(first="prefill-worker", then="worker").findings() == []


def test_the_suffix_trap_does_not_cover_other_strays() -> None:
    """A pod with a hash of neither clique is reported beside the trap."""
    world = trapped()
    world.put("Pod", "web-0-prefill-worker-0", LABEL)
    assert refusals(world.findings()) == [
        ("GM-111", "web-0-prefill-worker-0", LABEL),
        ("GM-123", "web-0-prefill-worker", LABEL),
    ]


def test_equal_templates_make_no_trap() -> None:
    """Two cliques with one and the same template have one hash, whichever the operator takes."""
    twin = clique("worker")
    world = World().grow(cliques=[twin, {**twin, "name": "prefill-worker"}], groups={})
    assert world.findings() == []


def test_templates_that_only_the_target_tells_apart_make_a_trap() -> None:
    """Cliques that differ in order alone are equal to a canonical source and different to a legacy target."""
    worker = clique("worker")
    containers = worker["spec"]["podSpec"]["containers"]
    other = {**worker, "name": "prefill-worker", "spec": {"podSpec": {"containers": containers[::-1]}}}
    world = World().grow(cliques=[worker, other], groups={}, scheme="canonical-1.34")
    assert ("GM-123", "web-0-prefill-worker", LABEL) in refusals(world.findings("canonical-1.34", "legacy-1.35"))


def test_a_clique_that_the_template_lacks_refuses_once() -> None:
    """A PodClique of no clique proves nothing: one refusal stands for its template hashes and its pods'."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][0]["name"] = "renamed"
    found = world.decide()
    assert refusals(found.findings) == [("GM-109", "web-0-front", LABEL)]
    assert "of clique front, which the template of PodCliqueSet default/web does not have" in found.findings[0].message


def test_a_clique_whose_labels_do_not_tell_refuses() -> None:
    """Names are never split: without its labels a PodClique has no clique."""
    world = World().grow()
    del world.of("PodClique", "web-0-front")["metadata"]["labels"]["grove.io/podcliqueset-replica-index"]
    assert ("GM-109", "web-0-front", LABEL) in refusals(world.findings())


def polluted(
    *, enabled: str = "enabled", gpus: object = "8", group: bool = False, scheme: str = "legacy-1.34"
) -> World:
    """A set whose PodClique was hashed with an injected claim."""
    world = World().grow(
        cliques=[clique("front", gpus=gpus), clique("work")], groups={"sg": ["front"]} if group else {}, scheme=scheme
    )
    world.pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": enabled}
    name = "web-0-sg-0-front" if group else "web-0-front"
    world.put("PodClique", name, LABEL)
    for number in (0, 1):
        world.put("Pod", f"{name}-{number}", LABEL)
    return world


def test_mnnvl_pollution_is_named_once() -> None:
    """alpha.6 and alpha.7 hash the claims that they inject: the cause is named in place of label and pods."""
    assert refusals(polluted().findings()) == [("GM-126", "web-0-front", LABEL)]


@table(
    "but",
    ("The annotation is off.", ({"enabled": "disabled"},)),
    ("No GPU.", ({"gpus": "0"},)),
    ("No limit of GPUs.", ({"gpus": None},)),
    ("A PodClique of a scaling group.", ({"group": True},)),
    ("A release without the fault.", ({"scheme": "legacy-1.33"},)),
)
def test_mnnvl_is_blamed_where_it_can_be(but: dict[str, Any]) -> None:
    """Elsewhere the plain codes are given."""
    assert {code for code, _, _ in refusals(polluted(**but).findings())} == {"GM-109", "GM-111"}


def test_mnnvl_is_not_blamed_for_a_label_that_is_right() -> None:
    """Where the label is the template's own, a stray status hash has another cause."""
    world = polluted()
    label = world.hashes("legacy-1.34").pod_template_hashes["front"]
    for item in (world.of("PodClique", "web-0-front"), *world.all("Pod")[:2]):
        item["metadata"]["labels"][HASH_LABEL] = label
    assert world.findings() == []
    found = world.put("PodClique", "web-0-front", "/status/currentPodTemplateHash").findings()
    assert [code for code, _, _ in warnings(found)] == ["GM-109"]
