"""Find the operator's installation, and scale it.

An operator is a Deployment with the chart's labels or container name (``operator/charts/values.yaml:deployment``), a
Deployment that the Service of Grove's validating webhook selects, at zero too, or a pod of one of these. The operator
serves the whole cluster, so two of them are one too many. A pod elsewhere with only the labels is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator.errors import LostRace, LostReply, NotAuthorised, NotFound, Refused, TestFailed, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.model import Finding, Ref
from migrator.planning.guards.base import refuse, warn
from migrator.planning.images import image_tag, pulled_digests
from migrator.resources import DEPLOYMENTS, PODS, SERVICES, VALIDATING_WEBHOOK_CONFIGURATIONS, Op
from migrator.run import operator_config
from migrator.run.admission import Webhook, webhooks
from migrator.run.operator_config import DEFAULT_LEASE_NAME
from migrator.selectors import matches_labels
from migrator.store import Store

OPERATOR_LABELS: Final = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}
OPERATOR_CONTAINER: Final = "grove-operator"

#: Its Service selects the operator's pods (``operator/charts/templates/pcs-validating-webhook-config.yaml``).
VALIDATING_WEBHOOK: Final = "podcliqueset-validating-webhook"

#: They elect no leader: ``LeaderElection`` has no JSON name there, so the configuration's key is not read
#: (``operator/api/config/v1alpha1/types.go: OperatorConfiguration``), and their charts grant no Lease either.
_NO_ELECTION: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})

_CHART: Final = ",".join(f"{key}={value}" for key, value in OPERATOR_LABELS.items())
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_SCALE_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Flags:
    """What the user says of the operator."""

    namespace: str | None = None
    deployment: str | None = None
    lease_name: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorPod:
    """A pod of an operator: its operator container's image, and the digests by which its images were pulled."""

    ref: Ref
    image: str
    terminating: bool
    digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Operator:
    """An installation, as it was found.

    ``deployment`` is empty where operator pods run without one. ``lease_name`` is the Lease that it elects its leader
    by, ``None`` where it elects none. ``settled`` is false while the Deployment controller has not seen the newest
    replicas and could still create a pod.
    """

    namespace: str
    deployment: str
    replicas: int
    image: str
    pods: tuple[OperatorPod, ...]
    lease_name: str | None
    settled: bool = True

    def __str__(self) -> str:
        return f"Deployment {self.namespace}/{self.deployment}" if self.deployment else f"pods in {self.namespace}"

    @property
    def description(self) -> str:
        """What it is, its replicas and its image."""
        noun = "replica" if self.replicas == 1 else "replicas"
        return f"{self}, {self.replicas} {noun} of {self.image or 'an unknown image'}"

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
        """What runs, or is about to."""
        return frozenset({pod.image for pod in self.pods} | ({self.image} if self.replicas else set()))


@dataclass(frozen=True, slots=True)
class Found:
    """The operator and its surroundings. ``home`` is where our Lease and record are kept, if that is known."""

    home: str | None = None
    operator: Operator | None = None
    findings: tuple[Finding, ...] = ()
    authorizer: Webhook | None = None


@dataclass(frozen=True, slots=True)
class _Deployment:
    namespace: str
    name: str
    replicas: int
    settled: bool
    selector: str
    labels: Mapping[str, Any]
    pod_spec: Mapping[str, Any]
    recognised: bool


@dataclass(frozen=True, slots=True)
class _Service:
    """The Service of Grove's webhook; without a namespace there is none, or a URL."""

    namespace: str = ""
    selector: str = ""
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class _SeenPod:
    pod: OperatorPod
    labels: Mapping[str, Any]
    spec: Mapping[str, Any]


