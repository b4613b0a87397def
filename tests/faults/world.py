"""A cluster in memory in which time passes, an operator is started and stopped, and migrators run.

Time moves with requests and sleeps only, and Leases are renewed at these, so that a schedule gives one history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Literal

from migrator import kinds
from migrator.errors import Reverted
from migrator.exact_json import JSONObject
from migrator.run.leases import OWN_LEASE, PARKED, RECORD, micro_time
from migrator.run.record import parse
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.invariants import InvariantChecker, half_committed, none
from tests.faults.operators import ALPHA_11, Line, Operator
from tests.faults.process import DONE, FAILED, KILLED, NO_RECORD, REFUSED, STUCK, At, Ending, Process
from tests.support.memory_objects import copied, timestamp
from tests.support.memory_store import MemoryCluster

Command = Literal["forward", "revert", "verify"]

LONGER_THAN_A_LEASE: Final = 70.0
_ENDING: Final = 2.0  # seconds from a pod's deletion to its end
_STARTING: Final = 2.0  # seconds from an operator's start to its first action, as measured
_START: Final = datetime(2026, 3, 1, tzinfo=UTC)


class World:
    """The cluster, its time, its operator, and the migrators that were started.

    ``objects`` are Grove's. ``on_awake`` is called with the image of an operator that holds its Lease, at every step
    of time. ``lag`` is after how many seconds the Deployment's controller acts on a change, ``latency`` how long a
    request takes. An operator that does not elect a leader acts 2 seconds after its pod was made, Lease or not.
    """

    def __init__(self, objects: Sequence[Object] | None = None, *, replicas: int = 1, elects: bool = True) -> None:
        self.seconds = self.lag = 0.0
        self.latency = 0.3
        self.elects = elects
        self.keeps_lease = False  # as alpha.4 to alpha.8 may do: a pod that ends does not give its Lease back
        self.store = MemoryCluster(now=self.now)
        found = cluster.trees() if objects is None else objects
        for item in (installation.deployment(cluster.OLD_IMAGE, replicas=replicas), *found):
            self.store.put(item)
        self.before = self.grove()
        self.after = cluster.migrated(self.before)
        #: What the objects must be after a revert: every hash of the target is the source's.
        self.undone = cluster.reverted(self.before)
        self.checker = InvariantChecker(self)
        self.checker.learn()
        self.on_awake: Callable[[str], None] = lambda _image: None
        self._late: list[tuple[float, Callable[[], None]]] = []
        self._controllers = Controllers(self)
        self._controllers.step()

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything that goes on by itself."""
        self.seconds += max(seconds, 0.01)
        for due in [late for late in self._late if late[0] <= self.seconds]:
            self._late.remove(due)
            due[1]()
        self._controllers.step()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._late.append((self.seconds + seconds, action))

    def grove(self) -> dict[cluster.Key, Object]:
        return cluster.by_key(self.store.everything(*cluster.RESOURCES.values()))

    def lies(self, ending: Ending, command: Command = "forward") -> list[str]:
        """What is not as the exit code of the only command says that others did not disturb."""
        untouched, migrated = (self.before, 1), (self.after, 0)
        before, done = {
            "forward": (untouched, migrated),
            "revert": (migrated, (self.undone, 1)),
            "verify": ((self.after, 1), (self.after, 1)),
        }[command]
        found = self.grove()
        wrong = half_committed(found, self.checker.table)
        if ending.code not in {STUCK, KILLED} or command == "verify":
            claimed, replicas = done if ending.code == DONE else before
            if isinstance(ending.error, Reverted):
                claimed = self.undone
            wrong += _differences("not as claimed", found, claimed)
            wrong += [] if self.replicas == replicas else [f"replicas are {self.replicas}"]
        if ending.code not in {DONE, FAILED, NO_RECORD, REFUSED, STUCK, KILLED} and command != "verify":
            wrong.append("no exit code that a run may have")
        if self.replicas and self.holder != PARKED and self.image == cluster.OLD_IMAGE:
            safe = self.undone if found == self.undone else self.before
            wrong += _differences("the old operator may run beside what is migrated", found, safe)
        return [f"exit {ending.code}: {problem} ({ending})" for problem in wrong]

    @property
    def replicas(self) -> int:
        return int(self.store.read(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)["spec"]["replicas"])

    @property
    def image(self) -> str:
        return image_of(self.store.read(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT))

    @property
    def holder(self) -> str:
        return str((self.lease().get("spec") or {}).get("holderIdentity") or "")

    @property
    def record(self) -> str:
        """What runs have recorded."""
        return str((self.lease(OWN_LEASE).get("metadata", {}).get("annotations") or {}).get(RECORD, ""))

    def rewrite_record(self, text: str = "") -> None:
        """Somebody puts another record in place of the one that is there, or removes it."""
        if self.record:
            found = {"annotations": {RECORD: text} if text else {}}
            self.store.edit(kinds.LEASES, cluster.NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(found))

    @property
    def record_state(self) -> str | None:
        """What the record says of the last run, if there is one."""
        run = parse(self.record, cluster.NAMESPACE)
        return run.state if run is not None else None

    def forbid_unknown_hashes(self) -> None:
        """From now on, no operator may be awake beside hashes that it does not know."""
        known: set[tuple[str, str]] = set()

        def awake(image: str) -> None:
            if (image, self.store.version) not in known:
                right = [self.before, self.undone] if image == cluster.OLD_IMAGE else [self.after]
                if self.grove() not in right:
                    self.checker.wrongs.append(f"{image} is awake beside hashes that it does not know")
                none("wrong", self.checker.wrongs)
                known.add((image, self.store.version))

        self.on_awake = awake

    def lease(self, name: str = cluster.LEASE) -> JSONObject:
        """A Lease, the operator's unless another is named; empty if there is none."""
        try:
            return self.store.read(kinds.LEASES, cluster.NAMESPACE, name)
        except KeyError:
            return {}

    def hand_lease_to(self, holder: str, *, seconds: int = 15, name: str = cluster.LEASE) -> None:
        """Write a Lease as another process would, over whatever is there."""
        moment = micro_time(self.now())
        body = self.lease(name) or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": cluster.NAMESPACE},
        }
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
        self.store.put({**body, "spec": spec})

    def steal_leases(self) -> None:
        """Let another process hold both Leases for a while, longer than ours would last."""
        for name in (OWN_LEASE, cluster.LEASE):
            self.hand_lease_to("thief", name=name)
        self.advance(LONGER_THAN_A_LEASE)

    def deploy(self, *, replicas: int, image: str | None = None, anew: bool = False) -> None:
        """Change the operator's Deployment as Helm, GitOps or a person would, or delete it and make it ``anew``."""

        def change(body: JSONObject) -> None:
            body["spec"]["replicas"] = replicas
            if anew:
                body["metadata"]["uid"] = "another"
            if image is not None:
                body["spec"]["template"]["spec"]["containers"][0]["image"] = image

        self.store.edit(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT, change)

    def revert(self, at: At | None = None, *, replicas: int, **options: Any) -> None:
        """Run a revert: it ends with 0, every hash is old, and the operator has so many replicas."""
        self.run(at, revert=True, **options)
        assert self.grove() == self.undone
        assert self.replicas == replicas

    def upgrade(self, image: str = cluster.NEW_IMAGE) -> None:
        """Change the operator's image, and let the new one start."""
        self.deploy(replicas=1, image=image)
        self.advance(20)

    def edit(self, name: str, change: Callable[[JSONObject], object]) -> None:
        self.store.edit(kinds.POD_CLIQUE_SETS, "default", name, change)

    def operate(self, scheme: str, line: Line = ALPHA_11, *, replacing: int | None = None) -> list[str]:
        """Let an operator of that scheme reconcile, and end it once so many pods were replaced; returns their names."""
        found = self.grove()
        model = Operator(copied(found), scheme, line, timestamp(self.now()))
        replaced = model.settle() if replacing is None else model.reconcile(replacing)
        for key in found.keys() - model.objects.keys():
            self.store.drop(cluster.RESOURCES[key[0]], key[1], key[2], cascade=False)
        for key, item in model.objects.items():
            if item != found.get(key):
                self.store.put(item)
        return replaced

    def start(self, **options: Any) -> Process:
        return Process(self, **options)

    def run(self, at: At | None = None, **options: Any) -> Ending:
        """Run one migrator to its end, or to its death, which must come with ``code``."""
        return self.start(at=at).run(**options)

    def die(self, at: At, **options: Any) -> World:
        """Run one migrator that is killed, and let its Lease expire."""
        self.run(at, code=KILLED, **options)
        self.advance(LONGER_THAN_A_LEASE)
        return self


