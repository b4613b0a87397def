"""Find the operator's installation, and scale it.

An operator is a Deployment with the chart's labels or container name (``operator/charts/values.yaml:deployment``), a
Deployment that the Service of Grove's validating webhook selects, even at zero, or a pod of one of these. It serves the
whole cluster, so there must be no second one. A pod elsewhere that has only the labels does not count as an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from migrator import errors
from migrator.errors import LostRace, LostReply, MigratorError, NotAuthorised, NotFound, Refused, TestFailed, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.objects import Ref
from migrator.planning.guards.base import as_warning, report
from migrator.planning.model import Finding, Severity
from migrator.planning.releases import image_tag
from migrator.resources import DEPLOYMENTS, PODS, SERVICES, VALIDATING_WEBHOOK_CONFIGURATIONS, Op
from migrator.run.admission import authorizers
from migrator.run.operator_config import DEFAULT_LEASE_NAME, elects_by
from migrator.selectors import matches_selector
from migrator.store import Store

OPERATOR_LABELS: Final = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}
OPERATOR_CONTAINER: Final = "grove-operator"

#: Its Service selects the operator's pods (``operator/charts/templates/pcs-validating-webhook-config.yaml``).
VALIDATING_WEBHOOK: Final = "podcliqueset-validating-webhook"

#: Releases that elect no leader: ``LeaderElection`` has no JSON name there, so the configuration's key is not read
#: (``operator/api/config/v1alpha1/types.go: OperatorConfiguration``), and their charts grant no Lease either.
_NO_ELECTION: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})

#: Codes of guards: no leader election; several Deployments that may be the operator.
NO_ELECTION: Final = "GM-207"
_SEVERAL: Final = "GM-203"

_CHART: Final = {"matchLabels": OPERATOR_LABELS}
_CHART_LABELS: Final = ",".join(f"{key}={value}" for key, value in OPERATOR_LABELS.items())
_ENDED: Final = frozenset({"Succeeded", "Failed"})
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
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise UsageError(
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

    def __str__(self) -> str:
        return f"operator {self.ref} ({self.image})"


@dataclass(frozen=True, slots=True)
class Operator:
    """An installation, as it was found."""

    namespace: str
    deployment: str  # empty where pods run without one
    replicas: int
    image: str
    pods: tuple[OperatorPod, ...]
    lease_name: str | None  # by which it elects its leader, if it does
    settled: bool = True  # false while the Deployment controller has not seen the newest replicas
    uid: str = ""  # the Deployment's

    def __str__(self) -> str:
        return f"Deployment {self.namespace}/{self.deployment}" if self.deployment else f"pods in {self.namespace}"

    @property
    def description(self) -> str:
        """What it is, its replicas and its image."""
        return f"{self}, {errors.count(self.replicas, 'replica')} of {self.image}"

    @property
    def evidence(self) -> str:
        """What shows that it is there: a pod by name, or else its description."""
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
    def images(self) -> frozenset[str]:
        """The images that run, or are about to."""
        return frozenset({pod.image for pod in self.pods} | ({self.image} if self.replicas else set()))


@dataclass(frozen=True, slots=True)
class Found:
    """The operator, and findings about it. ``home`` is where our Lease and record are kept, if that is known."""

    home: str | None = None
    operator: Operator | None = None
    findings: tuple[Finding, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)  # images of other operators that have replicas, by name

    def refuse_several(self) -> None:
        """Raise :class:`~migrator.errors.ForeignOperator` if there are several operators: each serves all sets."""
        for found in self.findings:
            if found.code == _SEVERAL and found.severity is Severity.REFUSAL:
                raise errors.ForeignOperator(str(found), guard=found.code)


@dataclass(frozen=True, slots=True)
class _Service:
    """The Service of Grove's validating webhook, and its LabelSelector; both are empty if there is none."""

    namespace: str = ""
    selector: Mapping[str, Any] = field(default_factory=dict)