def find(store: Store, flags: Flags, *, everywhere: bool = True) -> Found:
    """Find the installation.

    Without ``everywhere`` Deployments of other namespaces are found by the chart's labels only, which is cheap, and
    pods there are not warned of. Raises :class:`~migrator.errors.UsageError` for a named Deployment that does not exist
    or flags that contradict what is found, and :class:`~migrator.errors.NotAuthorised` where a right is missing: an
    operator that may not be seen is never taken for absent.
    """
    configurations = store.list(VALIDATING_WEBHOOK_CONFIGURATIONS, lambda raw: raw).items
    service = _service(store, configurations)
    chosen, findings = _choose(_deployments(store, flags, service, everywhere=everywhere), flags, service)
    home = service.namespace or (chosen.namespace if chosen else None) or flags.namespace
    if flags.namespace is not None and home != flags.namespace:
        findings.append(
            refuse("GM-203", None, None, f"--operator-namespace {flags.namespace}: the operator is in namespace {home}")
        )
    if service.finding is not None:
        findings.append(service.finding)
    blocking = (w for raw in configurations for w in webhooks(raw) if w.fails_closed)
    places = {place for place in (home, chosen.namespace if chosen else None) if place}
    seen = [found for place in sorted(places) for found in _pods(store, place, chosen, service)]
    if everywhere:
        findings += _elsewhere(store, places)
    operator = None
    if chosen is not None or seen:
        operator, problem = _operator(store, flags, chosen, seen)
        findings += [problem] if problem else []
    return Found(home, operator, tuple(findings), next(blocking, None))


def kept_out(operator: Operator, held: Iterable[str]) -> bool:
    """Whether an operator waits for one of these Leases before it acts."""
    return operator.lease_name is not None and operator.lease_name in held


def lease_names(operator: Operator | None, flags: Flags) -> tuple[str, ...]:
    """The Leases that an operator may elect its leader by: its own, the one that the user names, and the default."""
    names = {operator.lease_name if operator is not None else None, flags.lease_name, DEFAULT_LEASE_NAME}
    return tuple(sorted(name for name in names if name))


def scale(store: Store, operator: Operator, replicas: int) -> None:
    """Set the Deployment's replicas through its ``scale`` subresource; nothing else of it is ever written.

    To zero from anything, or back from zero: both leave no field owner on ``spec.replicas``, so that Helm's
    server-side apply can set it again (measured; the zero is absent in a Scale, hence owned by nobody). A
    Deployment that already has replicas is not scaled to another number but left as it is.
    Safe to repeat; a lost reply is resolved by reading. Raises :class:`~migrator.errors.LostRace` if others keep
    changing the replicas, and :class:`~migrator.errors.Refused` where there is no Deployment.
    """
    if not operator.deployment:
        names = ", ".join(f"{p.ref.namespace}/{p.ref.name}" for p in operator.pods)
        raise Refused(f"operator pods without a Deployment cannot be scaled: stop {names} yourself, then run again")
    current = operator.replicas
    for _ in range(_SCALE_ATTEMPTS):
        if current == replicas or (current > 0 and replicas > 0):
            return
        ops = (
            Op("test", "/spec/replicas", current or None),  # in a Scale, zero is an absent field
            Op("replace", "/spec/replicas", replicas),
        )
        try:
            store.patch(DEPLOYMENTS, operator.namespace, operator.deployment, ops, subresource="scale")
        except (TestFailed, LostReply):
            current = _deployment(store.get(DEPLOYMENTS, operator.namespace, operator.deployment)).replicas
        else:
            return
    if current == replicas:
        return
    raise LostRace(
        f"{operator} has {current} replicas and could not be scaled to {replicas} in {_SCALE_ATTEMPTS} attempts: "
        "something else keeps changing them (GitOps, an autoscaler?); pause it, then run again"
    )


