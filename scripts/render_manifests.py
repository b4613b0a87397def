"""Make the manifests that people apply from the one source in manifests/base.

python -m scripts.render_manifests                          write manifests/*.yaml
python -m scripts.render_manifests --check                  exit with 1 if one of them is not current
python -m scripts.render_manifests --image=NAME --into=DIR  write them into a directory, with another image

The text of the base is kept, comments included: only annotations are put in, and arguments and names replaced. Each
of these replacements must fit exactly once, or nothing is written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

MANIFESTS: Final = Path(__file__).resolve().parent.parent / "manifests"
BASE: Final = MANIFESTS / "base"

#: The files of the base, and when a hook applies each: the policies hold before there are rights that they limit.
PARTS: Final = {"serviceaccount.yaml": -20, "policy.yaml": -20, "rbac.yaml": -10, "job.yaml": 0}

#: The image as the base names it, once.
IMAGE: Final = "grove-migrator:0.1.0"

_JOB: Final = "Job"
_SEPARATOR: Final = "---\n"
HOW_MADE: Final = "# Made by `python -m scripts.render_manifests` from manifests/base: change it there.\n"


@dataclass(frozen=True, slots=True)
class Variant:
    """One file: ``heading`` is its comment, ``rights`` and ``job`` are annotations of what comes before and of the Job.

    ``weight`` is the annotation that orders hooks. ``replaced`` maps pieces of the Job's text to what stands there
    instead.
    """

    name: str
    heading: str
    weight: str = ""
    rights: Mapping[str, str] = field(default_factory=dict)
    job: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)


VARIANTS: Final = (
    Variant(
        name="job.yaml",
        heading="""\
# One Job between the old operator and the new one. Set --to and the image, then either
#
#   kubectl -n grove-system delete job grove-migrator --ignore-not-found
#   kubectl apply -f manifests/job.yaml
#   kubectl -n grove-system logs -f job/grove-migrator
#
# and upgrade the operator once the Job is complete. When the upgrade is over, take rights and policies away again:
#
#   kubectl delete -f manifests/job.yaml
#
# With Helm, Argo CD or Flux take the chart (charts/grove-migrator), not this file: its hook sees what the same upgrade
# installs, and ends before Helm gives up. kubectl ignores the annotations.
# Everything about it, going back above all: docs/upgrade.md.
""",
        weight="helm.sh/hook-weight",
        # Never hook-succeeded or hook-failed: when its own time is up, Helm deletes what has one of these while the
        # Job lives on. What deletes them after the upgrade is helm-after.yaml.
        rights={"helm.sh/hook": "pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"},
        job={
            "helm.sh/hook": "pre-upgrade",
            "helm.sh/hook-delete-policy": "before-hook-creation",
            "helm.sh/hook-output-log-policy": "hook-failed",
        },
    ),
    Variant(
        name="argo-cd.yaml",
        heading="""\
# The same as hooks of Argo CD: it runs before every sync, and ends at once where there is nothing to do.
# Put it into the Application that holds Grove's operator, and read docs/upgrade.md first.
""",
        weight="argocd.argoproj.io/sync-wave",
        # Argo CD deletes what has HookSucceeded at the end of a sync that succeeded as a whole, so when the new
        # operator is installed (gitops-engine, pkg/sync/sync_context.go: Sync). After a failed one it stays.
        rights={
            "argocd.argoproj.io/hook": "PreSync",
            "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation,HookSucceeded",
        },
        job={
            "argocd.argoproj.io/hook": "PreSync",
            "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
        },
    ),
    Variant(
        name="revert.yaml",
        heading="""\
