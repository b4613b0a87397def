"""A cluster in memory in which time passes, an operator is started and stopped, and migrators live and die.

Nothing runs by itself: time moves with requests and sleeps only, and the renewal of a Lease, which is a thread of its
own in the product, happens at the next request or sleep. So a schedule gives one history.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Literal, TypeVar

import structlog

from migrator import resources
from migrator.errors import Interrupted, MigratorError
from migrator.exact_json import JSONObject
from migrator.planning.options import PlanOptions
from migrator.resources import Op, Resource
from migrator.run import loop, verify
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.leases import micro_time
from migrator.run.operator import Flags
from migrator.run.record import Recorder
from migrator.run.verify import VerifyOptions
from migrator.store import Deadline, DryRun, Listing, in_turn
from migrator.store import Write as SeamWrite
from testbed.trees import Object
from tests.simulation import cluster
from tests.simulation.operators import ALPHA_11, Line, Operator
from tests.support.memory_store import MemoryStore, copied

K = TypeVar("K")
V = TypeVar("V")
Moment = Literal["before", "after"]
MOMENTS: Final[tuple[Moment, Moment]] = ("before", "after")

START: Final = datetime(2026, 3, 1, tzinfo=UTC)
LATENCY: Final = 0.3
KILLED: Final = -9
RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        resources.POD_CLIQUE_SETS,
        resources.POD_CLIQUE_SCALING_GROUPS,
        resources.POD_CLIQUES,
        resources.PODS,
    )
}
_QUIET: Final = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class Killed(BaseException):
    """The process is dead: no code of it runs any more, handlers of errors least of all."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a process, before or after the cluster applied it; ``number`` counts from 1."""

    number: int
    moment: Moment
    resource: Resource
    name: str
    subresource: str
    process: Process

    @property
    def target(self) -> str:
        """``pods/web-0``, ``deployments/grove-operator/scale``."""
        return "/".join(filter(None, (self.resource.plural, self.name, self.subresource)))


@dataclass(frozen=True, slots=True)
class Step:
    """One request or sleep of a process, reads, dry runs and renewals included; ``number`` counts from 1."""

    number: int
    moment: Moment
    kind: Literal["read", "dry run", "write", "sleep"]
    verb: str
    target: str
    process: Process


