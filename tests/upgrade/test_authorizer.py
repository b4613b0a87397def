"""Real operators that guard their objects with the authorizer webhook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import photo, samples
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import Pair

pytestmark = pytest.mark.upgrade

PAIRS = (Pair("v0.1.0-alpha.3", "v0.1.0-alpha.3-k8s-1.34"), Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11"))
_REFUSED = 3


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_with_the_authorizer_on_switches_it_off_first(pair: Pair, tmp_path: Path) -> None:
    """The run refuses and leaves the operator alone; the same release without the authorizer is migrated as any other.

    Neither the change of the setting nor the upgrade recreates a pod.
    """
    pair.need()
    source, target = pair.builds
    with Lab(tmp_path / "lab", authorizer=True) as lab:
        lab.install(source)
        lab.client.create(samples.busybox())
        before = lab.settle(lambda now: now.of(photo.SET))
        processes = len(lab.kubelet.spans(source.image))
        with lab.diary() as diary:
            refused = lab.tool("run", *target.target, "--stop-operator")
            assert refused.code == _REFUSED, refused.err
            assert len(lab.kubelet.spans(source.image)) == processes
            lab.switch_off_authorizer()
            assert lab.settle().pods() == before.pods()
            lab.migrate(target)
            lab.install(target)
            after = lab.settle()
        assert diary.deleted == []
        assert after.pods() == before.pods()
