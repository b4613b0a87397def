"""The operator's Deployment, scaled to zero and back: by its subresource alone, and never against somebody else."""

from __future__ import annotations

from itertools import count

import pytest

from migrator.errors import LostRace, LostReply
from migrator.resources import DEPLOYMENTS
from migrator.run import operator
from testbed.operator_installation import NAMESPACE
from tests.support.installed import found_in, installed
from tests.support.small_cluster import SmallCluster
from tests.support.tables import table


def replicas_of(cluster: SmallCluster) -> int:
    """The Deployment's replicas as they stand."""
    return int(cluster.read(DEPLOYMENTS, NAMESPACE, "grove-operator")["spec"]["replicas"])


def test_scaling_goes_through_scale_and_nothing_else() -> None:
    """Down to zero and back: two patches of the subresource, no other write, whatever it costs."""
    cluster = installed(replicas=2)
    found = found_in(cluster)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    operator.scale(cluster, found_in(cluster), 2)
    assert replicas_of(cluster) == 2
    assert [(r.verb, r.target) for r in cluster.writes()] == [("patch", "deployments/grove-operator/scale")] * 2


def test_scaling_twice_writes_once() -> None:
    """What is already so is left alone."""
    cluster = installed(replicas=0)
    operator.scale(cluster, found_in(cluster), 0)
    assert cluster.writes() == []


@table(
    "found moved wanted left",
    ("A test that fails is read again: the present number goes down to zero.", (1, 3, 0, 0)),
    ("Scaling from one number straight to another would leave a field owner that blocks Helm.", (0, 1, 3, 1)),
)
def test_scaling_follows_replicas_that_moved(found: int, moved: int, wanted: int, left: int) -> None:
    """Somebody else set the replicas since they were read: zero is insisted on, and any other number is theirs."""
    cluster = installed(replicas=found)
    seen = found_in(cluster)
    cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda body: body["spec"].update(replicas=moved))
    operator.scale(cluster, seen, wanted)
    assert replicas_of(cluster) == left


@table(
    "failed lost",
    ("Applied or not, reading tells, and the end is the same.", (0, 1)),
    ("Applied or not, reading tells, and the end is the same.", (1, 0)),
    ("The last attempt may be the one that was applied.", (4, 1)),
)
def test_a_lost_reply_to_scaling_is_found_out(failed: int, lost: int) -> None:
    """So many patches do not arrive, and then the replies of so many are lost."""
    cluster = installed()
    found = found_in(cluster)
    cluster.fail(lambda: LostReply("no reply"), verb="patch", times=failed)
    cluster.lose_reply(verb="patch", times=lost)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    assert len(cluster.writes()) == failed + 1


def test_scaling_against_somebody_else_is_bounded() -> None:
    """Replicas that others keep setting end in a lost race that names the Deployment."""
    cluster = installed()
    found = found_in(cluster)
    numbers = count(2)

    def fight() -> None:
        cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda b: b["spec"].update(replicas=next(numbers)))

    cluster.meanwhile(fight, verb="patch", times=1000)
    with pytest.raises(LostRace, match="grove-system/grove-operator"):
        operator.scale(cluster, found, 0)
