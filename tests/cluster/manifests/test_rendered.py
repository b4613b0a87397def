"""The manifests are what the chart renders, and the API server takes each of them to the letter."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Final

import durationpy
import pytest
import yaml

from testbed.controlplane.client import APPLY_PATCH, eventually
from testbed.helm import PROGRAMS
from tests.cluster.helm.wrapper import OURS, template
from tests.cluster.site import (
    ACCOUNT,
    MANIFESTS,
    NEW,
    ServedSite,
    arguments,
    by_name,
    documents,
    job_of,
    made,
    of_kind,
)
from tests.cluster.webhooks import opted_in
from tests.support.commands import run
from tests.support.paths import ROOT

JOBS: Final = ("job.yaml", "revert.yaml")
FILES: Final = (*JOBS, "planner.yaml")
HOOKED: Final = ("mode=hook", "helmTimeout=35m", f"operator.image.tag={NEW}")
#: How long a run may take to revert after its time is up (seconds).
REVERT: Final = 600


def test_the_files_are_what_the_chart_renders(tmp_path: Path) -> None:
    """Nobody has edited a rendered file, or the chart without `make manifests`."""
    helm = PROGRAMS["helm3"].binary()
    run("make", "--silent", "--old-file=.venv/.dev", "manifests", f"HELM={helm}", f"MANIFESTS={tmp_path}")
    for name in FILES:
        assert (MANIFESTS / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8")


def test_policies_come_before_rights_and_the_job_comes_last() -> None:
    """A file is applied from top to bottom."""
    for name in JOBS:
        kinds = [item["kind"] for item in documents(name)]
        assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("ClusterRoleBinding")
        assert kinds[-1] == "Job"


def test_labels_neither_switch_a_policy_off_nor_on() -> None:
    """Tenants label their objects and namespaces as they like: no policy or binding selects by labels or by name."""
    policies = of_kind(documents("job.yaml"), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    for item in policies:
        text = yaml.safe_dump(item["spec"])
        for selector in ("objectSelector", "namespaceSelector", "resourceNames", "matchResources", "'*/*'"):
            assert selector not in text, item["metadata"]["name"]
    rules = [rule for item in policies for rule in item["spec"].get("matchConstraints", {}).get("resourceRules", ())]
    assert all("*" not in rule["resources"] + rule["apiGroups"] for rule in rules)


def test_a_policy_that_cannot_be_evaluated_denies() -> None:
    """An expression that fails on an object that nobody has thought of must not let the request pass."""
    policies = of_kind(opted_in(), "ValidatingAdmissionPolicy")
    assert {item["spec"]["failurePolicy"] for item in policies} == {"Fail"}


def test_the_deadline_leaves_every_attempt_its_time() -> None:
    """Each attempt may wait, run for `--timeout`, revert, and take the grace period after SIGTERM."""
    spec = job_of()["spec"]
    words = dict(word.split("=", 1) for word in arguments(job_of()) if "=" in word)
    times = sum(
        durationpy.from_str(value).total_seconds()
        for name, value in words.items()
        if name.startswith(("--wait", "--timeout"))
    )
    grace = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    assert spec["activeDeadlineSeconds"] == 4 * (times + REVERT + grace)
    assert spec["backoffLimit"] == 3


@pytest.mark.parametrize("name", JOBS)
def test_what_another_attempt_cannot_mend_fails_the_job_at_once(name: str) -> None:
    """An eviction does not count, whatever the exit code: its rule is the first. 2 and 3 are final, 1 and 6 are not.

    tests/e2e shows what the Job controller makes of it.
    """
    disrupted, *others = job_of(name)["spec"]["podFailurePolicy"]["rules"]
    assert disrupted == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    codes = {rule["action"]: rule["onExitCodes"]["values"] for rule in others}
    assert codes == {"FailJob": [2, 3], "Count": [1, 6]}


@pytest.mark.parametrize("name", JOBS)
def test_the_pod_is_stricter_than_restricted(name: str) -> None:
    """Nothing to write to, limits as a quota may ask for, no sidecar, no Service variables, no token for other pods."""
    [account] = of_kind(documents(name), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    template = job_of(name)["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert template["spec"]["enableServiceLinks"] is False
    assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert template["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"
    assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & set(template["spec"])


def test_kustomize_adds_the_target_image(tmp_path: Path) -> None:
    """The component: --to-binary in place of --to, the image's name, a volume at /target, read-only; nothing else."""
    shutil.copy(MANIFESTS / "job.yaml", tmp_path)
    shutil.copytree(MANIFESTS / "components" / "target-image", tmp_path / "target-image")
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\ncomponents: [target-image]\n")
    built = by_name(list(yaml.safe_load_all(run(PROGRAMS["kustomize"].binary(), "build", tmp_path))))
    spec = built["Job", "grove-migrator"]["spec"]["template"]["spec"]
    [container], [volume] = spec["containers"], spec.pop("volumes")
    assert container.pop("volumeMounts") == [{"name": volume["name"], "mountPath": "/target", "readOnly": True}]
    assert container["args"][1] == "--to-binary=/target/grove-operator"
    assert container["args"].pop() == f"--target-image={volume['image']['reference']}"
    container["args"][1] = "--to=v0.1.0-alpha.11"
    assert built == by_name(documents("job.yaml"))


