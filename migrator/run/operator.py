"""Find, stop and restore the operator's installation.

Grove's chart gives the Deployment and its pods three fixed labels (``operator/charts/values.yaml:deployment``),
and one container named ``grove-operator``. The operator serves the whole cluster, so every pod with those
labels counts, whatever its namespace or ReplicaSet, for as long as it exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from migrator.errors import LostRace, LostReply, NotAuthorised, NotFound, Refused, TestFailed, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.model import Ref
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.resources import DEPLOYMENTS, PODS, Op
from migrator.run import operator_config
from migrator.store import Store

OPERATOR_LABELS: Final = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}
OPERATOR_CONTAINER: Final = "grove-operator"

#: They elect no leader: ``LeaderElection`` has no JSON name there, so the configuration's key is not read
#: (``operator/api/config/v1alpha1/types.go: OperatorConfiguration``), and their charts grant no Lease either.
_NO_ELECTION: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})

_VERSION: Final = re.compile(r"v?\d+\.\d+\.\d+(?:[-+.][0-9A-Za-z.+-]+)?")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_SCALE_ATTEMPTS: Final = 5
_POLL_SECONDS: Final = 1.0
_POINTER_REPLICAS: Final = "/spec/replicas"


@dataclass(frozen=True, slots=True)
class OperatorPod:
    """A pod of an operator, with the image of its operator container."""

    ref: Ref
    image: str
    terminating: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """An installation, as it was found.

    ``deployment`` and ``uid`` are empty where operator pods run without a Deployment. ``lease_name`` is the
    Lease to hold while writing (in ``namespace``), ``lease_duration`` its seconds. ``version`` is the image's
    tag if that is a version. ``settled`` is false while the Deployment controller has not seen the newest
    replicas and could still create a pod.
    """

    namespace: str
    deployment: str
    uid: str
    replicas: int
    image: str
    pods: tuple[OperatorPod, ...]
    lease_name: str
    lease_duration: float
    leader_election: bool
    version: str | None
    settled: bool = True

    def __str__(self) -> str:
        return f"Deployment {self.namespace}/{self.deployment}" if self.deployment else f"pods in {self.namespace}"


@dataclass(frozen=True, slots=True)
class _Deployment:
    namespace: str
    name: str
    uid: str
    replicas: int
    settled: bool
    selector: str
    pod_spec: Mapping[str, Any]
    recognised: bool


def find(store: Store, *, namespace: str | None, deployment: str | None, lease_name: str | None) -> Operator | None:
    """Find the installation: in ``namespace`` or, without it, anywhere; by name where ``deployment`` is given.

    ``lease_name`` overrides what the operator's configuration says. Returns ``None`` if there is neither a
    Deployment nor a pod of an operator. Raises :class:`~migrator.errors.Refused` for two installations or
    where the Lease cannot be told, :class:`~migrator.errors.UsageError` for a named Deployment that does not
    exist, and :class:`~migrator.errors.NotAuthorised` where a right is missing: an operator that may not be
    seen is never taken for absent.
    """
    found = _deployments(store, namespace, deployment)
    if len(found) > 1:
        names = ", ".join(f"{d.namespace}/{d.name}" for d in found)
        raise Refused(
            f"GM-203: {len(found)} operator Deployments: {names}; choose one with --operator-namespace and "
            "--operator-deployment, and remove the other: every operator serves the whole cluster"
        )
    if found:
        return _installation(store, found[0], lease_name)
    if deployment is not None:
        raise UsageError(
            f"there is no Deployment {deployment} in {f'namespace {namespace}' if namespace else 'any namespace'}: "
            "correct --operator-namespace and --operator-deployment, or leave them out"
        )
    return _without_deployment(store, namespace, lease_name)


def refresh(store: Store, operator: Operator) -> Operator:
    """Read the replicas, the image and the pods again; the Lease stays the one that was found first."""
    if not operator.deployment:
        return replace(operator, pods=_pods(store))
    try:
        deployment = _deployment(store.get(DEPLOYMENTS, operator.namespace, operator.deployment))
    except NotFound:
        return replace(operator, uid="", replicas=0, settled=True, pods=_pods(store))
    image = _image(deployment.pod_spec)
    return replace(
        operator,
        uid=deployment.uid,
        replicas=deployment.replicas,
        settled=deployment.settled,
        image=image,
        version=_version(image),
        pods=_pods(store, deployment),
    )


def scale(store: Store, operator: Operator, replicas: int) -> None:
    """Set the Deployment's replicas through its ``scale`` subresource; nothing else of it is ever written.

    To zero from anything, or back from zero: both leave no field owner on ``spec.replicas``, so that Helm's
    server-side apply can set it again (measured; the zero is absent in a Scale, hence owned by nobody). A
    Deployment that already has replicas is not scaled to another number but left to whoever gave them to it.
    Safe to repeat; a lost reply is resolved by reading.

    Raises :class:`~migrator.errors.LostRace` if others keep changing the replicas, and
    :class:`~migrator.errors.Refused` where there is no Deployment.
    """
    if not operator.deployment:
        names = ", ".join(f"{p.ref.namespace}/{p.ref.name}" for p in operator.pods)
        raise Refused(f"operator pods without a Deployment cannot be scaled: stop {names} yourself, then run again")
    current = operator.replicas
    for _ in range(_SCALE_ATTEMPTS):
        if current == replicas or (current > 0 and replicas > 0):
            return
        ops = (
            Op("test", _POINTER_REPLICAS, current or None),  # in a Scale, zero is an absent field
            Op("replace", _POINTER_REPLICAS, replicas),
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


def wait_until_gone(
    store: Store,
    operator: Operator,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    deadline: float,
) -> Operator:
    """Wait until no operator pod exists and none can come any more; ``deadline`` is a time of ``clock``.

    Pods are listed: a status that says zero is not enough. Returns what was seen last. Raises
    :class:`~migrator.errors.LostRace` when replicas come back or the deadline passes.
    """
    while True:
        operator = refresh(store, operator)
        if operator.replicas > 0:
            raise LostRace(
                f"{operator} has {operator.replicas} replicas again: something restores them (GitOps self-heal?); "
                "pause it, then run again"
            )
        if not operator.pods and operator.settled:
            return operator
        if clock() >= deadline:
            names = ", ".join(f"{p.ref.namespace}/{p.ref.name} ({p.image})" for p in operator.pods)
            raise LostRace(
                f"operator pods still exist: {names}; wait until they are gone, then run again"
                if names
                else f"the Deployment controller has not acted on {operator} yet; run again when it has"
            )
        sleep(_POLL_SECONDS)


def is_target(image: str, target: Scheme, target_image: str | None, digests: frozenset[str] = frozenset()) -> bool:
    """Whether an image is the target's: its tag is a release that speaks ``target``, or it is ``target_image``.

    Where ``digests`` are known and the image is named by one, that alone decides.
    """
    if digests and "@" in image:
        return image.rpartition("@")[2] in digests
    if target_image is not None and image == target_image:
        return True
    release = schemes.release_of(image_tag(image) or "")
    # A release that puts the hash into object names speaks no scheme that can be migrated to.
    return release is not None and release.scheme == target and not release.hash_in_names


def image_tag(image: str) -> str | None:
    """The tag of an image reference, ``None`` without one; a registry's port and a digest are no tag."""
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    _, colon, tag = last.partition(":")
    return tag if colon and tag else None