def find(store: Store, flags: OperatorFlags, *, everywhere: bool = True) -> Found:
    """Find the installation; without ``everywhere`` other namespaces are searched by the chart's labels only.

    Raises :class:`~migrator.errors.UsageError` for a named Deployment that does not exist while another one looks like
    the operator, and :class:`~migrator.errors.NotAuthorised` if a permission is missing: what cannot be read does not
    count as absent, except the webhook's Service (a finding warns) and, with ``--operator``, Deployments elsewhere.
    """
    configurations = store.list(VALIDATING_WEBHOOK_CONFIGURATIONS, lambda raw: raw)
    service, behind = _service(store, configurations)
    chosen, others, findings = _choose(_deployments(store, flags, service, everywhere=everywhere), flags, service)
    its = _namespace(chosen) if chosen else None
    home = its or service.namespace or flags.namespace
    if chosen and service.namespace and its != service.namespace:
        message = (
            f"{_name(chosen)} is not in the namespace of the webhook {VALIDATING_WEBHOOK}, {service.namespace}: it is "
            "not clear which of them is the operator"
        )
        findings.append(report(_SEVERAL, None, None, message, "remove what is left of the other installation"))
    namespaces = {each for each in (home, service.namespace) if each}
    selectors = (_CHART, service.selector, chosen["spec"].get("selector") if chosen else None)
    pods = [pod for each in sorted(namespaces) for pod in _pods(store, each, selectors)]
    findings += [*behind, *(_elsewhere(store, namespaces) if everywhere else ())]
    operator = None
    if chosen or pods:
        operator, unknown = _operator(store, chosen, pods)
        findings += unknown
    return Found(home, operator, (*findings, *authorizers(configurations)), others)


def lease_names(operator: Operator | None) -> tuple[str, ...]:
    """The Leases that an operator may elect its leader by: that of its configuration, and the default."""
    names = {operator.lease_name if operator is not None else None, DEFAULT_LEASE_NAME}
    return tuple(sorted(name for name in names if name))


def scale(store: Store, operator: Operator, replicas: int) -> None:
    """Set the Deployment's replicas to zero, or back from zero; one that has replicas already is left as it is.

    Only the ``scale`` subresource is written: that leaves no field owner on ``spec.replicas``, so that Helm's
    server-side apply can set it again (measured). Raises :class:`~migrator.errors.LostRace` if others keep changing it.
    """
    current = operator.replicas
    for _ in range(_SCALE_ATTEMPTS):
        if current == replicas or (current > 0 and replicas > 0):
            return
        ops = (
            Op("test", "/spec/replicas", current or None),  # in a Scale, zero is an absent field
            Op("replace", "/spec/replicas", replicas),
        )
        with suppress(TestFailed, LostReply):
            store.patch(DEPLOYMENTS, operator.namespace, operator.deployment, ops, subresource="scale")
            return
        current = store.get(DEPLOYMENTS, operator.namespace, operator.deployment)["spec"]["replicas"]
    if current != replicas:
        raise LostRace(
            f"{operator} has {current} replicas and could not be scaled to {replicas} in {_SCALE_ATTEMPTS} attempts: "
            "something else keeps changing them (GitOps, an autoscaler?); pause it, then run again"
        )


def watch(
    store: Store,
    flags: OperatorFlags,
    acts: Callable[[Operator], bool],
    every: float,
    clock: Callable[[], float],
) -> Callable[[], bool]:
    """A function that looks for an operator that ``acts``, every so many seconds, and says whether there was one."""
    due, found = clock(), False

    def look() -> bool:
        nonlocal due, found
        if not found and (began := clock()) >= due:
            with suppress(MigratorError):  # an operator that cannot be read now is seen after the last write
                now = find(store, flags, everywhere=False).operator
                found = now is not None and acts(now)
            due = clock() + max(every, clock() - began)  # slow reads take half of the time at most
        return found

    return look


