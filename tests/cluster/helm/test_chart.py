"""The chart without a cluster: real Helm 3 and 4 render it, and it equals the manifests."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import yaml

from migrator.cli import cli
from testbed.controlplane.client import Object
from tests.cluster.helm.wrapper import (
    ARGO,
    HOOK,
    HOOKED,
    NEW,
    OLD,
    OURS,
    checks_image,
    hook,
    place,
    template,
    weight,
    wrapper,
)
from tests.cluster.site import NAMESPACE, arguments, by_name, documents, of_kind
from tests.support.pages import all_blocks, text_of
from tests.support.tables import table

#: What a chart means is the same to both; how it is read in is not.
helms = pytest.mark.parametrize("helm", ["helm3", "helm4"])


def job(objects: list[Object]) -> Object:
    return by_name(of_kind(objects, "Job"))["Job", "grove-migrator"]


@helms
@pytest.mark.parametrize(
    "values",
    [
        ("mode=argocd", "target={--to}"),
        # The patience that gives the Job as long as the manifest does.
        (*HOOK, "helmTimeout={deadline}s", "operator.image.tag={--to}"),
    ],
    ids=["argocd", "hook"],
)
def test_a_hook_is_the_manifest_and_annotations(helm: str, values: tuple[str, ...]) -> None:
    """Account, roles, policies, bindings and Job are equal in every field; only what makes them hooks is more.

    tests/cluster/manifests compares the other modes, of which the manifests are made.
    """
    manifest = documents("job.yaml")
    [expected] = of_kind(manifest, "Job")
    said = dict(word.split("=", 1) for word in arguments(expected) if "=" in word)
    said["deadline"] = str(expected["spec"]["activeDeadlineSeconds"] + 360)
    rendered = template(helm, OURS, *(re.sub(r"\{(\S+)\}", lambda match: said[match[1]], value) for value in values))
    installed = [item for item in rendered if not hook(item).startswith("post-upgrade") and not checks_image(item)]
    for item in installed:
        assert item["metadata"].pop("annotations")
    assert by_name(installed) == by_name(manifest)


@pytest.mark.parametrize("values", [(f"target={NEW}",), HOOKED, ARGO])
def test_an_image_that_cannot_be_pulled_ends_the_hook_in_minutes(values: tuple[str, ...]) -> None:
    """Before all else a Job without any permission starts the image, for five minutes at most."""
    objects = template("helm4", OURS, *values, "targetBinary.image=example.test/grove-operator:v0.1.0-alpha.12-rc1")
    first, run = sorted(of_kind(objects, "Job"), key=checks_image, reverse=True)
    assert weight(first) == -30
    assert weight(run) == 0
    assert first["spec"]["activeDeadlineSeconds"] == 300
    pod = first["spec"]["template"]["spec"]
    [account] = [item for item in of_kind(objects, "ServiceAccount") if checks_image(item)]
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"]
    assert not account["automountServiceAccountToken"]
    assert pod["serviceAccountName"] == "grove-migrator-image"
    assert weight(account) == -40
    theirs = run["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == theirs["containers"][0]["resources"], "what a quota has room for"
    assert pod["containers"][0]["image"] == theirs["containers"][0]["image"]
    assert pod["volumes"] == theirs["volumes"]


def test_a_check_that_fails_is_not_tried_again() -> None:
    """It has waited already: another attempt would say the same."""
    verify = of_kind(template("helm4", OURS, "mode=verify", f"target={NEW}"), "Job")[0]
    _, fails, _ = verify["spec"]["podFailurePolicy"]["rules"]
    assert (fails["action"], fails["onExitCodes"]["values"]) == ("FailJob", [2, 3, 7])


def test_two_installations_share_no_object() -> None:
    """In two namespaces, for the operator of a third: neither takes away what the other's run needs."""
    planner = "planner.subjects[0].kind=Group,planner.subjects[0].name=planners"
    values = (*HOOKED, "exemptFromWebhooks=true", f"operator.namespace={NAMESPACE}", planner)
    first, second = ({place(item) for item in template("helm4", OURS, *values, namespace=one)} for one in ("a", "b"))
    assert first & second == set()


