"""What is sent to a cluster, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from migrator.cluster import PAGE_SIZE
from migrator.errors import ApiError, ClusterError, LeaseLost, NotFound, Unreachable
from migrator.exact_json import JSONNumber
from migrator.kinds import DEPLOYMENTS, LEASES, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Op, Resource
from migrator.kinds import VALIDATING_WEBHOOK_CONFIGURATIONS as WEBHOOKS
from migrator.kube.store import MAX_LIST_STARTS, KubeCluster
from migrator.kube.transport import Request, Transport
from migrator.run.webhooks import account_of
from tests.support.fake_api import POD, Answer, FakeApi, Serve, ok, status, store_on
from tests.support.memory_objects import CONFIG_MAPS
from tests.support.tables import table

OPS = (Op("test", "/a", None), Op("add", "/b", JSONNumber("1e3")))


def page(*names: str, version: str = "7", more: str | None = None) -> Answer:
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    items = [{"metadata": {"name": name}} for name in names]
    return ok(kind="PodList", apiVersion="v1", metadata=metadata, items=items)


def name(item: dict[str, Any]) -> str:
    found: str = item["metadata"]["name"]
    return found


@table(
    "resource at subresource path brief",
    ("A pod.", (PODS, ("a", "n"), "", "/api/v1/namespaces/a/pods/n", True)),
    (
        "A kind of Grove.",
        (POD_CLIQUES, ("a", "n"), "status", "/apis/grove.io/v1alpha1/namespaces/a/podcliques/n/status", True),
    ),
    ("A Lease.", (LEASES, ("a", "n"), "", "/apis/coordination.k8s.io/v1/namespaces/a/leases/n", False)),
    (
        "A subresource.",
        (DEPLOYMENTS, ("a", "n"), "scale", "/apis/apps/v1/namespaces/a/deployments/n/scale", False),
    ),
    (
        "No namespace.",
        (WEBHOOKS, ("", "n"), "", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/n", False),
    ),
    (
        "A name from a file is a name, whatever it spells.",
        (PODS, ("a", "../../nodes?x=y"), "", "/api/v1/namespaces/a/pods/..%2F..%2Fnodes%3Fx%3Dy", True),
    ),
)
def test_a_patch_goes_to_its_object_and_brings_back_what_is_looked_at(
    api: FakeApi,
    store: KubeCluster,
    *,
    resource: Resource,
    at: tuple[str, str],
    subresource: str,
    path: str,
    brief: bool,
) -> None:
    """Where Kubernetes has it. Nobody looks at a patched pod, but a Lease's answer holds its new version and spec."""
    store.patch(resource, *at, OPS, subresource=subresource)
    assert api.seen[0].path == path
    assert ("PartialObjectMetadata;" in api.seen[0].headers["Accept"]) is brief


def test_patch_is_strict_named_and_complete(api: FakeApi, store: KubeCluster) -> None:
    """Every patch carries field manager, strict validation, and the value of every operation."""
    store.patch(CONFIG_MAPS, "a", "n", OPS)
    seen = api.seen[0]
    assert seen.method == "PATCH"
    assert seen.query == {"fieldManager": "grove-migrator", "fieldValidation": "Strict", "timeout": "6.667s"}
    assert seen.headers["Content-Type"] == "application/json-patch+json"
    assert seen.body == [
        {"op": "test", "path": "/a", "value": None},
        {"op": "add", "path": "/b", "value": JSONNumber("1e3")},
    ]


def test_a_list_may_take_longer_and_a_lease_less_than_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is large; a Lease must be renewed well within its duration."""
    store, sent = store_on("http://127.0.0.1:1"), list[Request]()
    monkeypatch.setattr(Transport, "send", lambda _, request: sent.append(request) or b'{"items":[]}')
    store.list(LEASES, dict)
    store.get(LEASES, "a", "l")
    store.patch(LEASES, "a", "l", OPS)
    store.patch(PODS, "a", "p", OPS)
    assert [request.longest for request in sent] == [60, 5, 5, 10]


def test_a_patch_spells_text_as_go_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server compares texts as JSON, and its own side has these characters escaped."""
    store, sent = store_on("http://127.0.0.1:1"), list[Request]()
    monkeypatch.setattr(Transport, "send", lambda _, request: sent.append(request) or b"{}")
    store.patch(PODS, "a", "p", [Op("test", "/a", "\u00e4<>&\u2028\u2029")])
    assert sent[0].body.endswith('"\u00e4\\u003c\\u003e\\u0026\\u2028\\u2029"}]'.encode())


def test_kinds_of_a_group_are_those_that_can_be_listed(serve: Serve) -> None:
    """A subresource and what can only be created hold no hash; a kind of two versions is read in the first."""
    pods = {"name": "pods", "kind": "Pod", "verbs": ["get", "list"], "namespaced": True}
    others = [{**pods, "name": "pods/status"}, {**pods, "name": "reviews", "kind": "Review", "verbs": ["create"]}]
    both = [{"groupVersion": f"example.test/{version}", "version": version} for version in ("v1", "v1beta1")]
    api = serve(ok(versions=both), ok(resources=[*others, pods]), ok(resources=[pods]))
    assert store_on(api.url).kinds("example.test") == (Resource("example.test", "v1", "pods", "Pod"),)


