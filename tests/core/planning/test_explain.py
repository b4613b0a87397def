"""Why two schemes differ: the account is complete, small, and shows no value."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from migrator.errors import UsageError
from migrator.hashing import schemes
from migrator.hashing.layouts import minors
from migrator.hashing.podcliqueset import dump_template, hash_pod_clique_set
from migrator.planning.explain import as_json, as_text, explain, field_changes, moves, source_of

MINORS = minors()

POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "b",
            "ports": [{"containerPort": 2}, {"containerPort": 1}],
            "env": [{"name": "SECRET", "value": "s3cret"}, {"name": "X", "valueFrom": {"secretKeyRef": {"key": "k"}}}],
            "resources": {"claims": [{"name": "z"}, {"name": "y"}], "limits": {"nvidia.com/gpu": "8"}},
        },
        {"name": "a", "volumeMounts": [{"mountPath": "/z", "name": "v"}, {"mountPath": "/a", "name": "v"}]},
    ],
    "initContainers": [{"name": "z"}, {"name": "y"}],
    "volumes": [
        {
            "name": "v",
            "projected": {"sources": [{"podCertificate": {"signerName": "x", "keyType": "y"}}, {"secret": {}}]},
        },
    ],
    "nodeSelector": {"zone": "s3cret"},
}


def pcs(*cliques: dict[str, Any], **template: Any) -> dict[str, Any]:
    """A PodCliqueSet of these cliques."""
    return {"metadata": {"name": "demo"}, "spec": {"template": {"cliques": list(cliques), **template}}}


def clique(name: str, pod_spec: dict[str, Any]) -> dict[str, Any]:
    """A clique as the template spells it."""
    return {"name": name, "labels": {"l": "s3cret"}, "spec": {"podSpec": pod_spec}}


def scheme(name: str) -> schemes.Scheme:
    """A scheme by name."""
    return schemes.by_name(name)


@pytest.mark.parametrize(("older", "newer"), list(itertools.permutations(MINORS, 2)))
def test_the_named_texts_are_the_whole_difference(older: str, newer: str) -> None:
    """Without the texts of the fields that are named, the two dumps are the same, byte for byte."""
    spec = {**POD_SPEC, "volumes": []}  # podCertificate is a field that 1.33 does not know
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    dumps = {
        minor: dump_template({"labels": {"a": "b"}, "podSpec": spec}, scheme(f"legacy-{minor}")) for minor in MINORS
    }
    texts = {older: dumps[older], newer: dumps[newer]}
    for change in field_changes(template, older, newer):
        which = newer if change.added else older
        text = f" {change.text}"
        assert texts[which].count(text) == len(change.places), change
        texts[which] = texts[which].replace(text, "")
    assert texts[older] == texts[newer]


def test_a_field_that_is_set_is_pointed_out_and_its_value_is_not_shown() -> None:
    """A set field that only one operator sees is the difference that matters; its value stays out of sight."""
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}], "workloadRef": {"name": "s3cret"}}}
    (change,) = field_changes(template, "1.34", "1.35")
    assert (change.struct, change.field, change.added) == ("v1.PodSpec", "WorkloadRef", True)
    assert change.places == change.set_in == ("podSpec",)
    assert "s3cret" not in change.text


def test_moves_name_the_lists_that_the_canonical_order_changes_and_no_other() -> None:
    """Positions are the stored ones, those of nested lists included; init containers and env never move."""
    assert [(move.path, move.order) for move in moves(POD_SPEC)] == [
        ("podSpec.containers", (1, 0)),
        ("podSpec.containers[1].volumeMounts", (1, 0)),
        ("podSpec.containers[0].ports", (1, 0)),
        ("podSpec.containers[0].resources.claims", (1, 0)),
    ]


def test_nothing_moves_between_schemes_of_one_algorithm() -> None:
    """Legacy to legacy is a matter of fields alone."""
    made = explain(pcs(clique("c", POD_SPEC)), scheme("legacy-1.34"), scheme("legacy-1.35"))
    assert made.cliques[0].moves == ()
    assert made.clique_order == ()
    assert not made.order_keys


def test_the_order_of_cliques_is_part_of_the_canonical_generation_hash() -> None:
    """The canonical dump sorts cliques by name, unless they start in order: then it prints their names."""
    cliques = (clique("b", {"containers": []}), clique("a", {"containers": []}))
    source, target = scheme("legacy-1.34"), scheme("canonical-1.34")
    assert explain(pcs(*cliques), source, target).clique_order == (1, 0)
    in_order = explain(pcs(*cliques, cliqueStartupType="CliqueStartupTypeInOrder"), source, target)
    assert in_order.clique_order == ()
    assert in_order.order_keys


def test_auto_takes_the_scheme_whose_generation_hash_is_stored() -> None:
    """`--from auto` looks at what the set stores; nothing stored, or nothing that matches, must be said by hand."""
    document = pcs(clique("c", POD_SPEC))
    for wanted in ("legacy-1.33", "legacy-1.35"):
        document["status"] = {"currentGenerationHash": hash_pod_clique_set(document, scheme(wanted)).generation_hash}
        assert source_of(document, "PodCliqueSet default/demo").name == wanted
    document["status"] = {"currentGenerationHash": "4567"}
    with pytest.raises(UsageError, match="4567, which no known operator computes"):
        source_of(document, "PodCliqueSet default/demo")
    del document["status"]
    with pytest.raises(UsageError, match="PodCliqueSet default/demo stores no generation hash"):
        source_of(document, "PodCliqueSet default/demo")


def test_neither_text_nor_json_shows_a_value() -> None:
    """Templates hold secrets: labels, env values, node selectors and quantities appear nowhere."""
    made = explain(pcs(clique("frontend", POD_SPEC)), scheme("legacy-1.33"), scheme("canonical-1.35"))
    text, document = as_text(made), json.dumps(as_json(made))
    for shown in (text, document):
        assert "s3cret" not in shown
        assert "SECRET" not in shown
        assert "frontend" in shown
    assert "  + HostnameOverride:(*string)<nil>\n      after Resources of v1.PodSpec, in podSpec\n" in text
    assert "  ~ podSpec.containers: the canonical order is 1, 0\n" in text
    assert len(text.splitlines()) < 40


def test_equal_hashes_are_said_to_be_equal() -> None:
    """A template whose lists are sorted already has one hash under both algorithms of a minor."""
    document = pcs(clique("c", {"containers": [{"name": "c"}]}))
    made = explain(document, scheme("legacy-1.34"), scheme("canonical-1.34"))
    assert made.old == made.new
    assert "the same under both" in as_text(made)
    assert made.cliques[0].fields == made.cliques[0].moves == ()


def test_a_set_without_cliques_is_explained_too() -> None:
    """An object without a template is explained without an error."""
    assert explain({"spec": {}}, scheme("legacy-1.34"), scheme("legacy-1.35")).cliques == ()


def test_cliques_that_differ_in_the_same_way_are_explained_once() -> None:
    """Ten cliques of one shape are ten lines of hashes and one difference."""
    same = {"containers": [{"name": "c"}]}
    made = explain(pcs(*(clique(f"c{n}", same) for n in range(10))), scheme("legacy-1.34"), scheme("legacy-1.35"))
    text = as_text(made)
    assert text.count("+ WorkloadRef:") == 1
    assert [line.split(":")[0] for line in text.splitlines() if line.startswith("clique ")] == [
        f"clique c{n}" for n in range(10)
    ]
