"""The operator's Deployment at work: its controller makes and ends pods, and those take turns at the Lease."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from migrator.exact_json import JSONObject
from migrator.resources import DEPLOYMENTS, PODS
from testbed import operator_installation as installation
from tests.simulation.cluster import DEPLOYMENT, NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World

_ENDING: Final = 2.0  # seconds from a pod's deletion to its end


@dataclass
class Controllers:
    """Everything that goes on by itself; ``step`` brings it up to the present."""

    world: World
    _images: dict[str, str] = field(default_factory=dict)
    _dying: dict[str, float] = field(default_factory=dict)
    _lease: tuple[JSONObject, float] = field(default_factory=lambda: ({}, 0.0))
    _wanted: tuple[tuple[int, str], float] = ((0, ""), 0.0)
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def step(self) -> None:
        """Go on to the present."""
        store = self.world.store
        body = store.read(DEPLOYMENTS, NAMESPACE, DEPLOYMENT)
        if (body.get("status") or {}).get("observedGeneration") != body["metadata"]["generation"]:
            status = {"observedGeneration": body["metadata"]["generation"], "replicas": body["spec"]["replicas"]}
            store.put({**body, "status": status})
        self._end()
        wanted = (body["spec"]["replicas"], image_of(body))
        if self._wanted[0] != wanted:
            self._wanted = (wanted, self.world.seconds)
        if self.world.seconds - self._wanted[1] >= self.world.lag:
            self._reconcile(*wanted)
        self._elect()

    @property
    def _living(self) -> list[str]:
        return [name for name in self._images if name not in self._dying]

    def _end(self) -> None:
        """Pods end some time after they were told to, and let go of the Lease."""
        for name in [name for name, at in self._dying.items() if self.world.seconds >= at]:
            del self._dying[name], self._images[name]
            self.world.store.drop(PODS, NAMESPACE, name)
            if self.world.holder == _identity(name):
                self.world.hand_lease_to("", seconds=1)

    def _reconcile(self, replicas: int, image: str) -> None:
        right = [name for name in self._living if self._images[name] == image]
        for name in self._living:
            if name not in right[:replicas]:
                self.world.store.terminate(PODS, NAMESPACE, name)
                self._dying[name] = self.world.seconds + _ENDING
        for _ in range(replicas - len(right)):
            name = f"grove-operator-{next(self._names)}"
            self._images[name] = image
            self.world.store.put(installation.pod(image, name=name))

    def _elect(self) -> None:
        """The first living pod takes a Lease that is free or has not moved for its duration, and keeps it."""
        spec = self.world.lease().get("spec") or {}
        if spec != self._lease[0]:
            self._lease = (spec, self.world.seconds)
        if not self._living:
            return
        first = self._living[0]
        holder, ours = spec.get("holderIdentity"), _identity(first)
        expired = self.world.seconds - self._lease[1] >= spec.get("leaseDurationSeconds", 15)
        if holder != ours and (not holder or expired):
            self.world.hand_lease_to(ours)
            holder = ours
        if holder == ours:
            self.world.on_awake(self._images[first])


def image_of(deployment: JSONObject) -> str:
    """The image that the pods of a Deployment run."""
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def _identity(pod: str) -> str:
    """What an operator's pod writes into its Lease (client-go: host name, underscore, uuid)."""
    return f"{pod}_0f3c"