def test_planners_get_their_roles_where_they_are_named() -> None:
    """By default nobody gets any; for the subjects of the values there is a role to list, and no other."""
    values = ("mode=job", f"target={NEW}")
    name = f"grove-migrator-planner.{NAMESPACE}"
    assert name not in {item["metadata"]["name"] for item in template("helm4", OURS, *values)}
    subject = "planner.subjects[0].kind=Group,planner.subjects[0].name=grove-planners"
    named = [item for item in template("helm4", OURS, *values, subject) if item["metadata"]["name"] == name]
    assert len(named) == len(documents("planner.yaml"))
    [role] = of_kind(named, "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}


def test_the_exemption_from_webhooks_is_flag_right_and_policy() -> None:
    """None of them by default; all three with the value, which needs the policies."""
    values = ("mode=job", f"target={NEW}")
    plain = template("helm4", OURS, *values)
    assert "podclique-validating-webhook" not in str(plain)
    opened = template("helm4", OURS, *values, "exemptFromWebhooks=true")
    [container] = job(opened)["spec"]["template"]["spec"]["containers"]
    assert "--allow=GM-202" in container["args"]
    rules = [rule for role in of_kind(opened, "ClusterRole") for rule in role["rules"]]
    names = ["podclique-validating-webhook", "authorizer-webhook"]
    assert [rule["verbs"] for rule in rules if rule.get("resourceNames") == names] == [["get", "patch"]]
    policies = {item["metadata"]["name"] for item in of_kind(opened, "ValidatingAdmissionPolicyBinding")}
    assert f"grove-migrator-webhooks.{NAMESPACE}" in policies
    with pytest.raises(AssertionError, match="exemptFromWebhooks needs policies"):
        template("helm4", OURS, *values, "exemptFromWebhooks=true", "policies=false")


def test_every_value_arrives(tmp_path: Path) -> None:
    """Image by digest, also beside a tag, pull secrets, resources, placement, priority, and how to find the operator.

    What may be named 123 stays a name.
    """
    values = {
        "target": NEW,
        "image": {"repository": "example.test/gm", "tag": "x", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "3", "memory": "2Gi"}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "789",
        "operator": {"namespace": "456", "deployment": "123"},
        "targetImage": "example.test/grove-operator:ours",
        "extraArguments": ["--skip-refused"],
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    objects = template("helm4", OURS, namespace="tools", file=file)
    pod = job(objects)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == f"example.test/gm@sha256:{'0' * 64}"
    assert container["imagePullPolicy"] == "Always"
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod[name] == values[name]
    assert container["resources"] == values["resources"]
    assert container["args"][-3:] == [
        "--skip-refused",
        "--operator=456/123",
        "--target-image=example.test/grove-operator:ours",
    ]
    [role] = of_kind(objects, "Role")
    assert role["metadata"]["namespace"] == "456"
    named = {rule["resources"][0]: rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule}
    assert named["deployments/scale"] == ["123"]
    assert {"grove-migrator", "grove-operator-leader-election"} <= set(named["leases"])
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["tools"]
    records = by_name(objects)["ValidatingAdmissionPolicy", "grove-migrator-records.tools"]
    assert "'grove-operator-leader-election, grove-migrator'" in str(records["spec"]["validations"])
    assert NAMESPACE not in yaml.safe_dump_all(objects)


@pytest.mark.parametrize(
    "values", [(f"target={NEW}",), (*HOOKED, "verify.enabled=true"), ARGO], ids=["job", "hook", "argo"]
)
def test_labels_and_annotations_are_on_every_job_and_its_pod(values: tuple[str, ...], tmp_path: Path) -> None:
    """As policies and cost reports ask for them, beside ours."""
    more = {"labels": {"team": "serving", "cost": "7"}, "annotations": {"example.test/owner": "me"}}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(more), encoding="utf-8")
    plain, labelled = (of_kind(template("helm4", OURS, *values, file=one), "Job") for one in (None, file))
    for before, after in zip(plain, labelled, strict=True):
        for old, new in ((before, after), (before["spec"]["template"], after["spec"]["template"])):
            for kind, added in more.items():
                assert new["metadata"].pop(kind) == {**old["metadata"].pop(kind, {}), **added}
        assert before == after


def test_the_commands_of_every_mode_are_accepted() -> None:
    """What each Job starts is a command line that the program takes."""
    for values in (
        ("mode=job", f"target={NEW}"),
        ("mode=job", f"target={NEW}", "extraArguments={--timeout=30m,--wait=1h}"),  # a flag is given once
        ("mode=verify", f"target={NEW}"),
        ("mode=verify", f"target={NEW}", f"from={OLD}"),  # which verify has no use for
        ("mode=revert", f"from={NEW}", f"target={OLD}"),
        (*HOOKED, "verify.enabled=true", f"from={OLD}"),
        ("mode=argocd", f"target={NEW}", "verify.enabled=true", "operator.namespace=a"),
    ):
        for item in of_kind(template("helm4", OURS, *values), "Job"):
            words = arguments(item)
            if checks_image(item):
                continue
            cli.commands[words[0]].make_context(words[0], words[1:], **cli.context_settings)


@pytest.mark.parametrize(("page", "commands"), [("upgrade", ["run", "verify", "run"]), ("dynamo", ["run", "verify"])])
def test_the_pages_install_what_the_chart_can_be(page: str, commands: list[str]) -> None:
    """Each command of a page that installs our chart renders with its values as they stand."""
    lines = [line for block in all_blocks(text_of(page)) for line in block.replace("\\\n", "").splitlines()]
    ours = [words for words in map(shlex.split, lines) if words[:3] == ["helm", "upgrade", "--install"]]
    values = [[value for name, value in pairwise(words) if name == "--set"] for words in ours]
    jobs = [of_kind(template("helm4", OURS, *found), "Job")[-1] for found in values]
    assert [arguments(item)[0] for item in jobs] == commands


def test_a_target_without_a_name_is_read_from_its_binary() -> None:
    """Its image is mounted as a volume."""
    mounted = job(template("helm4", OURS, "targetBinary.image=example.test/op:x"))
    spec = mounted["spec"]["template"]["spec"]
    volume = {"name": "target", "image": {"reference": "example.test/op:x", "pullPolicy": "IfNotPresent"}}
    mount = {"name": "target", "mountPath": "/target", "readOnly": True}
    assert spec["volumes"] == [volume]
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert arguments(mounted)[:2] == ["run", "--to-binary=/target/grove-operator"]
    assert "--target-image=example.test/op:x" in arguments(mounted)


_NEXT: Final = f"example.test/grove-operator:{NEW}"
_BINARY: Final = "--to-binary=/target/grove-operator"


@table(
    "values words",
    (
        "A mounted image is also named, so that a release's tag on another scheme is refused.",
        ((f"operator.image.tag={NEW}", f"targetBinary.image={_NEXT}"), (_BINARY, f"--target-image={_NEXT}")),
    ),
    (
        "A mounted image that is also named may have a tag of its own: its program decides.",
        (
            ("operator.image.tag=next", f"target={NEW}", "targetBinary.image=example.test/grove-operator:next"),
            (f"--to={NEW}", _BINARY),
        ),
    ),
    ("The tag before a digest is the target.", ((f"operator.image.tag={NEW}@sha256:{'0' * 64}",), (f"--to={NEW}",))),
    (
        "A scheme that was read on a laptop is the target, and its image is named.",
        (
            ("operator.image.tag=next", "target=legacy-1.37", "targetImage=example.test/grove-operator:next"),
            ("--to=legacy-1.37", "--target-image=example.test/grove-operator:next"),
        ),
    ),
)
def test_a_hook_takes_its_target_from_the_operators_image(values: tuple[str, ...], words: tuple[str, ...]) -> None:
    """The command line has these words."""
    assert set(words) < set(arguments(job(template("helm4", OURS, *HOOK, *values))))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "target is missing"),
        (("mode=revert", f"target={OLD}"), "from is missing"),
        (("mode=hook", f"operator.image.tag={NEW}"), "helmTimeout"),
        (("mode=hook", "helmTimeout=19m", f"operator.image.tag={NEW}"), "at least 20m"),
        (("mode=hook", "helmTimeout=soon", f"operator.image.tag={NEW}"), "helmTimeout"),
        (("mode=hook", "helmTimeout=35m", f"target={NEW}"), "must see which operator"),
        ((*HOOK, f"target={OLD}", f"operator.image.tag={NEW}"), "but this upgrade installs example.test/grove-op"),
        ((*HOOK, f"target={NEW}", "operator.image.tag=mine"), "under another tag"),
        ((*HOOK, "operator.image.tag=mine", "targetImage=example.test/grove-operator:x"), "targetImage"),
        ((*HOOK, "targetBinary.image=example.test/op:x", f"operator.image.tag={NEW}"), "targetBinary.image"),
        (("mode=always",), "mode"),
        ((f"target={NEW}", "extraArguments[0]=--dry-run"), "extraArguments: --dry-run is set by"),
        ((f"target={NEW}", f"extraArguments[0]=--to={OLD}"), "extraArguments: --to is set by"),
        ((f"target={NEW}", "extraArguments[0]=--help"), "extraArguments: --help is set by this chart, or is not for"),
        ((f"target={NEW}", "extraArguments[0]=yes"), "extraArguments: yes is not a flag"),
        (("mode=hook", "helmTimeout=35m", "operator.image.tag=latest", "targetImage=x"), "upgrade installs latest: "),
        ((f"target={NEW}", "verify.enabled=true"), "in mode job, run the chart again with mode=verify"),
        ((f"target={NEW}", "operator.deployment=a: b"), "deployment"),
        ((f"target={NEW}", "taget=x"), "taget"),
        ((f"target={NEW}", "policies=null"), "policies"),
        ((*HOOKED, "verify=null"), "verify"),
        ((f"target={NEW}", "mode=verify", "verify.wait=null"), "wait"),
        ((f"target={NEW}", "image.digest=sha256:1"), "digest"),
        ((f"target={NEW}", "labels.app\\.kubernetes\\.io/name=x"), "labels: app.kubernetes.io/name is set"),
        ((f"target={NEW}", "annotations.helm\\.sh/hook=x"), "annotations: helm.sh/hook is set"),
        ((f"target={NEW}", "annotations.linkerd\\.io/inject=enabled"), "annotations: linkerd.io/inject is set"),
    ],
)
def test_what_cannot_be_right_is_refused(values: tuple[str, ...], message: str) -> None:
    """Helm stops before it sends anything, and says which value it is."""
    template("helm4", OURS, *values, fails=message)


