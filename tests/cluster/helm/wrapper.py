"""Real helm, and charts: ours, stand-ins of Grove's and Dynamo's, and the wrapper charts of examples/helm."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import yaml

from testbed import crds
from testbed.controlplane.client import Object
from testbed.helm import PROGRAMS
from tests.cluster.site import NAMESPACE
from tests.support.commands import attempt, run
from tests.support.paths import ROOT

OURS: Final = ROOT / "charts" / "grove-migrator"
#: What a Helm that is built without version flags takes for its cluster is too old for the chart.
KUBERNETES: Final = "1.34"
EXAMPLES: Final = ROOT / "examples" / "helm"
#: CRDs of dynamo-platform that are not Grove's: the directory, the group, and the plural.
OTHER_CRDS: Final = (
    ("crds", "nvidia.com", "dynamographdeployments"),
    ("charts/kai-scheduler/crds", "scheduling.run.ai", "queues"),
)
#: Releases, and the values of the modes that run as hooks.
OLD, NEW = "v0.1.0-alpha.8", "v0.1.0-alpha.12-rc1"
HOOK: Final = ("mode=hook", "helmTimeout=35m", "operator.image.repository=example.test/grove-operator")
HOOKED: Final = (*HOOK, f"operator.image.tag={NEW}")
ARGO: Final = ("mode=argocd", f"target={NEW}")
OPERATOR: Final = Path(__file__).resolve().parent / "chart"


def settings(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def template(
    helm: str,
    chart: Path,
    *values: str,
    namespace: str = NAMESPACE,
    file: Path | None = None,
    fails: str = "",
    upgrade: bool = True,
) -> list[Object]:
    """What a chart renders with these values; or, if it is to fail, nothing, once the message has these words."""
    more = [*(["--values", str(file)] if file else []), *(["--is-upgrade"] if upgrade else [])]
    where = ("--namespace", namespace, "--kube-version", KUBERNETES)
    done = attempt(PROGRAMS[helm].binary(), "template", "grove-migrator", chart, *where, *settings(values), *more)
    if fails:
        assert done.returncode != 0
        assert fails in done.stderr
        return []
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def hook(item: Object) -> str:
    """When Helm applies an object, if it is a hook."""
    return str(item["metadata"].get("annotations", {}).get("helm.sh/hook", ""))


def checks_image(item: Object) -> bool:
    """Whether an object is the Job that only starts the image, or its account."""
    return bool(item["metadata"]["name"] == "grove-migrator-image")


def weight(item: Object) -> int:
    """When a hook comes: the lower, the earlier."""
    found = item["metadata"]["annotations"].items()
    return int(next(value for key, value in found if key.endswith(("hook-weight", "sync-wave"))))


def place(item: Object) -> tuple[str, str, str]:
    """What tells an object from all others."""
    return item["kind"], item["metadata"]["name"], item["metadata"].get("namespace", "")


def packed(chart: Path, directory: Path) -> Path:
    """A chart as a release packs it."""
    directory.mkdir(parents=True, exist_ok=True)
    run(PROGRAMS["helm4"].binary(), "package", chart, "--destination", directory)
    [found] = directory.glob("*.tgz")
    return found


def wrapper(kind: str, directory: Path, tag: str) -> Path:
    """The wrapper chart of examples/helm/KIND, whose Grove is of this tag; its charts are there as if downloaded."""
    chart = directory / f"{kind}-{tag}"
    shutil.copytree(EXAMPLES / kind, chart)
    packed(OURS, chart / "charts")
    version = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["dependencies"][0]["version"]
    if kind == "grove":
        grove_chart(chart / "charts" / "grove-charts", version, tag)
    else:
        platform_chart(chart / "charts", tag, version)
    return chart


def platform_chart(directory: Path, tag: str, version: str = "1.0.0") -> Path:
    """A stand-in of dynamo-platform with Grove as its subchart, which it installs, and CRDs of Dynamo and of KAI."""
    platform = directory / "dynamo-platform"
    grove_chart(platform / "charts" / "grove-charts", tag, tag)
    for place, group, plural in OTHER_CRDS:
        (platform / place).mkdir(parents=True, exist_ok=True)
        crd = yaml.safe_dump(crds.without_schema(group, "v1alpha1", plural, plural.removesuffix("s").capitalize()))
        (platform / place / f"{group}_{plural}.yaml").write_text(f"---\n{crd}", encoding="utf-8")
    kai = {"apiVersion": "v2", "name": "kai-scheduler", "version": "0.17.0"}
    (platform / "charts" / "kai-scheduler" / "Chart.yaml").write_text(yaml.safe_dump(kai), encoding="utf-8")
    dependency = {"name": "grove-charts", "alias": "grove", "version": tag, "condition": "global.grove.install"}
    about = {"apiVersion": "v2", "name": "dynamo-platform", "version": version, "dependencies": [dependency]}
    (platform / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    values = {"global": {"grove": {"install": True}}}
    (platform / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return platform


def grove_chart(directory: Path, version: str, tag: str) -> Path:
    """A release of Grove's chart: its packaging writes the tag into version and values."""
    shutil.copytree(OPERATOR, directory)
    about = {"apiVersion": "v2", "name": "grove-charts", "version": version, "appVersion": tag}
    (directory / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    values = yaml.safe_load((directory / "values.yaml").read_text(encoding="utf-8"))
    values["image"]["tag"] = tag
    (directory / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    crds.write(crds.line_of(tag), directory)
    return directory


@contextmanager
def published(chart: Path, directory: Path) -> Iterator[str]:
    """The address of a chart, packed and served as a repository serves it, until the block ends."""
    found = packed(chart, directory)
    handler = partial(_Silent, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{found.name}"
        finally:
            server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