def _deployments(store: Store, namespace: str | None, name: str | None) -> list[_Deployment]:
    try:
        listing = store.list(DEPLOYMENTS, _deployment, namespace=namespace)
    except NotAuthorised as error:
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise NotAuthorised(
            f"Deployments {where} may not be listed, so an operator could run unseen: {error}; grant `list` on "
            "deployments, or name the operator's namespace with --operator-namespace"
        ) from error
    return [d for d in listing.items if (d.name == name if name is not None else d.recognised)]


def _installation(store: Store, deployment: _Deployment, lease_name: str | None) -> Operator:
    image = _image(deployment.pod_spec)
    lease = _lease(store, deployment.namespace, deployment.pod_spec, image, lease_name)
    return Operator(
        namespace=deployment.namespace,
        deployment=deployment.name,
        uid=deployment.uid,
        replicas=deployment.replicas,
        image=image,
        pods=_pods(store, deployment),
        lease_name=lease.lease_name,
        lease_duration=lease.lease_duration,
        leader_election=lease.enabled,
        version=_version(image),
        settled=deployment.settled,
    )


def _without_deployment(store: Store, namespace: str | None, lease_name: str | None) -> Operator | None:
    pods = _pods(store)
    if not pods:
        return None
    places = sorted({pod.ref.namespace for pod in pods})
    if namespace is not None and namespace not in places:
        raise Refused(
            f"GM-203: there is no operator in namespace {namespace}, but operator pods exist in "
            f"{', '.join(places)}; correct --operator-namespace"
        )
    if namespace is None and len(places) > 1:
        raise Refused(
            f"GM-203: operator pods exist in the namespaces {', '.join(places)}; choose one with "
            "--operator-namespace, and remove the others: every operator serves the whole cluster"
        )
    home = namespace or places[0]
    first = next(pod for pod in pods if pod.ref.namespace == home)
    spec = store.get(PODS, home, first.ref.name).get("spec") or {}
    lease = _lease(store, home, spec, first.image, lease_name)
    return Operator(
        namespace=home,
        deployment="",
        uid="",
        replicas=0,
        image=first.image,
        pods=pods,
        lease_name=lease.lease_name,
        lease_duration=lease.lease_duration,
        leader_election=lease.enabled,
        version=_version(first.image),
    )