def test_short_names_belong_to_kinds_that_are_served(serve: Serve) -> None:
    """A kind without one is not named; of a group that is not there nothing is."""
    pods = {"name": "pods", "kind": "Pod", "verbs": ["list"], "shortNames": ["po", "p"]}
    version = {"groupVersion": "example.test/v1", "version": "v1"}
    api = serve(ok(versions=[version]), ok(resources=[pods, {**pods, "name": "nodes", "shortNames": None}]))
    assert store_on(api.url).short_names("example.test") == {"po": "pods", "p": "pods"}
    assert store_on(serve(Answer(404, b"{}")).url).short_names("example.test") == {}


@pytest.mark.parametrize("kinds", ["x", ["x"], [{"name": "pods", "verbs": ["list"]}], [{"kind": "Pod"}]])
def test_an_answer_that_lists_no_kinds_is_an_error(serve: Serve, kinds: Any) -> None:
    """Whatever a proxy answers to discovery is not taken for a bug."""
    version = {"groupVersion": "example.test/v1", "version": "v1"}
    for answers in ((ok(versions=kinds), ok()), (ok(versions=[version]), ok(resources=kinds))):
        with pytest.raises(ClusterError, match=r"^discover /apis/example.test: .* is a proxy in the way"):
            store_on(serve(*answers).url).kinds("example.test")


def test_numbers_keep_their_spelling(serve: Serve) -> None:
    """What came as 1e3 or 1.0 is tested so: Go parses the text, and compares what it was given."""
    body = b'{"kind":"PodCliqueSet","metadata":{"name":"n"},"spec":{"a":1e3,"b":1.0,"c":12345678901234567890}}'
    api = serve(Answer(200, body), Answer(200, b'{"metadata":{},"items":[' + body + b"]}"), ok(metadata={}))
    store = store_on(api.url)
    spec = store.get(POD_CLIQUE_SETS, "a", "n")["spec"]
    assert spec == {"a": JSONNumber("1e3"), "b": JSONNumber("1.0"), "c": 12345678901234567890}
    assert store.list(POD_CLIQUE_SETS, lambda item: item["spec"]) == (spec,)
    store.patch(POD_CLIQUE_SETS, "a", "n", [Op("test", "/spec", spec)])
    assert api.seen[2].body == [{"op": "test", "path": "/spec", "value": spec}]


@pytest.mark.parametrize("rehearses", [False, True])
def test_a_dry_run_marks_every_write(api: FakeApi, store: KubeCluster, *, rehearses: bool) -> None:
    """Patch and create both say dryRun=All, and no write of a run does."""
    store = store.in_dry_run() if rehearses else store
    store.patch(PODS, "a", "n", OPS)
    store.create(CONFIG_MAPS, "a", {"metadata": {"name": "n"}})
    assert [seen.query.get("dryRun") for seen in api.seen] == (["All"] if rehearses else [None]) * 2
    assert store.dry_run == rehearses


def test_list_reads_every_page_consistently(serve: Serve) -> None:
    """Pages to the end, of all namespaces, never from a cache of unknown age; every item has its kind."""
    api = serve(page("a", "b", more="t1"), page("c", more="t2"), page("d"))
    listing = store_on(api.url).list(PODS, lambda item: (item["kind"], item["apiVersion"], name(item)))
    assert listing == tuple(("Pod", "v1", which) for which in "abcd")
    assert {seen.path for seen in api.seen} == {"/api/v1/pods"}
    assert [seen.query for seen in api.seen] == [
        {"limit": str(PAGE_SIZE)},
        {"limit": str(PAGE_SIZE), "continue": "t1"},
        {"limit": str(PAGE_SIZE), "continue": "t2"},
    ]


def test_a_list_of_metadata_keeps_the_kind_of_its_objects(serve: Serve) -> None:
    """Namespace, selectors and metadata only are asked for; of itself an item says PartialObjectMetadata."""
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p"}}
    api = serve(ok(metadata={"resourceVersion": "1"}, items=[item]))
    selectors = {"label_selector": "x=y,z!=w", "field_selector": "status.phase=Pending"}
    listing = store_on(api.url).list(
        POD_CLIQUES, lambda found: (found["apiVersion"], found["kind"]), namespace="a", metadata_only=True, **selectors
    )
    assert listing == (("grove.io/v1alpha1", "PodClique"),)
    (seen,) = api.seen
    assert seen.path == "/apis/grove.io/v1alpha1/namespaces/a/podcliques"
    assert (seen.query["labelSelector"], seen.query["fieldSelector"]) == tuple(selectors.values())
    assert seen.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")


