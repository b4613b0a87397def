"""The Lease by which the operator elects its leader, as its mounted configuration names it."""

from __future__ import annotations

import pytest

from migrator.errors import NotAuthorised
from migrator.run import operator
from testbed import operator_installation as installation
from tests.support.installed import CONFIG, deployment, found_in, installed, look, refusals
from tests.support.memory_store import MemoryStore


@pytest.mark.parametrize(
    ("config", "lease"),
    [
        ("leaderElection: {enabled: true}", "grove-operator-leader-election"),
        ("leaderElection: {enabled: true, leaseDuration: 1m30s, resourceName: mine}", "mine"),
        ("leaderElection: {enabled: false, leaseDuration: 2s}", None),
        ("runtimeClientConnection: {}", None),
        ("leaderElection:", None),
    ],
)
def test_the_lease_is_the_configured_one(config: str, lease: str | None) -> None:
    """Its name comes from the mounted configuration, with the operator's own default; none without election."""
    found = found_in(installed(config=f"kind: OperatorConfiguration\n{config}\n"))
    assert found.lease_name == lease
    names = operator.lease_names(found)
    assert names == tuple(sorted({lease or "grove-operator-leader-election", "grove-operator-leader-election"}))


@pytest.mark.parametrize("release", ["v0.1.0-alpha.1", "0.1.0-alpha.2", "v0.1.0-alpha.3"])
def test_the_first_releases_elect_no_leader(release: str) -> None:
    """Their configuration's key is not read, so no Lease keeps them out, which is said."""
    cluster = installed(image=f"grove-operator:{release}")
    assert found_in(cluster).lease_name is None
    assert [f.code for f in look(cluster).findings if "leader election" in f.message] == [operator.NO_ELECTION]


@pytest.mark.parametrize("config", ["kind: [", "kind: Other", "[]", "kind: OperatorConfiguration\nleaderElection: 5"])
def test_a_configuration_that_cannot_be_read_refuses(config: str) -> None:
    """A wrong guess about the Lease would let an operator start while we write."""
    assert "ConfigMap grove-system/grove-operator-cm-0123abcd" in refusals(installed(config=config))


def test_an_absent_configuration_refuses() -> None:
    """Without the ConfigMap the Lease is unknown, and the remedy is named."""
    assert "restore the ConfigMap" in refusals(MemoryStore(deployment()))


def test_a_configuration_that_may_not_be_read_fails_closed() -> None:
    """A missing right on ConfigMaps is reported as such."""
    cluster = installed()
    cluster.fail(NotAuthorised("configmaps is forbidden"), verb="get")
    with pytest.raises(NotAuthorised):
        look(cluster)


def test_items_rename_the_configuration_key() -> None:
    """The key is the one that the volume mounts as config.yaml."""
    body = deployment()
    body["spec"]["template"]["spec"]["volumes"][-1]["configMap"]["items"] = [{"key": "own", "path": "config.yaml"}]
    config = installation.config_map()
    config["data"] = {"own": CONFIG}
    assert found_in(MemoryStore(body, config)).lease_name
