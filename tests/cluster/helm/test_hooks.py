"""When Helm and Argo CD apply each object of the chart, and when they remove it; real Helm renders it."""

from __future__ import annotations

from typing import Final

from testbed.controlplane.client import Object
from tests.cluster.helm.wrapper import ARGO, HOOKED, NEW, OURS, checks_image, hook, place, template, weight
from tests.cluster.site import of_kind
from tests.support.tables import table

#: What limits the account, and what it may do.
LIMITS: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
RIGHTS: Final = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def weights(objects: list[Object], *kinds: str) -> list[int]:
    """When the hooks of these kinds come."""
    return [weight(item) for item in of_kind(objects, *kinds)]


def test_policies_come_before_the_rights_that_they_limit() -> None:
    """By hooks' weights: policies, then roles and bindings, then the Job."""
    for values in (HOOKED, ARGO):
        objects = template("helm4", OURS, *values)
        objects = [item for item in objects if not hook(item).startswith("post-") and not checks_image(item)]
        assert max(weights(objects, *LIMITS)) < min(weights(objects, *RIGHTS))
        assert max(weights(objects, *RIGHTS)) < min(weights(objects, "Job"))


def test_helm_deletes_no_right_or_policy_while_the_job_may_live() -> None:
    """Before the upgrade nothing goes when a hook succeeded or failed: at its timeout Helm counts these as such.

    Afterwards all but the Job goes: each object has a twin by kind, name and namespace that permits and denies nothing.
    """
    rendered = template("helm4", OURS, *HOOKED)
    objects = [item for item in rendered if not checks_image(item)]
    before = [item for item in objects if hook(item) == "pre-upgrade,pre-rollback"]
    after = [item for item in objects if hook(item) == "post-upgrade,post-rollback"]
    for item in before:
        assert item["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert len(before) + len(after) == len(objects)
    assert {place(item) for item in after} == {place(item) for item in before if item["kind"] != "Job"}
    for item in after:
        assert item.get("rules", []) == item.get("subjects", []) == []
        assert "paramRef" not in item.get("spec", {})
        assert [found["expression"] for found in item.get("spec", {}).get("validations", [])] in ([], ["true"])
    assert max(weights(after, *RIGHTS)) < min(weights(after, *LIMITS)), "rights go before their limits"


@table(
    "values jobs",
    (
        "With the operator's chart: before it is upgraded, and the check behind.",
        (
            (*HOOKED, "verify.enabled=true"),
            {
                "grove-migrator-image": ("pre-upgrade,pre-rollback", "before-hook-creation,hook-succeeded"),
                "grove-migrator": ("pre-upgrade,pre-rollback", "before-hook-creation"),
                "grove-migrator-verify": ("post-upgrade,post-rollback", "before-hook-creation"),
            },
        ),
    ),
    (
        "A release of its own: whenever it is installed or changed.",
        (
            ("mode=job", f"target={NEW}"),
            {
                "grove-migrator-image": ("post-install,post-upgrade", "before-hook-creation,hook-succeeded"),
                "grove-migrator": ("post-install,post-upgrade", "before-hook-creation"),
            },
        ),
    ),
    (
        "Argo CD: before a sync, and the check behind.",
        (
            (*ARGO, "verify.enabled=true"),
            {
                "grove-migrator-image": ("PreSync", "BeforeHookCreation,HookSucceeded"),
                "grove-migrator": ("PreSync", "BeforeHookCreation"),
                "grove-migrator-verify": ("PostSync", "BeforeHookCreation"),
            },
        ),
    ),
)
def test_a_job_runs_in_time_and_stays_as_evidence(values: tuple[str, ...], jobs: dict[str, tuple[str, str]]) -> None:
    """The one that only starts the image goes when it could."""
    for item in of_kind(template("helm4", OURS, *values), "Job"):
        found = {key.partition("/")[2]: value for key, value in item["metadata"]["annotations"].items()}
        assert (found["hook"], found["hook-delete-policy"]) == jobs.pop(item["metadata"]["name"])
        of_its_own = "mode=job" in values  # in the operator's release it would crash Flux (helm-controller #1562)
        assert found.get("hook-output-log-policy") == ("hook-failed" if of_its_own else None)
    assert jobs == {}


def test_argo_cd_removes_rights_and_policies_after_a_sync() -> None:
    """When the new operator is installed."""
    objects = [item for item in template("helm4", OURS, *ARGO) if item["kind"] not in {"Job", "ServiceAccount"}]
    policy = "argocd.argoproj.io/hook-delete-policy"
    assert {item["metadata"]["annotations"][policy] for item in objects} == {"BeforeHookCreation,HookSucceeded"}


def test_without_policies_there_is_none() -> None:
    """Neither before the upgrade nor as an empty twin after it."""
    assert of_kind(template("helm4", OURS, *HOOKED, "policies=false"), *LIMITS) == []


def test_the_check_after_an_upgrade_ends_before_its_rights_go() -> None:
    """Helm waits for each hook, and the lower weight comes first."""
    rendered = template("helm4", OURS, *HOOKED, "verify.enabled=true")
    after = [item for item in rendered if hook(item).startswith("post-")]
    assert max(weights(after, "Job")) < min(weights(after, *RIGHTS, *LIMITS))
