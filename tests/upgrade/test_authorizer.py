"""Real operators that guard their objects with the authorizer webhook."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.manifests import site
from tests.upgrade import photo, samples
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import Pair

pytestmark = [pytest.mark.upgrade, pytest.mark.usefixtures("operators")]

PAIRS = (Pair("v0.1.0-alpha.3", "v0.1.0-alpha.3-k8s-1.34"), Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11"))
_REFUSED = 3


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_with_the_authorizer_on_recreates_no_pod(pair: Pair, tmp_path: Path) -> None:
    """The run refuses and leaves the operator alone; exempted, it migrates, and the webhook is afterwards as before."""
    if pair.missing():
        pytest.skip(f"not run: no binary of {', '.join(pair.missing())}")
    source, target = pair.builds
    with Lab(tmp_path / "lab", authorizer=True) as lab:
        lab.install(source)
        lab.client.create(samples.busybox())
        before = lab.settle(lambda now: now.of(photo.SET))
        webhook, processes = _authorizer(lab), len(lab.runner.spans(source.image))
        with lab.diary() as diary:
            for exempt in ((), ("--exempt-from-authorizer",)):  # nor does an administrator's exemption help
                refused = lab.tool("run", *target.target, "--stop-operator", *exempt)
                assert refused.code == _REFUSED, refused.err
                assert [pod["spec"]["containers"][0]["image"] for pod in lab.operator_pods()] == [source.image]
            assert len(lab.runner.spans(source.image)) == processes
            kubeconfig = _as_the_job(lab)
            run = lab.tool("run", *target.target, "--stop-operator", "--exempt-from-authorizer", kubeconfig=kubeconfig)
            assert run.code == 0, run.err
            assert _authorizer(lab) == webhook
            lab.install(target)
            after = lab.settle()
        assert diary.deleted == []
        assert after.pods() == before.pods()


def _as_the_job(lab: Lab) -> Path:
    """The manifests' ServiceAccount, roles and policies, and a kubeconfig with that account's token."""
    for name in ("job.yaml", "exempt-from-authorizer/rbac.yaml"):
        for item in site.documents(name):
            if item["kind"] != "Job":
                lab.client.apply(item)
    config = yaml.safe_load(lab.control_plane.kubeconfig.read_text(encoding="utf-8"))
    token = lab.client.service_account_token(site.NAMESPACE, site.ACCOUNT)
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = lab.control_plane.directory / "job.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _authorizer(lab: Lab) -> object:
    """What the authorizer's configuration says, without what every write moves."""
    kind = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    return lab.client.get(*kind, "authorizer-webhook")["webhooks"]