def _service(store: Store, configurations: Sequence[JSONObject]) -> tuple[_Service, list[Finding]]:
    """The Service behind Grove's own webhook."""
    named = [raw for raw in configurations if raw["metadata"]["name"] == VALIDATING_WEBHOOK]
    clients = [webhook.get("clientConfig") or {} for raw in named for webhook in raw.get("webhooks") or ()]
    service = next((client["service"] for client in clients if client.get("service")), None)
    if service is None:
        message = f"ValidatingWebhookConfiguration {VALIDATING_WEBHOOK} calls a URL: the operator behind it is not seen"
        by_url = any(client.get("url") for client in clients)
        return _Service(), [as_warning(report("GM-122", None, None, message))] if by_url else []
    namespace, name = str(service.get("namespace") or ""), str(service.get("name") or "")
    try:
        raw = store.get(SERVICES, namespace, name)
    except NotFound:
        return _Service(namespace), []
    except NotAuthorised:
        message = f"you cannot read Service {namespace}/{name}, so an operator with other labels is not seen"
        return _Service(namespace), [as_warning(report("GM-122", None, None, message, "grant `get` on services"))]
    return _Service(namespace, {"matchLabels": (raw.get("spec") or {}).get("selector")}), []


def _deployments(store: Store, flags: OperatorFlags, service: _Service, *, everywhere: bool) -> list[JSONObject]:
    """The Deployments that look like an operator, or have the name that the user gives."""

    def listed(namespace: str | None = None, labels: str | None = None) -> list[JSONObject]:
        def if_wanted(raw: JSONObject) -> JSONObject | None:
            return raw if raw["metadata"]["name"] == flags.deployment or _recognised(raw, service) else None

        found = store.list(DEPLOYMENTS, if_wanted, namespace=namespace, label_selector=labels)
        return [raw for raw in found if raw is not None]

    home = service.namespace or flags.namespace
    try:
        if everywhere or home is None:
            return listed()
        return [*(raw for raw in listed(labels=_CHART_LABELS) if _namespace(raw) != home), *listed(home)]
    except NotAuthorised as error:
        if flags.namespace is not None:
            return listed(flags.namespace)
        raise NotAuthorised(
            f"you are not allowed to list Deployments in all namespaces, so an operator could run unseen: {error}. "
            "Grant `list` on deployments, or name the operator's Deployment with --operator"
        ) from error


def _choose(
    deployments: Sequence[JSONObject], flags: OperatorFlags, service: _Service
) -> tuple[JSONObject | None, dict[str, str], list[Finding]]:
    """The operator's Deployment, the images of others that run, and findings about them."""
    chosen = candidates = [raw for raw in deployments if _recognised(raw, service)]
    if flags.deployment is not None:
        named = (flags.namespace, flags.deployment)
        chosen = [raw for raw in deployments if (_namespace(raw), raw["metadata"]["name"]) == named]
        if not chosen and candidates:
            raise UsageError(
                f"--operator {flags.namespace}/{flags.deployment}: there is no such Deployment; the operator seems to "
                f"be {_name(candidates[0])}: correct --operator, or leave it out"
            )
    running = (raw for raw in candidates if raw not in chosen[:1] and raw["spec"]["replicas"])
    others = {f"Deployment {_name(raw)}": _image(raw["spec"]["template"]["spec"]) for raw in running}
    if len(chosen) > 1:
        names = ", ".join(map(_name, chosen))
        message = f"{len(chosen)} operator Deployments: {names}, and every operator serves the whole cluster"
        remedy = "choose one with --operator, and remove the other"
        return chosen[0], others, [report(_SEVERAL, None, None, message, remedy)]
    what, remedy = "looks like an operator and has replicas, but was not chosen", "scale it to zero, or remove it"
    refusals = [report(_SEVERAL, None, None, f"{name} {what}", remedy) for name in others]
    return next(iter(chosen), None), others, refusals


def _recognised(deployment: JSONObject, service: _Service) -> bool:
    """Whether a Deployment has the chart's labels or container name, or is behind the webhook."""
    template = deployment["spec"]["template"]
    return (
        matches_selector(_CHART, _labels(deployment))
        or any(container["name"] == OPERATOR_CONTAINER for container in template["spec"]["containers"])
        or (_namespace(deployment) == service.namespace and matches_selector(service.selector, _labels(template)))
    )