Fault = Callable[[Write], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its exit code, or ``KILLED``; and the error or the result."""

    code: int
    error: Exception | None = None
    result: RunResult | None = None

    def __str__(self) -> str:
        return f"{self.code}: {type(self.error).__name__}: {self.error}"


class World:
    """The cluster, its time, its operator, and the migrators that were started.

    ``objects`` are Grove's. ``on_awake`` is called with the image of an operator that holds its Lease, at every step
    of time. ``lag`` is after how many seconds the Deployment's controller acts on a change.
    """

    def __init__(
        self, objects: Sequence[Object] | None = None, *, replicas: int = 1, image: str = cluster.OLD_IMAGE
    ) -> None:
        self.seconds = self.lag = 0.0
        self.store = MemoryStore(now=self.now)
        found = cluster.trees() if objects is None else objects
        for item in (*cluster.operator(replicas=replicas, image=image), *found):
            self.store.put(item)
        self.before = self.grove()
        self.after = cluster.migrated(self.before)
        self.on_awake: Callable[[str], None] = lambda _image: None
        self._operators = _Operators(self)
        self._operators.step()

    def now(self) -> datetime:
        """The wall clock."""
        return START + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything that goes on by itself."""
        self.seconds += max(seconds, 0.01)
        self._operators.step()

    def grove(self) -> dict[cluster.Key, Object]:
        """Grove's objects."""
        return cluster.by_key(self.store.everything(*RESOURCES.values()))

    @property
    def wrongs(self) -> list[str]:
        """What must hold at any moment and does not: see :func:`cluster.strays` and :func:`cluster.early_commits`."""
        found = self.grove()
        return cluster.strays(found, self.before, self.after) + cluster.early_commits(found, self.after)

    @property
    def replicas(self) -> int:
        """What the operator's Deployment asks for."""
        return int(self.store.read(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)["spec"]["replicas"])

    @property
    def image(self) -> str:
        """What the operator's Deployment would run."""
        body = self.store.read(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
        return image_of(body["spec"]["template"])

    @property
    def holder(self) -> str:
        """Who holds the operator's Lease."""
        return str((self.lease().get("spec") or {}).get("holderIdentity") or "")

    @property
    def records(self) -> list[str]:
        """The names of what runs have recorded."""
        names = cluster.names(self.store.everything(resources.CONFIG_MAPS), "ConfigMap")
        return [name for name in names if name.startswith("grove-migrator")]

    @property
    def record_state(self) -> str | None:
        """What the record says of the last run, if there is one."""
        run = Recorder(self.store, cluster.NAMESPACE).load().run
        return run.state if run is not None else None

    def lease(self, name: str = cluster.LEASE) -> JSONObject:
        """A Lease, the operator's unless another is named; empty if there is none."""
        try:
            return self.store.read(resources.LEASES, cluster.NAMESPACE, name)
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
        transitions = (body.get("spec") or {}).get("leaseTransitions", -1) + 1
        self.store.put({**body, "spec": {**spec, "leaseTransitions": transitions}})

    def deploy(self, *, replicas: int, image: str | None = None) -> None:
        """Change the operator's Deployment as Helm, GitOps or a person would."""

        def change(body: JSONObject) -> None:
            body["spec"]["replicas"] = replicas
            if image is not None:
                body["spec"]["template"]["spec"]["containers"][0]["image"] = image

        self.store.edit(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT, change)

    def operate(self, scheme: str, line: Line = ALPHA_11, *, replacing: int | None = None) -> list[str]:
        """Let an operator of that scheme reconcile, and end it once so many pods were replaced; returns their names."""
        found = self.grove()
        model = Operator(copied(found), scheme, line, _time(self.now()))
        replaced = model.settle() if replacing is None else model.reconcile(replacing)
        for key in found.keys() - model.objects.keys():
            self.store.drop(RESOURCES[key[0]], key[1], key[2], cascade=False)
        for key, item in model.objects.items():
            if item != found.get(key):
                self.store.put(item)
        return replaced

    def start(self, **options: Any) -> Process:
        """A migrator that has not begun yet."""
        return Process(self, **options)

    def run(self, fault: Fault | None = None, **options: Any) -> Ending:
        """Run one migrator to its end, or to its death."""
        return self.start(fault=fault).run(**options)


class Process:
    """One migrator process: its identity, its connection, its life.

    ``writes`` are those that it sent, ``applied`` those of them that the cluster applied.
    """

    _numbers: Final = count(1)

    def __init__(
        self,
        world: World,
        *,
        fault: Fault | None = None,
        read_fault: Callable[[int], None] | None = None,
        gate: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] | None = None,
        at: Callable[[Step], None] = lambda _step: None,
    ) -> None:
        self.world = world
        self.skew = timedelta()
        self.steps = 0
        self._at = at
        self.beats: list[Callable[[], object]] = []
        self.stop = threading.Event()
        self.writes: list[Write] = []
        self.applied: list[Write] = []
        self.reads = 0
        self.dead = False
        self._read_fault = read_fault or (lambda _number: None)
        self._fault = fault or (lambda _write: None)
        self._gate = gate
        self._sleep = sleep or world.advance
        self._name = f"migrator_{next(self._numbers)}"
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """Its identity."""
        return self._name

    def run(
        self, *, source: str = "auto", target: str = cluster.TARGET, timeout: float | None = None, **more: Any
    ) -> Ending:
        """``grove-migrator run --stop-operator``, with these options."""
        of_plan = {name: more.pop(name) for name in ("allow", "skip_refused", "selection") if name in more}
        plan = PlanOptions(source=source, target=target, **of_plan)
        flags = Flags(lease_name=more.pop("lease_name", None))
        store = View(self.world.store, self).in_dry_run(more.pop("dry_run", DryRun.NONE))
        options = RunOptions(plan=plan, stop_operator=more.pop("stop_operator", True), flags=flags, **more)
        return self._ended(lambda: loop.run(store, options, self._context(timeout)))

    def verify(self, *, target: str = cluster.TARGET) -> Ending:
        """``grove-migrator verify --after-upgrade``."""
        options = VerifyOptions(PlanOptions(target=target), after_upgrade=True)
        return self._ended(lambda: verify.verify(View(self.world.store, self), options, self._context(None)))

    def _context(self, timeout: float | None) -> Context:
        return Context(
            clock=lambda: self.world.seconds,
            now=lambda: self.world.now() + self.skew,
            sleep=self.sleep,
            rest=self.rest,
            identity=self._name,
            run_id=self._name,
            log=_QUIET,
            stop=self.stop,
            deadline=Deadline(lambda: self.world.seconds, timeout),
            threads=False,
            beats=self.beats,
        )

    def _ended(self, command: Callable[[], object]) -> Ending:
        try:
            result = command()
            return Ending(0, result=result if isinstance(result, RunResult) else None)
        except MigratorError as error:
            return Ending(error.exit_code, error)
        except Exception as error:  # noqa: BLE001 - as the command line does: a bug is 1
            return Ending(1, error)
        except KeyboardInterrupt as error:
            return Ending(1, Interrupted(str(error)))
        except Killed:
            return Ending(KILLED)

    def kill(self) -> None:
        """End it here and now: what it would do next never happens."""
        self.dead = True
        raise Killed

    def sleep(self, seconds: float) -> None:
        """Sleep, but not once it was asked to stop."""
        self.rest(0.0 if self.stop.is_set() else seconds)

    def rest(self, seconds: float) -> None:
        """Sleep; the Lease is renewed meanwhile."""
        self._live()
        with self._step("sleep", "sleep", ""):
            self._sleep(seconds)
            self._live()
        self.renew()

    @contextlib.contextmanager
    def _step(self, kind: Literal["read", "dry run", "write", "sleep"], verb: str, target: str) -> Iterator[None]:
        self.steps += 1
        step = Step(self.steps, "before", kind, verb, target, self)
        self._at(step)
        yield
        self._at(replace(step, moment="after"))

    def read(self, call: Callable[[], V], resource: Resource, verb: str = "list", name: str = "") -> V:
        """Send a read, of which the fault is given the number, from 1; a dry run counts as one."""
        self._live()
        if resource != resources.LEASES:
            self.renew()
        self._gate()
        self._live()
        self.world.advance(LATENCY)
        self.reads += 1
        self._read_fault(self.reads)
        with self._step("read" if verb in {"list", "get"} else "dry run", verb, f"{resource.plural}/{name}"):
            return call()

    def write(
        self,
        call: Callable[[], V],
        resource: Resource,
        name: str,
        subresource: str,
        verb: str,
        *,
        left: Callable[[], float],
    ) -> V:
        """Send a write, and let the fault strike before and after it; with nothing ``left`` it is never sent."""
        self._live()
        if resource != resources.LEASES:
            self.renew()
        with self._lock:
            self._gate()
            self._live()
            if left() <= 0:
                return call()  # which raises what the store raises
            self.world.advance(LATENCY)
            write = Write(len(self.writes) + 1, "before", resource, name, subresource, self)
            self.writes.append(write)
            self._fault(write)
            with self._step("write", verb, write.target):
                answer = call()
                self.applied.append(write)
                self._fault(replace(write, moment="after"))
            return answer

    def renew(self) -> None:
        """Do what threads of its own do in the product."""
        for beat in self.beats:
            beat()

    def _live(self) -> None:
        if self.dead:
            raise Killed


class View:
    """A process's connection to the cluster: a :class:`migrator.store.Store`."""

    is_cluster = True

    def __init__(self, inner: MemoryStore, process: Process, left: Callable[[], float] = lambda: 1.0) -> None:
        self._inner = inner
        self.process = process
        self._left = left

    @property
    def dry_run(self) -> DryRun:
        """See the store."""
        return self._inner.dry_run

    @property
    def request_timeout(self) -> float:
        """See the store."""
        return self._inner.request_timeout

    def in_dry_run(self, mode: DryRun) -> View:
        """See the store."""
        return View(self._inner.in_dry_run(mode), self.process, self._left)

    def within(self, left: Callable[[], float]) -> View:
        """See the store."""
        return View(self._inner.within(left), self.process, left)

    def list(self, resource: Resource, project: Callable[[JSONObject], V], **options: Any) -> Listing[V]:
        """See the store."""
        return self.process.read(lambda: self._inner.list(resource, project, **options), resource)

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See the store."""
        return self._inner.kinds(group)

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See the store."""
        return self.process.read(
            lambda: self._inner.get(resource, namespace, name, subresource=subresource), resource, "get", name
        )

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """See the store."""
        name = str(body["metadata"].get("name") or "")
        return self._write(lambda: self._inner.create(resource, namespace, body), resource, name, verb="create")

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See the store."""
        return self._write(
            lambda: self._inner.patch(resource, namespace, name, ops, subresource=subresource),
            resource,
            name,
            subresource,
        )

    def patches(
        self, take: Callable[[], tuple[K, SeamWrite] | None], *, concurrency: int
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        """See the store: one after the other, so that each is a step of its own."""
        del concurrency
        return in_turn(self, take)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """See the store."""
        self._write(lambda: self._inner.delete(resource, namespace, name, uid), resource, name, verb="delete")

    def _write(
        self, call: Callable[[], V], resource: Resource, name: str, subresource: str = "", verb: str = "patch"
    ) -> V:
        if self.dry_run is not DryRun.NONE:
            return self.process.read(call, resource, verb, name)
        return self.process.write(call, resource, name, subresource, verb, left=self._left)


@dataclass
class _Operators:
    """What makes operator pods of a Deployment, and what those do with their Lease."""

    world: World
    _images: dict[str, str] = field(default_factory=dict)
    _dying: dict[str, float] = field(default_factory=dict)
    _lease: tuple[JSONObject, float] = field(default_factory=lambda: ({}, 0.0))
    _wanted: tuple[tuple[int, str], float] = ((0, ""), 0.0)
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def step(self) -> None:
        """Go on to the present."""
        store = self.world.store
        body = store.read(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
        if (body.get("status") or {}).get("observedGeneration") != body["metadata"]["generation"]:
            status = {"observedGeneration": body["metadata"]["generation"], "replicas": body["spec"]["replicas"]}
            store.put({**body, "status": status})
        self._end()
        wanted = (body["spec"]["replicas"], image_of(body["spec"]["template"]))
        if self._wanted[0] != wanted:
            self._wanted = (wanted, self.world.seconds)
        if self.world.seconds - self._wanted[1] >= self.world.lag:
            self._reconcile(*wanted)
        self._elect()

    def _end(self) -> None:
        """Pods end two seconds after they were told to, and let go of the Lease."""
        for name in [name for name, at in self._dying.items() if self.world.seconds >= at]:
            del self._dying[name], self._images[name]
            self.world.store.drop(resources.PODS, cluster.NAMESPACE, name)
            if self.world.holder == identity(name):
                self.world.hand_lease_to("", seconds=1)

    def _reconcile(self, replicas: int, image: str) -> None:
        living = [name for name in self._images if name not in self._dying]
        right = [name for name in living if self._images[name] == image]
        for name in living:
            if name not in right[:replicas]:
                self.world.store.terminate(resources.PODS, cluster.NAMESPACE, name)
                self._dying[name] = self.world.seconds + 2.0
        for _ in range(replicas - len(right)):
            name = f"grove-operator-{next(self._names)}"
            self._images[name] = image
            self.world.store.put(operator_pod(name, image))

    def _elect(self) -> None:
        """The first living pod takes a Lease that is free or has not moved for its duration, and keeps it."""
        living = [name for name in self._images if name not in self._dying]
        spec = self.world.lease().get("spec") or {}
        if spec != self._lease[0]:
            self._lease = (spec, self.world.seconds)
        if not living:
            return
        holder, ours = spec.get("holderIdentity"), identity(living[0])
        expired = self.world.seconds - self._lease[1] >= spec.get("leaseDurationSeconds", 15)
        if holder != ours and (not holder or expired):
            self.world.hand_lease_to(ours)
            holder = ours
        if holder == ours:
            self.world.on_awake(self._images[living[0]])


def identity(pod: str) -> str:
    """What an operator's pod writes into its Lease (client-go: host name, underscore, uuid)."""
    return f"{pod}_0f3c"


def operator_pod(name: str, image: str) -> Object:
    """A running pod of an operator."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": cluster.NAMESPACE, "labels": cluster.LABELS},
        "spec": {"containers": [{"name": "grove-operator", "image": image}]},
        "status": {"phase": "Running"},
    }


def image_of(template: JSONObject) -> str:
    """The image of a pod template's first container."""
    return str(template["spec"]["containers"][0]["image"])


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def kill_at(number: int, moment: Moment) -> Fault:
    """Kill the process at its write of that number."""

    def strike(write: Write) -> None:
        if write.number == number and write.moment == moment:
            write.process.kill()

    return strike


def raise_at(number: int, moment: Moment, error: Callable[[], BaseException], *, times: int = 1) -> Fault:
    """Let a write, and so many in a row, end in an error: before, it was not applied; after, it was."""
    left = [times]

    def strike(write: Write) -> None:
        if write.number >= number and write.moment == moment and left[0]:
            left[0] -= 1
            raise error()

    return strike


def do_at(number: int, moment: Moment, action: Callable[[Write], object]) -> Fault:
    """Let somebody else act at a write."""

    def strike(write: Write) -> None:
        if write.number == number and write.moment == moment:
            action(write)

    return strike
