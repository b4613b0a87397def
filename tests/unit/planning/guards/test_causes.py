"""Causes of hashes that nobody can recompute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.kinds import pointer
from tests.support.builders import LABEL, World, clique, refusals, warnings
from tests.support.tables import table

SET, FRONT = ("PodCliqueSet", "web"), ("PodClique", "web-0-front")
#: The refusal of a trapped clique.
TRAPPED = ("GM-101", "web-0-prefill-worker", LABEL)


def trapped(first: str = "worker", then: str = "prefill-worker") -> World:
    """Two cliques, the name of one a suffix of the other's, as the operator would have hashed them."""
    world = World().grow(cliques=[clique(first), clique(then)], groups={})
    match = world.hashes("legacy-1.34").templates[first if then.endswith(first) else then]
    for field in (LABEL, "/status/currentPodTemplateHash", "/status/updateProgress/podTemplateHash"):
        world.put("PodClique", f"web-0-{then}", field, match)
    for number in (0, 1):
        world.put("Pod", f"web-0-{then}-{number}", LABEL, match)
    return world


def renamed() -> World:
    return World().grow().put(*SET, "/spec/template/cliques/0/name", "renamed")


def unlabelled(label: str) -> World:
    return World().grow().take("Pod", "web-0-front-0", pointer("metadata", "labels", label))


def polluted(
    *,
    enabled: str = "enabled",
    gpus: object = "8",
    others: object = None,
    resource: str = "nvidia.com/gpu",
    group: bool = False,
    scheme: str = "legacy-1.34",
) -> World:
    """A set whose PodClique was hashed with an injected claim."""
    cliques = [clique("front", gpus=gpus), clique("work", gpus=others)]
    for container in cliques[0]["spec"]["podSpec"]["containers"] if gpus is not None else ():
        container["resources"] = {"limits": {resource: gpus}}
    world = World().grow(cliques=cliques, groups={"sg": ["front"]} if group else {}, scheme=scheme)
    world.pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": enabled}
    name = "web-0-sg-0-front" if group else "web-0-front"
    world.put("PodClique", name, LABEL)
    for number in (0, 1):
        world.put("Pod", f"{name}-{number}", LABEL)
    return world


@table(
    "world refused words",
    (
        "A clique hashed from another's template by its name's ending refuses, once for all values that follow.",
        (trapped, [TRAPPED], "put prefill-worker before worker"),
    ),
    (
        "In the other order the operator finds the right template.",
        (lambda: trapped("prefill-worker", "worker"), [], ""),
    ),
    (
        "A pod with a hash of neither clique is reported beside the trap.",
        (
            lambda: trapped().put("Pod", "web-0-prefill-worker-0", LABEL),
            [("GM-101", "web-0-prefill-worker-0", LABEL), TRAPPED],
            "",
        ),
    ),
    (
        "Two cliques with one template have one hash, whichever the operator takes.",
        (
            lambda: World().grow(cliques=[clique("worker"), {**clique("worker"), "name": "prefill-worker"}], groups={}),
            [],
            "",
        ),
    ),
    (
        "A PodClique of no clique proves nothing: one refusal stands for its template hashes and its pods'.",
        (
            renamed,
            [("GM-101", "web-0-front", LABEL)],
            "is of clique front, which the template of PodCliqueSet default/web does not have",
        ),
    ),
    (
        "A generation hash has no such cause.",
        (
            lambda: renamed().put(*FRONT, "/status/currentPodCliqueSetGenerationHash"),
            [("GM-101", "web-0-front", "/status/currentPodCliqueSetGenerationHash"), ("GM-101", "web-0-front", LABEL)],
            "",
        ),
    ),
    (
        "Names are never split: without its labels a PodClique has no clique.",
        (
            lambda: World().grow().take(*FRONT, "/metadata/labels/grove.io~1podcliqueset-replica-index"),
            [("GM-101", "web-0-front", LABEL)],
            "is of a clique that its labels do not name",
        ),
    ),
    (
        "alpha.6 and alpha.7 hash the claims that they inject: the cause is named in place of label and pods.",
        (polluted, [("GM-101", "web-0-front", LABEL)], "hash the claims that they inject"),
    ),
    (
        "A label that is missing has no such cause.",
        (
            lambda: polluted().put(*FRONT, LABEL, ""),
            [("GM-101", name, LABEL) for name in ("web-0-front-0", "web-0-front-1", "web-0-front")],
            "let the operator reconcile it",
        ),
    ),
)
def test_a_cause_is_named_once(world: Callable[[], World], refused: list[Any], words: str) -> None:
    """Each cause refuses once, in place of the values that follow from it."""
    found = world().findings()
    assert refusals(found) == refused
    assert warnings(found) == []
    assert any(words in f"{finding.message}; {finding.remedy}" for finding in found) or not refused


def test_templates_that_only_the_target_tells_apart_make_a_trap() -> None:
    """Cliques that differ in order alone are equal to a canonical source and different to a legacy target."""
    worker = clique("worker")
    containers = worker["spec"]["podSpec"]["containers"]
    other = {**worker, "name": "prefill-worker", "spec": {"podSpec": {"containers": containers[::-1]}}}
    world = World().grow(cliques=[worker, other], groups={}, scheme="canonical-1.34")
    assert TRAPPED in refusals(world.findings("canonical-1.34", "legacy-1.35"))


@table(
    "but",
    ("The annotation is off.", ({"enabled": "disabled"},)),
    ("No GPU.", ({"gpus": "0"},)),
    ("No limit of GPUs.", ({"gpus": None},)),
    ("GPUs for which the operator injects no claim.", ({"resource": "amd.com/gpu"},)),
    ("Another clique has the GPUs.", ({"gpus": None, "others": "8"},)),
    ("A PodClique of a scaling group.", ({"group": True},)),
    ("A release without the fault.", ({"scheme": "legacy-1.33"},)),
)
def test_mnnvl_is_blamed_where_it_can_be(but: dict[str, Any]) -> None:
    """Elsewhere each value is named."""
    found = polluted(**but).findings()
    assert len(refusals(found)) > 1
    assert not any("inject" in finding.message for finding in found)


def test_mnnvl_is_not_blamed_for_a_label_that_is_right() -> None:
    """Where the label is the template's own, a stray status hash has another cause."""
    world = polluted()
    label = world.hashes("legacy-1.34").templates["front"]
    for item in (world.of("PodClique", "web-0-front"), *world.all("Pod")[:2]):
        item["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = label
    assert world.findings() == []
    found = world.put("PodClique", "web-0-front", "/status/currentPodTemplateHash").findings()
    assert [code for code, _, _ in warnings(found)] == ["GM-107"]


@table(
    "world settles",
    ("The operator never escapes the trap by itself.", (trapped(), False)),
    ("The claims stay in the hash.", (polluted(), False)),
    ("A pod that lost the label of its PodClique keeps lacking it.", (unlabelled("grove.io/podclique"), False)),
    ("So does one without a hash.", (unlabelled(LABEL_POD_TEMPLATE_HASH), False)),
    ("The operator is still removing a PodClique of no clique.", (renamed(), True)),
    ("It labels a PodClique.", (World().grow().put(*FRONT, LABEL, ""), True)),
    ("It rolls an edit out.", (World().grow().put(*SET, "/status/currentGenerationHash"), True)),
)
def test_only_what_the_operator_ends_by_itself_is_waited_for(world: World, *, settles: bool) -> None:
    """The remedy of all others is an action of somebody."""
    assert {finding.settles for finding in world.findings() if finding.code == "GM-101"} == {settles}