EXPIRED = Answer(410, {"kind": "Status", "reason": "Expired", "code": 410, "metadata": {"continue": "newer"}})


@table(
    "second",
    ("After a 410 the token that it offers leads to another list, and is not used.", (EXPIRED,)),
    ("A page of another resource version does not belong to this list.", (page("b", version="8"),)),
)
def test_a_list_that_moved_begins_again(serve: Serve, second: Answer) -> None:
    """Everything is read anew, and nothing is kept twice."""
    api = serve(page("a", more="t1"), second, page("a", version="9", more="t2"), page("b", version="9"))
    assert store_on(api.url).list(PODS, name) == ("a", "b")
    assert [seen.query.get("continue") for seen in api.seen] == [None, "t1", None, "t2"]


GONE, INVALID = status(404, "could not find the requested resource"), status(400, "invalid token", reason="BadRequest")


@table(
    "steps error sent",
    ("No CRD is NotFound, so that no Grove can be told from no answer.", ((GONE,), NotFound, 1)),
    ("An outage in mid-list must never look like fewer pods.", ((page("a", more="t"), INVALID), ApiError, 2)),
    (
        "A list that always expires is given up.",
        ((page("a", more="t"), EXPIRED) * MAX_LIST_STARTS, Unreachable, 2 * MAX_LIST_STARTS),
    ),
)
def test_what_was_read_of_a_list_is_not_taken_for_all(
    serve: Serve, steps: Sequence[Answer], *, error: type[Exception], sent: int
) -> None:
    """It is an error, after a bounded number of requests."""
    api = serve(*steps)
    with pytest.raises(error):
        store_on(api.url).list(PODS, name)
    assert len(api.seen) == sent


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"[]", b'"x"', b"{}", b'{"items":[]}{}', b'{"items":[{}', b'{"items":{}}', b'{"items":[1]}'),
        *(b'{"status":1}', b'{"items":[{}]}', b'{"items":[{"metadata":"x"}]}', b'{"metadata":1,"items":[]}'),
        b'{"items":[{"metadata":{}}]}',
    ],
)
def test_an_answer_that_is_no_list_never_looks_like_an_empty_one(serve: Serve, answer: bytes) -> None:
    """Whatever a proxy answers in the server's place is an error; only a list without items is empty."""
    api = serve(Answer(200, answer), Answer(200, b'{"items":null}'))
    with pytest.raises(ClusterError, match="is a proxy in the way"):
        store_on(api.url).list(PODS, name)
    assert store_on(api.url).list(PODS, name) == ()


@pytest.mark.parametrize("answer", [{}, {"status": {}}, {"status": {"userInfo": {}}}])
def test_an_answer_that_names_no_account_is_a_proxys(serve: Serve, answer: dict[str, Any]) -> None:
    """An API server knows everybody by a name; who asks for it to complete an error must not end with a bug."""
    with pytest.raises(ClusterError, match="is a proxy in the way"):
        account_of(store_on(serve(ok(**answer)).url))


def test_a_connection_that_ended_meanwhile_takes_no_write() -> None:
    """A server may end a kept connection at any time: a write on it would be a lost reply."""
    with FakeApi(POD).running() as before:
        store = store_on(before.url)
        store.get(PODS, "a", "p")
    with FakeApi(POD, port=int(before.url.rpartition(":")[2])).running() as after:
        store.patch(PODS, "a", "p", OPS)
    assert [seen.method for seen in (*before.seen, *after.seen)] == ["GET", "PATCH"]


def test_requests_share_one_connection(serve: Serve) -> None:
    """Reads and writes that follow each other need one handshake, and a refused one does not cost it."""
    api = serve(lambda seen: status(404, "gone") if seen.path.endswith("/gone") else POD)
    store = store_on(api.url)
    store.get(PODS, "a", "p")
    with pytest.raises(NotFound):
        store.get(PODS, "a", "gone")
    with pytest.raises(LeaseLost):
        store.within(lambda: 0.0).patch(PODS, "a", "p", OPS)
    store.patch(PODS, "a", "p", OPS)
    assert len({seen.client for seen in api.seen}) == 1


def test_deep_field_sets_of_one_object_do_not_spoil_a_list(serve: Serve) -> None:
    """A tenant can write them, 9,000 levels deep (measured); those of other objects are read all the same."""
    deep = '{"f:a":' * 20_000 + "{}" + "}" * 20_000
    sets = ['{"f:spec":{"f:template":{}}}', deep, r'{"f:\"fieldsV1\":{":{}}']
    items = ",".join(f'{{"metadata":{{"name":"x","managedFields":[{{"fieldsV1":{one}}}]}}}}' for one in sets)
    api = serve(Answer(200, f'{{"metadata":{{}},"items":[{items}]}}'.encode()))
    found = store_on(api.url).list(PODS, lambda raw: raw["metadata"]["managedFields"][0]["fieldsV1"])
    assert found == ({"f:spec": {"f:template": {}}}, {}, {'f:"fieldsV1":{': {}})
