"""Find the operator's installation, and scale it.

An operator is a Deployment with the chart's labels (``operator/charts/values.yaml:deployment``) or the one that
``--operator`` names, or a pod of it. It serves the whole cluster, so there must be no second one, in any namespace.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator import errors, kinds, words
from migrator.cluster import Cluster
from migrator.exact_json import JSONObject, integer
from migrator.grove.objects import Ref, kubernetes_time
from migrator.planning.guards import operators
from migrator.planning.model import Finding
from migrator.releases.table import release_in
from migrator.run import leases
from migrator.run.leases import OWN_LEASE, PARKED, Lease
from migrator.run.record import OperatorBefore

OPERATOR_LABELS: Final = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}
OPERATOR_CONTAINER: Final = "grove-operator"

_SCALE_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class OperatorFlags:
    """``--operator NAMESPACE/NAME``: the operator's Deployment."""

    namespace: str | None = None
    deployment: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> OperatorFlags:
        """The flag as it was typed; raises :class:`~migrator.errors.UsageError` if it is no namespace and name."""
        if text is None:
            return cls()
        namespace, _, name = text.partition("/")
        if not (namespace and name) or "/" in name:
            raise errors.UsageError(
                f"--operator {text}: give the operator's namespace and Deployment, such as grove-system/grove-operator"
            )
        return cls(namespace, name)


@dataclass(frozen=True, slots=True)
class OperatorPod:
    """A pod of an operator."""

    ref: Ref
    image: str
    terminating: bool
    ready: bool
    restarts: int  # of its containers, after an error
    restarted: datetime | None  # when the last of them began to run again

    @classmethod
    def of(cls, raw: JSONObject) -> OperatorPod | None:
        """The pod; ``None`` if all its containers have ended, for example by an eviction, so that it runs nothing."""
        metadata, status = raw["metadata"], raw.get("status") or {}
        phase, terminating = status.get("phase"), metadata.get("deletionTimestamp") is not None
        if phase in {"Succeeded", "Failed"} and not terminating:
            return None
        containers = status.get("containerStatuses") or ()
        restarted = [one for one in containers if one.get("restartCount") and _crashed(one)]
        began = (kubernetes_time(((one.get("state") or {}).get("running") or {}).get("startedAt")) for one in restarted)
        return cls(
            Ref("Pod", metadata["namespace"], metadata["name"], metadata.get("uid", "")),
            _image(raw["spec"]),
            terminating,
            ready=phase == "Running" and not terminating and all(one.get("ready", True) for one in containers),
            restarts=sum(integer(one["restartCount"]) for one in restarted),
            restarted=max((moment for moment in began if moment is not None), default=None),
        )

    def __str__(self) -> str:
        return f"operator {self.ref} ({self.image})"


@dataclass(frozen=True, slots=True)
class Operator:
    """An installation, as it was found."""

    namespace: str
    deployment: str  # empty if pods run without one
    replicas: int
    image: str
    pods: tuple[OperatorPod, ...] = ()
    elects: bool = False  # one of its pods holds the Lease
    settled: bool = True  # false while the Deployment controller has not seen the newest replicas
    paused: bool = False  # its rollout, so that new pods have the image that ran before
    selector: str = ""  # of its pods' labels
    uid: str = ""  # the Deployment's
    annotations: Mapping[str, str] = field(default_factory=dict)  # the Deployment's

    @classmethod
    def of(cls, raw: JSONObject) -> Operator:
        """The installation of a Deployment, before its pods are read."""
        metadata, spec = raw["metadata"], raw["spec"]
        observed = (raw.get("status") or {}).get("observedGeneration")
        return cls(
            metadata["namespace"],
            metadata["name"],
            spec["replicas"],
            _image(spec["template"]["spec"]),
            # A Deployment without observedGeneration was never reconciled, so no controller makes pods of it.
            settled=observed is None or observed >= metadata.get("generation", 0),
            paused=bool(spec.get("paused")),
            selector=_selector(spec["selector"].get("matchLabels") or {}),
            uid=metadata["uid"],
            annotations=metadata.get("annotations") or {},
        )

    def __str__(self) -> str:
        return f"Deployment {self.full_name}" if self.deployment else f"pods in {self.namespace}"

    @property
    def full_name(self) -> str:
        """The Deployment as ``--operator`` names it."""
        return f"{self.namespace}/{self.deployment}"

    @property
    def description(self) -> str:
        """What it is, its replicas and its image."""
        return f"{self}, {words.count(self.replicas, 'replica')} of {self.image}"

    @property
    def evidence(self) -> str:
        """What shows that it is there: a pod by name, otherwise its description."""
        return str(self.pods[0]) if self.pods else self.description

    @property
    def live(self) -> bool:
        """Whether it runs, or is about to."""
        return self.replicas > 0 or any(not pod.terminating for pod in self.pods)

    @property
    def gone(self) -> bool:
        """Whether no pod of it exists and none can come."""
        return self.replicas == 0 and not self.pods and self.settled

    @property
    def start_command(self) -> str:
        """The command that starts it if it is at zero."""
        return f"kubectl scale {self.in_a_command} --replicas=1"

    @property
    def in_a_command(self) -> str:
        """The Deployment as arguments of kubectl, for a shell."""
        return f"{shlex.quote(f'deployment/{self.deployment}')} -n {shlex.quote(self.namespace)}"

    @property
    def images(self) -> frozenset[str]:
        """The images that run, or are about to."""
        return frozenset({pod.image for pod in self.pods} | ({self.image} if self.replicas else set()))


