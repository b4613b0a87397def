"""The corners of the pure core that no cluster shows, but a future layout or a strange input may."""

from __future__ import annotations

import pytest

from migrator import exact_json
from migrator.errors import DecodeError, Refused
from migrator.grove.hash_fields import POD_LABEL, StoredHash
from migrator.grove.objects import Ref
from migrator.hashing import layouts, quantity, spew
from migrator.hashing.fnv import Piece, plain
from migrator.planning.detect import HashPair
from migrator.planning.guards.fields import newer_fields
from migrator.planning.model import SetHashes
from migrator.planning.planner import changes_of
from migrator.run import operator_config
from testbed.workloads import standalone
from tests.support.memory_store import MemoryStore


def test_a_config_map_without_the_key_is_passed_over() -> None:
    """A mounted ConfigMap that holds no configuration is not the operator's configuration."""
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "other", "namespace": "grove-system"},
        "data": {"unrelated": "x"},
    }
    mounted = {"volumes": [{"name": "operator-config", "configMap": {"name": "other"}}]}
    with pytest.raises(Refused, match="mounts no readable OperatorConfiguration"):
        operator_config.elects_by(MemoryStore(config_map), "grove-system", mounted)


def test_a_null_below_a_struct_is_no_unknown_field() -> None:
    """A field that is null is not set, whether a minor knows it or not."""
    pcs = standalone()
    pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"] |= {"hostnameOverride": None, "containers": None}
    assert newer_fields(pcs["spec"], "1.33", "1.36") == ()


def test_fields_below_a_map_and_of_a_type_that_became_a_struct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout that was read from a binary may change a type that stands in a map, or replace one by a struct."""
    monkeypatch.setattr(layouts, "_adopted", {})
    base = dict(layouts.load("1.34"))
    spec = base["v1.PodSpec"]
    assert not isinstance(spec, str)
    base["v1.PodSpec"] = (*spec, ("Extra", "extra", "map[string]v1.Extra"), ("Size", "size", "v1.Size"))
    older = layouts.adopt(base | {"v1.Extra": (("A", "a", "string"),), "v1.Size": "int32"})
    newer = layouts.adopt(
        base | {"v1.Extra": (("A", "a", "string"), ("B", "b", "string")), "v1.Size": (("N", "n", "int32"),)}
    )
    pcs = standalone()
    below = {"extra": {"k": {"b": "v"}}, "size": {"n": 1}}
    pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"] |= below
    assert newer_fields(pcs["spec"], older, newer) == ("/spec/template/cliques/0/spec/podSpec/extra/*/b",)


def test_a_value_without_a_hash_of_the_target_is_left() -> None:
    """A recorded table that lacks a clique's new hash changes nothing of that clique."""
    stored = StoredHash(Ref("Pod", "default", "p"), POD_LABEL, "/metadata/labels/x", "old", "front")
    pair = HashPair(SetHashes("g", {"front": "old"}), SetHashes("h", {}))
    assert changes_of([stored], pair) == ()


@pytest.mark.parametrize("text", ["1" * 4001, "1" * 30 + "e200000"])
def test_quantities_out_of_all_proportion_are_refused(text: str) -> None:
    """More digits than any resource has are an error, not minutes of arithmetic; nothing of it is quoted."""
    with pytest.raises(DecodeError, match="a quantity of more than") as refused:
        quantity.parse(text)
    assert "1111" not in str(refused.value)


def test_a_struct_of_a_layout_may_hold_what_json_never_fills() -> None:
    """Unexported fields print their zero; a type that no layout knows is an error that names it."""
    layout = {
        "v1.Odd": (("hidden", None, "int32"), ("Shown", "shown", "string")),
        "v1.Bad": (("Field", "field", "v1.None"),),
    }
    types = spew.Types(layout)
    out: list[Piece] = []
    types.printer("v1.Odd").emit({"shown": "x"}, out)
    assert plain(out) == "{hidden:(int32)0 Shown:(string)x}"
    with pytest.raises(TypeError, match=r"the layout has no type v1\.None"):
        types.printer("v1.Bad")


def test_only_json_is_read_and_written() -> None:
    """NaN is not JSON, and a value of Python's own has no JSON text."""
    with pytest.raises(ValueError, match="NaN is not JSON"):
        exact_json.loads("[NaN]")
    with pytest.raises(TypeError, match="set is not a JSON value"):
        exact_json.dumps({"a": {1}})