@dataclass
class Controllers:
    """What goes on by itself: the Deployment makes and ends operator pods, and those take turns at the Lease."""

    world: World
    _images: dict[str, str] = field(default_factory=dict)
    _dying: dict[str, float] = field(default_factory=dict)
    _born: dict[str, float] = field(default_factory=dict)
    _lease: tuple[JSONObject, float] = field(default_factory=lambda: ({}, 0.0))
    _wanted: tuple[tuple[int, str], float] = ((0, ""), 0.0)
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def step(self) -> None:
        store = self.world.store
        body = store.read(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
        if (body.get("status") or {}).get("observedGeneration") != body["metadata"]["generation"]:
            status = {"observedGeneration": body["metadata"]["generation"], "replicas": body["spec"]["replicas"]}
            store.put({**body, "status": status})
        self._end()
        known, paused = self._wanted[0][1], body["spec"].get("paused")  # then new pods have the image of before
        wanted = (body["spec"]["replicas"], known if paused and known else image_of(body))
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
            self.world.store.drop(kinds.PODS, cluster.NAMESPACE, name)
            if self.world.holder == _identity(name) and not self.world.keeps_lease:
                self.world.hand_lease_to("", seconds=1)

    def _reconcile(self, replicas: int, image: str) -> None:
        right = [name for name in self._living if self._images[name] == image]
        for name in self._living:
            if name not in right[:replicas]:
                self.world.store.terminate(kinds.PODS, cluster.NAMESPACE, name)
                self._dying[name] = self.world.seconds + _ENDING
        for _ in range(replicas - len(right)):
            name = f"grove-operator-{next(self._names)}"
            self._images[name], self._born[name] = image, self.world.seconds
            self.world.store.put(installation.pod(image, name=name))

    def _elect(self) -> None:
        """The first living pod takes a Lease that is free or has not moved for its duration, and keeps it."""
        if not self.world.elects:
            for name in self._living:
                if self.world.seconds - self._born[name] >= _STARTING:
                    self.world.on_awake(self._images[name])
            return
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


def _differences(what: str, found: dict[cluster.Key, Object], wanted: dict[cluster.Key, Object]) -> list[str]:
    return [f"{what}: {key}" for key in wanted if found.get(key) != wanted[key]]


def image_of(deployment: JSONObject) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def _identity(pod: str) -> str:
    """What an operator's pod writes into its Lease (client-go: host name, underscore, uuid)."""
    return f"{pod}_0f3c"
