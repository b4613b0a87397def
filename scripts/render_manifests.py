"""Make the manifests that people apply from the one source in manifests/base.

python -m scripts.render_manifests            write manifests/*.yaml
python -m scripts.render_manifests --check    exit with 1 if one of them is not current

The text of the base is kept, comments included: only annotations are put in, and arguments and names replaced. Each
of these replacements must fit exactly once, or nothing is written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MANIFESTS: Final = Path(__file__).resolve().parent.parent / "manifests"
BASE: Final = MANIFESTS / "base"
PARTS: Final = ("serviceaccount.yaml", "rbac.yaml", "policy.yaml", "job.yaml")

_JOB: Final = "Job"
_SEPARATOR: Final = "---\n"
_HOW_MADE: Final = "# Made by `python -m scripts.render_manifests` from manifests/base: change it there.\n"


@dataclass(frozen=True, slots=True)
class Variant:
    """One file: ``heading`` is its comment, ``rights`` and ``job`` are annotations of what comes before and of the Job.

    ``replaced`` maps pieces of the Job's text to what stands there instead.
    """

    name: str
    heading: str
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
# and upgrade the operator once the Job is complete; or put this file among the templates of the chart that has
# Grove's chart as its dependency, and it runs before every upgrade by itself (kubectl ignores the annotations).
# Everything about it, going back above all: docs/upgrade.md.
""",
        rights={
            "helm.sh/hook": "pre-upgrade",
            "helm.sh/hook-weight": '"-10"',
            "helm.sh/hook-delete-policy": "before-hook-creation",
        },
        job={
            "helm.sh/hook": "pre-upgrade",
            "helm.sh/hook-weight": '"0"',
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
        rights={
            "argocd.argoproj.io/hook": "PreSync",
            "argocd.argoproj.io/sync-wave": '"-10"',
            "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
        },
        job={
            "argocd.argoproj.io/hook": "PreSync",
            "argocd.argoproj.io/sync-wave": '"0"',
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
# and roll back once the Job is complete. Read "Going back" in docs/upgrade.md first.
""",
        replaced={
            "# The run itself. Its": "# The run, the other way round. Its",
            "  name: grove-migrator\n  namespace": "  name: grove-migrator-revert\n  namespace",
            "# The release that is going to be installed:": "# From the release that is installed to the older one:",
            "- --to=v0.1.0-alpha.11\n": "- --from=v0.1.0-alpha.11\n            - --to=v0.1.0-alpha.9\n",
        },
    ),
)


def rendered(variant: Variant) -> str:
    """The text of one file. Raises ``ValueError`` where the base does not fit what is to be changed in it."""
    return variant.heading + _HOW_MADE + _SEPARATOR + _SEPARATOR.join(_documents(variant))


def _documents(variant: Variant) -> Iterator[str]:
    for document in (text for part in PARTS for text in (BASE / part).read_text(encoding="utf-8").split(_SEPARATOR)):
        is_job = re.search(r"^kind: (.+)$", document, re.MULTILINE)
        if is_job is None:
            raise ValueError(f"manifests/base: a document without a kind: {document[:60]!r}")
        if is_job[1] == _JOB:
            yield _annotated(_replaced(document, variant.replaced), variant.job)
        else:
            yield _annotated(document, variant.rights)


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
    """Write every file, or with ``--check`` tell which are not current."""
    stale = []
    for variant in VARIANTS:
        path, text = MANIFESTS / variant.name, rendered(variant)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(variant.name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"not current: {', '.join(stale)}; run python -m scripts.render_manifests")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