# The way back, before the old operator is installed again (helm rollback): from the new release to the old one.
# By hand, and by hand only: no hook runs it. Set --from, --to and the image, then
#
#   kubectl -n grove-system delete job grove-migrator-revert --ignore-not-found
#   kubectl apply -f manifests/revert.yaml
#   kubectl -n grove-system logs -f job/grove-migrator-revert
#
# and roll back once the Job is complete. Then take rights and policies away: kubectl delete -f manifests/revert.yaml
# Read "Going back" in docs/upgrade.md first.
""",
        replaced={
            "# The run itself. Its": "# The run, the other way round. Its",
            "  name: grove-migrator\n  namespace": "  name: grove-migrator-revert\n  namespace",
            "# The release that is going to be installed:": "# From the release that is installed to the older one:",
            "- --to=v0.1.0-alpha.11\n": "- --from=v0.1.0-alpha.11\n            - --to=v0.1.0-alpha.9\n",
        },
    ),
)


#: What Helm does once the new operator is installed: rights and policies go.
AFTER: Final = "helm-after.yaml"
_AFTER_HEADING: Final = """\
# What the hook of the chart does when the upgrade is over: it takes rights and policies away.
# Helm deletes a hook before it creates one of the same name, and these once more when they have been created. They
# permit and forbid nothing. If the upgrade fails, the Job may live on, and so do its rights and policies.
"""
#: Rights go before the policies that limit them.
_AFTER_WEIGHTS: Final = {"serviceaccount.yaml": -10, "policy.yaml": 0, "rbac.yaml": -20}


def files(image: str = IMAGE) -> dict[str, str]:
    """Every file by its name, with this image. Raises ``ValueError`` where the base does not fit what is replaced."""
    return {variant.name: rendered(variant, image) for variant in VARIANTS} | {AFTER: _after()}


def rendered(variant: Variant, image: str = IMAGE) -> str:
    """The text of one file. Raises ``ValueError`` where the base does not fit what is to be changed in it."""
    documents = _SEPARATOR.join(_documents(variant, image))
    return variant.heading + HOW_MADE + _SEPARATOR + documents


def _base() -> Iterator[tuple[str, str]]:
    """Every document of the base, with the file that it is in."""
    for part in PARTS:
        for text in (BASE / part).read_text(encoding="utf-8").split(_SEPARATOR):
            yield part, text


def _documents(variant: Variant, image: str) -> Iterator[str]:
    for part, document in _base():
        is_job = re.search(r"^kind: (.+)$", document, re.MULTILINE)
        if is_job is None:
            raise ValueError(f"manifests/base: a document without a kind: {document[:60]!r}")
        weight = {variant.weight: f'"{PARTS[part]}"'} if variant.weight else {}
        if is_job[1] == _JOB:
            replaced = {**variant.replaced, f"image: {IMAGE}\n": f"image: {image}\n"}
            yield _annotated(_replaced(document, replaced), {**weight, **variant.job})
        else:
            yield _annotated(document, {**weight, **variant.rights})


def _after() -> str:
    """An object for each of the base but the Job, with its kind and its name."""
    documents = [
        yaml.safe_dump(_emptied(yaml.safe_load(document), _AFTER_WEIGHTS[part]), sort_keys=False)
        for part, document in _base()
        if part in _AFTER_WEIGHTS
    ]
    return _AFTER_HEADING + HOW_MADE + _SEPARATOR + _SEPARATOR.join(documents)


def _emptied(item: dict[str, Any], weight: int) -> dict[str, Any]:
    annotations = {
        "helm.sh/hook": "post-upgrade",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    nothing = {"apiGroups": ["grove.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nothing"]}
    contents: dict[str, dict[str, Any]] = {
        "ValidatingAdmissionPolicy": {
            "spec": {"matchConstraints": {"resourceRules": [nothing]}, "validations": [{"expression": "true"}]}
        },
        "ValidatingAdmissionPolicyBinding": {
            "spec": {"policyName": item["metadata"]["name"], "validationActions": ["Deny"]}
        },
        "ServiceAccount": {},
    }
    content = contents.get(
        item["kind"], {key: [] if key == "rules" else item[key] for key in ("rules", "roleRef") if key in item}
    )
    metadata = {"annotations": annotations, **item["metadata"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, **content}


def _replaced(document: str, replaced: Mapping[str, str]) -> str:
    for old, new in replaced.items():
        if document.count(old) != 1:
            raise ValueError(f"manifests/base/job.yaml: {old!r} is there {document.count(old)} times")
        document = document.replace(old, new)
    return document


def _annotated(document: str, annotations: Mapping[str, str]) -> str:
    if not annotations:
        return document
    head, metadata, rest = document.partition("\nmetadata:\n")
    if not metadata or "\nmetadata:\n" in rest or re.search(r"^  annotations:", rest, re.MULTILINE):
        raise ValueError(f"manifests/base: annotations do not fit into {document[:60]!r}")
    lines = "".join(f"    {key}: {value}\n" for key, value in annotations.items())
    return f"{head}{metadata}  annotations:\n{lines}{rest}"


def main(arguments: list[str]) -> int:
    """Write every file, or with ``--check`` print which are not current."""
    parser = argparse.ArgumentParser(description="Make the manifests from manifests/base.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not current")
    parser.add_argument("--image", default=IMAGE, help="the image of every Job")
    parser.add_argument("--into", type=Path, default=MANIFESTS, help="the directory to write to")
    options = parser.parse_args(arguments)
    stale = []
    for name, text in files(options.image).items():
        path = options.into / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not options.check:
            path.write_text(text, encoding="utf-8")
    if stale and options.check:
        print(f"not current: {', '.join(stale)}; run python -m scripts.render_manifests")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