@dataclass(frozen=True, slots=True)
class Found:
    """The operator, and findings about it. ``home`` is where our Lease and record are kept, if that is known.

    It is not known if Deployments in several namespaces may be the operator and none is named: whoever makes one must
    not choose the record. ``parked``: the operator's Lease is parked. ``others`` are the images of other operators that
    run, by the name of their Deployment or pod: each of them acts, whatever Lease we hold.
    """

    home: str | None = None
    operator: Operator | None = None
    findings: tuple[Finding, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    parked: bool = False

    def refuse_unclear(self) -> None:
        """Raise :class:`~migrator.errors.ForeignOperator` if it is not clear which operator runs, or may start."""
        for found in self.findings:
            if found.code == operators.UNCLEAR.code:
                raise errors.ForeignOperator(str(found), guard=found.code)


def find(cluster: Cluster, flags: OperatorFlags, *, home: str | None = None, own: str | None = None) -> Found:
    """Find the installation.

    ``home`` is its namespace once that is settled: one elsewhere is another operator. ``own`` is the namespace of our
    pod, which is the home if no operator shows another one. Raises :class:`~migrator.errors.UsageError` for a named
    Deployment that does not exist while another one looks like the operator, and
    :class:`~migrator.errors.NotAuthorised` if a permission is missing: what cannot be read does not count as absent.
    """
    deployments, labelled = _deployments(cluster, flags), _pods(cluster, label_selector=_selector(OPERATOR_LABELS))
    chosen, findings = _choose(cluster, deployments, flags, home)
    is_guess = home is None and flags.namespace is None and len({one.namespace for one in deployments}) > 1
    home = home or (chosen.namespace if chosen is not None else flags.namespace)
    home = home or next((pod.ref.namespace for pod in labelled), own)
    pods = {pod.ref: pod for pod in labelled if pod.ref.namespace == home}
    if chosen is not None:  # its pods need not have the chart's labels
        # All models may be in this namespace, too, and this is read every few seconds.
        pods |= {pod.ref: pod for pod in _pods(cluster, namespace=home, label_selector=chosen.selector)}
    others = {str(one): one.image for one in deployments if one is not chosen and one.replicas}
    others |= {str(pod.ref): pod.image for pod in labelled if pod.ref.namespace != home}
    findings += [_unclear(f"{name} looks like an operator and runs") for name in others]
    lease = leases.everywhere(cluster, leases.OPERATOR_LEASE).get(home or "", Lease())
    # client-go's identity is the pod's name, an underscore and a uuid.
    leader = lease.holder.partition("_")[0]
    elects = any(pod.ref.name == leader and not pod.terminating for pod in pods.values())
    operator = chosen or next((Operator(pod.ref.namespace, "", 0, pod.image) for pod in pods.values()), None)
    if operator is not None:
        operator = replace(operator, pods=tuple(pods[ref] for ref in sorted(pods)), elects=elects)
        findings += _doubts(operator)
    return Found(None if is_guess else home, operator, tuple(findings), others, lease.holder == PARKED)


def _unclear(message: str, remedy: str = "scale it to zero, or remove it") -> Finding:
    return operators.UNCLEAR.found(None, None, f"{message}, and every operator serves the whole cluster", remedy)


def _doubts(operator: Operator) -> Iterator[Finding]:
    """Why this operator may start with another image than it names, or without waiting for its Lease."""
    if operator.paused:
        message = f"the rollout of {operator} is paused, so it need not start the image that it names"
        remedy = f"scale it to zero, then resume it with `kubectl rollout resume {operator.in_a_command}`"
        yield operators.UNCLEAR.found(None, None, message, remedy)
    if not operator.elects:
        name = f"{operator.namespace}/{leases.OPERATOR_LEASE}"
        message = (
            f"no running pod of the operator holds Lease {name}. If its leader election is off, a run cannot keep "
            "out an operator that starts meanwhile"
        )
        yield operators.NO_ELECTION.found(None, None, message)


def contradictions(found: Found, webhook: str | None, moving: Iterable[str]) -> list[Finding]:
    """What shows an operator elsewhere: the Service of its webhook, and its Leases that are being renewed.

    Without such a webhook or Lease there is no contradiction.
    """
    home = found.operator.namespace if found.operator is not None else None
    evidence = {
        f"webhook podcliqueset-validating-webhook calls a Service in namespace {webhook}": webhook,
        **{f"somebody renews Lease {one}/{leases.OPERATOR_LEASE}": one for one in moving},
    }
    where = f"is {found.operator}" if found.operator is not None else "was not found by the chart's labels"
    remedy = "name the operator's Deployment with --operator NAMESPACE/NAME"
    return [
        operators.UNCLEAR.found(None, None, f"the operator {where}, but {what}", remedy)
        for what, namespace in evidence.items()
        if namespace is not None and namespace != home
    ]


def scale(cluster: Cluster, operator: Operator, replicas: int, *, attempts: int = _SCALE_ATTEMPTS) -> None:
    """Set the Deployment's replicas to zero, or back from zero; one that has replicas already is left as it is.

    Only the ``scale`` subresource is written: that leaves no field owner on ``spec.replicas``, so that Helm's
    server-side apply can set it again (measured). Raises :class:`~migrator.errors.LostRace` if others keep changing it.
    """
    current = operator.replicas
    for _ in range(attempts):
        if bool(current) == bool(replicas):
            return
        ops = (
            # Not the resource version: each change of the status moves that, and to stop an operator is urgent.
            kinds.Op("test", "/spec/replicas", current or None),  # in a Scale, zero is an absent field
            kinds.Op("replace", "/spec/replicas", replicas),
        )
        with suppress(errors.TestFailed, errors.LostReply):
            cluster.patch(kinds.DEPLOYMENTS, operator.namespace, operator.deployment, ops, subresource="scale")
            return
        current = sum(one.replicas for one in _named(cluster, operator.namespace, operator.deployment))
    if bool(current) != bool(replicas):
        raise errors.LostRace(
            f"{operator} has {current} replicas and could not be scaled to {replicas} in {attempts} attempts: "
            "something else keeps changing them (GitOps, an autoscaler?); pause it, then run again"
        )


def is_same_operator(installed: Operator, was: OperatorBefore) -> bool:
    """Whether a Deployment is the one that was stopped: the same object, and the same image or release."""
    release = release_in(was.image)
    same = installed.image == was.image or (release is not None and release_in(installed.image) == release)
    return installed.uid == was.uid and same


def _deployments(cluster: Cluster, flags: OperatorFlags) -> list[Operator]:
    """The Deployments that look like an operator, and the one that the user names."""
    named = _named(cluster, flags.namespace or "", flags.deployment) if flags.deployment is not None else ()
    labelled = cluster.list(kinds.DEPLOYMENTS, Operator.of, label_selector=_selector(OPERATOR_LABELS))
    return list({one.full_name: one for one in (*named, *labelled)}.values())


def _named(cluster: Cluster, namespace: str, name: str) -> tuple[Operator, ...]:
    """One Deployment, by a list: a run needs no other right on Deployments."""
    return cluster.list(kinds.DEPLOYMENTS, Operator.of, namespace=namespace, field_selector=f"metadata.name={name}")


def _choose(
    cluster: Cluster, deployments: Sequence[Operator], flags: OperatorFlags, home: str | None
) -> tuple[Operator | None, list[Finding]]:
    """The operator's Deployment, and a finding if there are several that may be it."""
    chosen = [one for one in deployments if one.namespace == home]
    if home is None:
        chosen = sorted(deployments, key=lambda one: not one.replicas)  # those that run come first
    if flags.deployment is not None:
        wanted = f"{flags.namespace}/{flags.deployment}"
        chosen = [one for one in deployments if one.full_name == wanted]
        # A run may have been there before Grove moved; its Lease shows that.
        moved = all(one.namespace != flags.namespace for one in deployments)
        if deployments and not chosen and not (moved and flags.namespace in leases.everywhere(cluster, OWN_LEASE)):
            raise errors.UsageError(
                f"--operator {wanted}: there is no such Deployment; the operator seems to be "
                f"{deployments[0].full_name}: correct --operator, or leave it out"
            )
    if len(chosen) > 1:
        message = f"{len(chosen)} operator Deployments: {', '.join(one.full_name for one in chosen)}"
        remedy = "name the one that you upgrade with --operator, and scale the others to zero or remove them"
        return chosen[0], [_unclear(message, remedy)]
    return next(iter(chosen), None), []


def _pods(cluster: Cluster, *, namespace: str | None = None, label_selector: str) -> list[OperatorPod]:
    """The pods that may run."""
    found = cluster.list(kinds.PODS, OperatorPod.of, namespace=namespace, label_selector=label_selector)
    return [pod for pod in found if pod is not None]


def _selector(labels: Mapping[str, str]) -> str:
    """A list request's selector. Without a Deployment's expressions it may count more pods, but never misses one."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _crashed(container: JSONObject) -> bool:
    """Whether it ended with an error before it began again.

    With a new certificate Grove's operator ends with 0 (``operator/internal/controller/cert/cert.go``,
    ``RestartOnSecretRefresh``; cert-controller, ``pkg/rotator/rotator.go:refreshCertIfNeeded``).
    """
    return ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode") != 0


def _image(pod_spec: JSONObject) -> str:
    """The operator's image: that of the container with its name, otherwise of the first one."""
    containers = pod_spec["containers"]
    named = (container for container in containers if container["name"] == OPERATOR_CONTAINER)
    return words.as_name(str(next(named, containers[0])["image"]))