def _lease(
    store: Store, namespace: str, pod_spec: Mapping[str, Any], image: str, lease_name: str | None
) -> operator_config.LeaderElection:
    """The Lease to hold: the one given, the operator's own, or ours where the operator uses none."""
    configured = operator_config.read(store, namespace, pod_spec)
    if configured is None and lease_name is None:
        raise Refused(
            f"the operator in namespace {namespace} mounts no readable OperatorConfiguration (config.yaml of a "
            "ConfigMap), so its Lease is not known: name it with --lease-name"
        )
    duration = configured.lease_duration if configured else operator_config.DEFAULT_LEASE_DURATION
    enabled = configured.enabled if configured else True
    if lease_name is not None:
        return operator_config.LeaderElection(enabled, lease_name, duration)
    if configured is None or not enabled or (_release(image) in _NO_ELECTION):
        return operator_config.LeaderElection(enabled, operator_config.OWN_LEASE_NAME, duration)
    return configured


def _pods(store: Store, deployment: _Deployment | None = None) -> tuple[OperatorPod, ...]:
    """Every operator pod of the cluster, and every pod that the Deployment's selector finds."""
    chart = ",".join(f"{key}={value}" for key, value in OPERATOR_LABELS.items())
    seen = list(store.list(PODS, _pod, label_selector=chart).items)
    if deployment is not None and deployment.selector and deployment.selector != chart:
        seen += store.list(PODS, _pod, namespace=deployment.namespace, label_selector=deployment.selector).items
    return tuple(sorted({pod.ref: pod for pod in seen if pod is not None}.values(), key=lambda pod: pod.ref))


def _pod(raw: JSONObject) -> OperatorPod | None:
    """A pod that may run: one whose containers have all ended for good (evicted, say) stays listed but is none."""
    metadata = raw["metadata"]
    terminating = metadata.get("deletionTimestamp") is not None
    if (raw.get("status") or {}).get("phase") in _ENDED and not terminating:
        return None
    ref = Ref("Pod", metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
    return OperatorPod(ref, _image(raw.get("spec") or {}), terminating)


def _deployment(raw: JSONObject) -> _Deployment:
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = metadata.get("labels") or {}
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    replicas = spec.get("replicas")
    observed = status.get("observedGeneration")
    return _Deployment(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        replicas=1 if replicas is None else int(replicas),  # the API server's default
        # Nobody has ever reconciled a Deployment without observedGeneration, so nobody makes pods of it.
        settled=observed is None or observed >= metadata.get("generation", 0),
        selector=_selector(spec.get("selector") or {}),
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


def _version(image: str) -> str | None:
    tag = image_tag(image)
    return tag if tag is not None and _VERSION.fullmatch(tag) else None


def _release(image: str) -> str | None:
    version = _version(image)
    return f"v{version.removeprefix('v')}" if version else None