def _service(store: Store, configurations: Sequence[JSONObject]) -> _Service:
    """Where Grove's own webhook leads."""
    named = [raw for raw in configurations if raw["metadata"]["name"] == VALIDATING_WEBHOOK]
    clients = [webhook.get("clientConfig") or {} for raw in named for webhook in raw.get("webhooks") or ()]
    service = next((client["service"] for client in clients if client.get("service")), None)
    if service is None:
        said = f"ValidatingWebhookConfiguration {VALIDATING_WEBHOOK} leads to a URL: what is behind it is not seen"
        by_url = any(client.get("url") for client in clients)
        return _Service(finding=warn("GM-122", None, None, said) if by_url else None)
    namespace = str(service.get("namespace") or "")
    try:
        raw = store.get(SERVICES, namespace, str(service.get("name") or ""))
    except (NotFound, NotAuthorised) as error:
        if isinstance(error, NotFound):
            return _Service(namespace)
        said = f"Service {namespace}/{service.get('name')} may not be read, so an operator under labels of its own is "
        return _Service(namespace, finding=warn("GM-122", None, None, f"{said}not seen; grant `get` on services"))
    labels = (raw.get("spec") or {}).get("selector") or {}
    return _Service(namespace, ",".join(f"{key}={value}" for key, value in labels.items()))


def _deployments(store: Store, flags: Flags, service: _Service, *, everywhere: bool) -> list[_Deployment]:
    home = service.namespace or flags.namespace
    try:
        if everywhere or home is None:
            return list(store.list(DEPLOYMENTS, _deployment).items)
        found = {(d.namespace, d.name): d for d in store.list(DEPLOYMENTS, _deployment, label_selector=_CHART).items}
        found |= {(d.namespace, d.name): d for d in store.list(DEPLOYMENTS, _deployment, namespace=home).items}
        return list(found.values())
    except NotAuthorised as error:
        if flags.namespace is not None:
            return list(store.list(DEPLOYMENTS, _deployment, namespace=flags.namespace).items)
        raise NotAuthorised(
            f"Deployments in all namespaces may not be listed, so an operator could run unseen: {error}; grant `list` "
            "on deployments, or name the operator's namespace with --operator-namespace"
        ) from error


def _choose(
    deployments: Sequence[_Deployment], flags: Flags, service: _Service
) -> tuple[_Deployment | None, list[Finding]]:
    """The operator's Deployment, and findings about others."""
    candidates = [d for d in deployments if d.recognised or _selected(service, d.namespace, d.labels)]
    chosen = candidates
    if flags.deployment is not None:
        chosen = [d for d in deployments if d.name == flags.deployment]
    if flags.namespace is not None and (flags.deployment is not None or len(chosen) > 1):
        chosen = [d for d in chosen if d.namespace == flags.namespace]
    if flags.deployment is not None and not chosen:
        where = f"namespace {flags.namespace}" if flags.namespace else "any namespace"
        raise UsageError(
            f"there is no Deployment {flags.deployment} in {where}: correct --operator-namespace and "
            "--operator-deployment, or leave them out"
        )
    if len(chosen) > 1:
        names = ", ".join(f"{d.namespace}/{d.name}" for d in chosen)
        return chosen[0], [
            refuse(
                "GM-203",
                None,
                None,
                f"{len(chosen)} operator Deployments: {names}; choose one with --operator-namespace and "
                "--operator-deployment, and remove the other: every operator serves the whole cluster",
            )
        ]
    others = [d for d in candidates if d not in chosen and d.replicas]
    said = "looks like an operator, and was not chosen"
    findings = [warn("GM-203", None, None, f"Deployment {d.namespace}/{d.name} {said}") for d in others]
    return (chosen[0] if chosen else None), findings


def _selected(service: _Service, namespace: str, labels: Mapping[str, Any]) -> bool:
    return bool(service.selector) and namespace == service.namespace and matches_labels(service.selector, labels)


def _pods(store: Store, place: str, chosen: _Deployment | None, service: _Service) -> Iterator[_SeenPod]:
    """The operator's pods in one namespace: of its Deployment, behind its webhook, or with the chart's labels."""
    own = chosen.selector if chosen is not None and chosen.namespace == place else ""
    for found in store.list(PODS, _pod, namespace=place).items:
        if found is not None and (
            matches_labels(_CHART, found.labels)
            or (own and matches_labels(own, found.labels))
            or _selected(service, place, found.labels)
        ):
            yield found


