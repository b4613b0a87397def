"""Expand the readable case files, and the places of the layouts, to the inputs of golden vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from testbed.oracle import MINORS
from tests.support.layout_walk import Place, document, fields, filled, places, underlying

CASES = Path(__file__).resolve().parent / "cases"


class Case(NamedTuple):
    """One input, as the bytes of its JSON text."""

    id: str
    text: bytes


def templates() -> Iterator[Case]:
    """Yield every hand-made template and one for each thing that can be set in a pod template."""
    for path in sorted(CASES.glob("*.yaml")):
        if path.name not in {"podcliquesets.yaml", "workloads.yaml"}:
            yield from _groups(path)
    for name, pcs in _workloads():
        for clique in pcs["spec"]["template"]["cliques"]:
            shown = {key: clique[key] for key in ("labels", "annotations") if key in clique}
            yield _case(f"workload/{name}/{clique['name']}", {**shown, "podSpec": clique["spec"]["podSpec"]})
    yield from _places()


def pod_clique_sets() -> Iterator[Case]:
    """Yield odd PodCliqueSets, then every workload; random sets have all startup types and orders."""
    yield from _groups(CASES / "podcliquesets.yaml")
    for name, pcs in _workloads():
        yield _case(name, pcs)


def _case(identity: str, value: Any) -> Case:
    return Case(identity, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _groups(path: Path) -> Iterator[Case]:
    """A group is a JSON text and the raw JSON tokens that stand for `@` in it, one vector for each."""
    for group in yaml.safe_load(path.read_text(encoding="utf-8")):
        encoding = "latin-1" if group.get("bytes") else "utf-8"
        for value in group["values"]:
            identity = f"{path.stem}/{group['group']}/{value}"
            yield Case(identity, group["text"].replace("@", value).encode(encoding))


def _workloads() -> list[tuple[str, dict[str, Any]]]:
    documents = yaml.safe_load_all((CASES / "workloads.yaml").read_text(encoding="utf-8"))
    return [(pcs["metadata"]["name"], pcs) for pcs in documents]


def _places() -> Iterator[Case]:
    """Each place set; empty where empty is not absent; and each list as two elements in the wrong order."""
    for minor, place in _places_of_all_minors():
        basic = underlying(minor, place.type.removeprefix("*"))
        yield _case(f"place/{place}", document(place.path, filled(minor, place.type)))
        if basic.startswith("[]"):
            yield _case(f"place/{place}=[]", document(place.path, []))
            yield _case(f"place/{place}=[null]", document(place.path, [None]))
            two = [filled(minor, basic[2:], 2), filled(minor, basic[2:], 1)]
            yield _case(f"place/{place}/two", document(place.path, two))
        elif basic.startswith("map[") or any(fields(minor, basic)):
            yield _case(f"place/{place}={{}}", document(place.path, {}))


def _places_of_all_minors() -> Iterator[tuple[str, Place]]:
    seen: set[Place] = set()
    for minor in reversed(MINORS):
        for place in places(minor):
            if place not in seen:
                seen.add(place)
                yield minor, place