def _pods(store: Store, namespace: str, selectors: Iterable[Mapping[str, Any] | None]) -> list[JSONObject]:
    def if_operators(raw: JSONObject) -> JSONObject | None:
        ours = _may_run(raw) and any(matches_selector(selector, _labels(raw)) for selector in selectors)
        return raw if ours else None

    return [raw for raw in store.list(PODS, if_operators, namespace=namespace) if raw is not None]


def _elsewhere(store: Store, namespaces: Collection[str]) -> Iterator[Finding]:
    """Warnings of pods with the chart's labels in other namespaces, where anybody may have set them."""
    for ref in store.list(PODS, lambda raw: _ref(raw) if _may_run(raw) else None, label_selector=_CHART_LABELS):
        if ref is not None and ref.namespace not in namespaces:
            message = f"{ref} carries the operator's labels, and is not in the operator's namespace"
            yield as_warning(report("GM-122", ref, None, f"{message}: it does not count as an operator"))


def _operator(store: Store, chosen: JSONObject | None, pods: Sequence[JSONObject]) -> tuple[Operator, list[Finding]]:
    namespace = _namespace(chosen or pods[0])
    spec = (chosen["spec"]["template"] if chosen else pods[0])["spec"]
    image, unknown = _image(spec), list[Finding]()
    lease: str | None = DEFAULT_LEASE_NAME
    try:
        lease = elects_by(store, namespace, spec)
    except Refused as error:
        unknown.append(report("GM-122", None, None, str(error)))
    if f"v{(image_tag(image) or '').removeprefix('v')}" in _NO_ELECTION:
        lease = None
    if lease is None:
        message = (
            f"the operator in namespace {namespace} runs without leader election, so no Lease keeps it out during the "
            "run"
        )
        remedy = "make sure that nothing scales it up until the run has ended"
        unknown.append(report(NO_ELECTION, None, None, message, remedy))
    found = tuple(sorted(map(_pod, pods), key=lambda pod: pod.ref))
    if chosen is None:
        return Operator(namespace, "", 0, image, found, lease), unknown
    observed = (chosen.get("status") or {}).get("observedGeneration")
    # A Deployment without observedGeneration was never reconciled, so no controller makes pods of it.
    settled = observed is None or observed >= chosen["metadata"].get("generation", 0)
    return Operator(
        namespace,
        chosen["metadata"]["name"],
        chosen["spec"]["replicas"],
        image,
        found,
        lease,
        settled,
        chosen["metadata"]["uid"],
    ), unknown


def _namespace(raw: JSONObject) -> str:
    return str(raw["metadata"].get("namespace", ""))


def _name(raw: JSONObject) -> str:
    return f"{_namespace(raw)}/{raw['metadata']['name']}"


def _labels(raw: JSONObject) -> Mapping[str, str]:
    return raw["metadata"].get("labels") or {}


def _may_run(pod: JSONObject) -> bool:
    """Whether a pod may run: not one whose containers have all ended, for example by an eviction."""
    return _terminating(pod) or (pod.get("status") or {}).get("phase") not in _ENDED


def _terminating(pod: JSONObject) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def _ref(pod: JSONObject) -> Ref:
    return Ref("Pod", _namespace(pod), pod["metadata"]["name"], pod["metadata"].get("uid", ""))


def _pod(raw: JSONObject) -> OperatorPod:
    status, ending = raw.get("status") or {}, _terminating(raw)
    up = all(container.get("ready", True) for container in status.get("containerStatuses") or ())
    ready = up and not ending and status.get("phase") == "Running"
    return OperatorPod(_ref(raw), _image(raw["spec"]), ending, ready)


def _image(pod_spec: JSONObject) -> str:
    """The operator's image: its own container's, or else the first one's."""
    containers = pod_spec["containers"]
    named = (container for container in containers if container["name"] == OPERATOR_CONTAINER)
    return str(next(named, containers[0])["image"])