def test_the_user_of_the_image_is_a_number() -> None:
    """The kubelet checks runAsNonRoot by the image's USER: no pod of ours names one."""
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)


#: A stand-in of what OpenShift's restricted-v2 asks of a pod's users: MustRunAsRange, and each namespace has a range
#: (docs.redhat.com, "Managing security context constraints"). Ours name no group either.
RANGE: Final = """\
object.spec.containers.all(container, [object.spec, container].all(holder, !has(holder.securityContext) || (
  (!has(holder.securityContext.runAsUser) || holder.securityContext.runAsUser >= 1000680000) &&
  !has(holder.securityContext.runAsGroup) && !has(holder.securityContext.fsGroup)
)))"""


@pytest.mark.controlplane
@pytest.mark.parametrize("index", range(3), ids=["image", "run", "verify"])
def test_each_pod_of_the_chart_is_admitted_where_users_and_resources_are_limited(site: ServedSite, index: int) -> None:
    """In a namespace with a quota, restricted pods and a range of users; not with a setting less, or with a user."""
    place, quota = "limited", {"limits.cpu": "9", "limits.memory": "9Gi", "requests.cpu": "9", "requests.memory": "9Gi"}
    namespace = made("v1", "Namespace", place, None)
    namespace["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    in_place = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place}}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {"matchConstraints": {"resourceRules": [pods], **in_place}, "validations": [{"expression": RANGE}]}
    bound = {"policyName": "users", "validationActions": ["Deny"]}
    for item in (
        namespace,
        *(made("v1", "ServiceAccount", name, place) for name in (ACCOUNT, f"{ACCOUNT}-image")),
        made("v1", "ResourceQuota", "all", place, spec={"hard": quota}),
        made("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "users", None, spec=policy),
        made("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "users", None, spec=bound),
    ):
        site.client.apply(item)
    jobs = of_kind(template("helm4", OURS, *HOOKED, "verify.enabled=true"), "Job")
    pod = made("v1", "Pod", "x", place, spec=jobs[index]["spec"]["template"]["spec"])
    admit = partial(site.client.request, "POST", f"/api/v1/namespaces/{place}/pods", pod, query={"dryRun": "All"})
    pod["spec"]["securityContext"]["runAsUser"] = 65532
    eventually(lambda: admit().status == 422, what="the policy is not in force")
    del pod["spec"]["securityContext"]["runAsUser"]
    eventually(lambda: admit().status == 201, what="the pod is refused", seconds=30)
    del pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    assert "must specify limits.cpu" in admit().body["message"]
    del pod["spec"]["securityContext"]["seccompProfile"]
    assert "seccompProfile" in admit().body["message"]


#: Beside what is in FILES.
CHARTS: Final = (
    (*HOOKED, "verify.enabled=true"),
    ("mode=argocd", f"target={NEW}", "verify.enabled=true"),
    ("mode=job", "targetBinary.image=example.test/grove-operator:mine"),
    ("mode=job", f"target={NEW}", "operator.deployment=another"),
    ("mode=verify", f"target={NEW}", "tolerations[0].operator=Exists", "imagePullSecrets[0].name=pull"),
)


@pytest.mark.controlplane
@pytest.mark.parametrize("values", [*FILES, *CHARTS])
def test_the_server_knows_every_field(site: ServedSite, values: str | tuple[str, ...]) -> None:
    """A server-side apply with strict validation takes each file and what values make of the chart; it never warns."""
    query = {"fieldManager": "strict", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    for item in documents(values) if isinstance(values, str) else template("helm4", OURS, *values):
        path = site.client.kind_of(item).path(item["metadata"].get("namespace"), item["metadata"]["name"])
        answer = site.client.request("PATCH", path, item, query=query, content_type=APPLY_PATCH)
        assert answer.status in {200, 201}, answer.body
        assert answer.headers.get("Warning") is None, answer.body