def _elsewhere(store: Store, places: Iterable[str]) -> Iterator[Finding]:
    """Pods with the chart's labels in other namespaces: anybody may write those."""
    known = frozenset(places)
    for found in store.list(PODS, _pod, label_selector=_CHART).items:
        if found is not None and found.pod.ref.namespace not in known:
            said = f"{found.pod.ref} carries the operator's labels, and is not in the operator's namespace"
            yield warn("GM-122", found.pod.ref, None, f"{said}: it is not taken for an operator")


def _operator(
    store: Store, flags: Flags, chosen: _Deployment | None, seen: Sequence[_SeenPod]
) -> tuple[Operator, Finding | None]:
    spec = chosen.pod_spec if chosen is not None else seen[0].spec
    home = chosen.namespace if chosen is not None else seen[0].pod.ref.namespace
    image, problem = _image(spec), None
    lease: str | None = flags.lease_name or DEFAULT_LEASE_NAME
    try:
        configured = operator_config.read(store, home, spec)
        if configured is not None:
            lease = (flags.lease_name or configured.lease_name) if configured.enabled else None
        elif flags.lease_name is None:
            said = "mounts no readable OperatorConfiguration (config.yaml of a ConfigMap), so its Lease is not known"
            refusal = f"the operator in namespace {home} {said}: name it with --lease-name"
            problem = refuse("GM-122", None, None, refusal)
    except Refused as error:
        if flags.lease_name is None:
            problem = refuse("GM-122", None, None, str(error))
    if f"v{(image_tag(image) or '').removeprefix('v')}" in _NO_ELECTION:
        lease = None
    return Operator(
        namespace=home,
        deployment=chosen.name if chosen is not None else "",
        replicas=chosen.replicas if chosen is not None else 0,
        image=image,
        pods=tuple(sorted((found.pod for found in seen), key=lambda pod: pod.ref)),
        lease_name=lease,
        settled=chosen.settled if chosen is not None else True,
    ), problem


def _pod(raw: JSONObject) -> _SeenPod | None:
    """A pod that may run: one whose containers have all ended for good (evicted, say) stays listed and does not."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    terminating = metadata.get("deletionTimestamp") is not None
    if (raw.get("status") or {}).get("phase") in _ENDED and not terminating:
        return None
    ref = Ref("Pod", metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
    pod = OperatorPod(ref, _image(spec), terminating, pulled_digests(raw))
    return _SeenPod(pod, metadata.get("labels") or {}, spec)


def _deployment(raw: JSONObject) -> _Deployment:
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = metadata.get("labels") or {}
    template = spec.get("template") or {}
    pod_spec = template.get("spec") or {}
    replicas = spec.get("replicas")
    observed = status.get("observedGeneration")
    return _Deployment(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        replicas=1 if replicas is None else int(replicas),  # the API server's default
        # Nobody has ever reconciled a Deployment without observedGeneration, so nobody makes pods of it.
        settled=observed is None or observed >= metadata.get("generation", 0),
        selector=_selector(spec.get("selector") or {}),
        labels=(template.get("metadata") or {}).get("labels") or {},
        pod_spec=pod_spec,
        recognised=all(labels.get(key) == value for key, value in OPERATOR_LABELS.items())
        or any(c.get("name") == OPERATOR_CONTAINER for c in pod_spec.get("containers") or ()),
    )


def _selector(selector: Mapping[str, Any]) -> str:
    """A label selector in the text form that lists take."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression["key"], expression["operator"], ",".join(expression.get("values") or ())
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(terms)


def _image(pod_spec: Mapping[str, Any]) -> str:
    containers: Sequence[Mapping[str, Any]] = pod_spec.get("containers") or ()
    named = [c for c in containers if c.get("name") == OPERATOR_CONTAINER]
    return next((str(c.get("image") or "") for c in (*named, *containers)), "")
