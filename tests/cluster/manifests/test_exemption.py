"""The opt-in overlay: with the authorizer webhook on, the account exempts itself for the length of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.manifests.site import NEW, OLD, Grant, Pod, Site, arguments, documents, grants
from tests.support.controlplane.client import Object, eventually

pytestmark = pytest.mark.controlplane

RIGHTS: Final = documents("exempt-from-authorizer/rbac.yaml")
PATCH: Final = Grant(
    "ClusterRole",
    "patch",
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    ("authorizer-webhook",),
)


def webhook() -> Object:
    """Grove's authorizer as its chart registers it, with nobody behind it: the operator is stopped."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "authorizer-webhook"},
        "webhooks": [
            {
                "name": "authorizer.webhooks.grove.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 2,
                "clientConfig": {"url": "https://127.0.0.1:9/webhooks/authorizer-webhook"},
                "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}},
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE"],
                        "resources": resources,
                    }
                    for group, resources in (
                        ("", ["pods"]),
                        ("grove.io", ["podcliques", "podcliquescalinggroups", "podgangmaps"]),
                        ("scheduler.grove.io", ["podgangs"]),
                    )
                ],
            }
        ],
    }


@pytest.fixture
def guarded(site: Site) -> Iterator[Object]:
    """A cluster to migrate whose authorizer cannot be reached; the authorizer as the server stores it."""
    site.fill()
    first = next(item for item in site.planted if item["kind"] == "Pod")
    yield site.admin.apply(webhook())
    site.admin.delete(webhook())
    eventually(lambda: _may_label(site, first), what="the webhook is still asked")


@pytest.fixture
def allowed(site: Site) -> Iterator[None]:
    """The overlay's rights."""
    site.apply(RIGHTS)
    eventually(lambda: site.may(PATCH), what="the right to patch webhooks is not granted")
    yield
    for item in RIGHTS:
        site.admin.delete(item)
    eventually(lambda: not site.may(PATCH), what="the right to patch webhooks is still granted")


def test_the_overlay_grants_one_webhook_configuration_by_name() -> None:
    """It adds get and patch of Grove's authorizer, and nothing else."""
    assert {(grant.verb, grant.resource, grant.names) for grant in grants(RIGHTS)} == {
        (verb, "validatingwebhookconfigurations", ("authorizer-webhook",)) for verb in ("get", "patch")
    }


@pytest.mark.usefixtures("guarded")
def test_without_the_flag_the_run_refuses_before_it_disturbs_anything(site: Site, pod: Pod) -> None:
    """Exit 3 with GM-202 and the remedy; the operator runs on."""
    before = site.objects()
    done = pod.run(arguments("job.yaml"))
    assert done.code == 3
    assert "GM-202" in json.loads(pod.termination_log.read_bytes())["message"]
    assert (site.objects(), site.replicas()) == (before, 1)


@pytest.mark.usefixtures("guarded")
def test_without_the_right_the_flag_is_no_use(site: Site, pod: Pod) -> None:
    """Exit 1 names the right that manifests/job.yaml does not grant; the operator runs on."""
    before = site.objects()
    done = pod.run([*arguments("job.yaml"), "--exempt-from-authorizer"])
    assert done.code == 1
    message = json.loads(pod.termination_log.read_bytes())["message"]
    assert "patch validatingwebhookconfigurations.admissionregistration.k8s.io authorizer-webhook" in message
    assert (site.objects(), site.replicas()) == (before, 1)


@pytest.mark.usefixtures("allowed")
def test_with_flag_and_right_the_run_migrates_and_leaves_the_webhook_as_it_was(
    site: Site, pod: Pod, guarded: Object
) -> None:
    """Labels are written past a webhook that nobody answers, and its configuration is the one of before."""
    before = site.objects()
    done = pod.run([*arguments("job.yaml"), "--exempt-from-authorizer"])
    assert done.code == 0, done.err
    assert site.objects() == site.expected(before, OLD, NEW)
    api_version, kind = guarded["apiVersion"], guarded["kind"]
    after = site.admin.get(api_version, kind, guarded["metadata"]["name"])["webhooks"][0]
    assert {key: value for key, value in after.items() if value} == _without_empty(guarded["webhooks"][0])


def _without_empty(found: Object) -> Object:
    return {key: value for key, value in found.items() if value}


def _may_label(site: Site, pod: Object) -> bool:
    patch: Any = {"metadata": {"labels": {"example.test/x": "y"}}}
    path = site.admin.kind_of(pod).path(pod["metadata"]["namespace"], pod["metadata"]["name"])
    answer = site.admin.request(
        "PATCH", path, patch, query={"dryRun": "All"}, content_type="application/merge-patch+json"
    )
    return answer.status == 200