@pytest.mark.parametrize("mode", ["job", "verify", "revert", "manifest"])
def test_a_subchart_runs_before_the_operator_or_not_at_all(mode: str, tmp_path: Path) -> None:
    """Beside the chart that installs the operator, the Job of these modes would come after it."""
    chart = wrapper("grove", tmp_path, NEW)
    values = (f"grove-migrator.mode={mode}", f"grove-migrator.target={NEW}", f"grove-migrator.from={OLD}")
    template("helm4", chart, *values, fails=f"mode {mode} is for a release of its own: in a chart that installs")


@pytest.mark.parametrize(
    ("patience", "deadline", "more"),
    [
        ("20m", 840, ["--timeout=240s"]),
        ("25m", 1140, ["--wait=300s", "--timeout=240s"]),
        ("1h", 3240, ["--wait=10m", "--timeout=10m"]),
    ],
)
def test_the_job_is_over_before_helm_gives_up(patience: str, deadline: int, more: list[str]) -> None:
    """Deadline and grace end a minute before Helm's timeout; what is left after 20 minutes is for waiting."""
    found = job(template("helm4", OURS, *HOOKED, f"helmTimeout={patience}"))
    assert found["spec"]["activeDeadlineSeconds"] == deadline
    assert arguments(found)[-len(more) - 1 :] == ["--stop-operator", *more]


@helms
@pytest.mark.parametrize("kind", ["grove", "dynamo"])
def test_a_wrapper_takes_the_target_from_the_chart_that_it_installs(helm: str, kind: str, tmp_path: Path) -> None:
    """The target follows the operator's image; a target or a tag that says otherwise fails the upgrade."""
    grove = "grove" if kind == "grove" else "dynamo-platform.grove"
    chart = wrapper(kind, tmp_path, NEW)
    objects = template(helm, chart, namespace="dynamo-system")
    assert arguments(job(objects))[1] == f"--to={NEW}"
    [operator] = of_kind(objects, "Deployment")
    assert operator["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f":{NEW}")
    template(helm, chart, f"grove-migrator.target={OLD}", fails="but this upgrade installs")
    template(helm, chart, f"{grove}.image.tag={OLD}", fails=f"installs Grove {OLD}, but grove-migrator was given {NEW}")
    both = template(helm, chart, f"{grove}.image.tag={OLD}", f"grove-migrator.operator.image.tag={OLD}")
    assert arguments(job(both))[1] == f"--to={OLD}"
