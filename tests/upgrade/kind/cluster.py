"""A kind cluster with Grove from its published charts: real kubelets, and the tool as the Job of manifests/job.yaml."""

from __future__ import annotations

import base64
import os
import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import yaml

from migrator import __version__
from testbed import operator_installation as installation
from testbed.controlplane import crds
from testbed.controlplane.client import Object, eventually, job_end
from testbed.controlplane.options import Ready
from tests.support.paths import ROOT
from tests.support.watch import DELETED
from tests.upgrade.builds import Build
from tests.upgrade.cluster import Cluster, Ran, is_of
from tests.upgrade.kind import pods
from tests.upgrade.kind.charts import Charts
from tests.upgrade.kind.commands import CommandError, Run, run

_NAMESPACE: Final = installation.NAMESPACE
_RELEASE: Final = "grove"
_JOB: Final = "grove-migrator"
_TO: Final = "- --to=v0.1.0-alpha.11\n"
_IMAGE: Final = f"image: grove-migrator:{__version__}\n"
_PUBLISHED: Final = Charts()
_JOB_SECONDS: Final = 1900  # a little more than its activeDeadlineSeconds
_LOOK_SECONDS: Final = 0.5
_ADMINISTRATOR: Final = "grove-migrator-e2e"
_METRICS: Final = f"/api/v1/namespaces/{_NAMESPACE}/services/{installation.NAME}:metrics/proxy/metrics"
#: Build arguments of the Dockerfile that the environment decides.
_BUILD_ARGUMENTS: Final = ("BUILD_BASE", "RUNTIME_BASE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")


def build_image(tag: str, *, run: Run = run) -> None:
    """Build our image from the Dockerfile."""
    named = [f"--build-arg={name}" for name in _BUILD_ARGUMENTS if name in os.environ]
    run("docker", "build", "--tag", tag, *named, str(ROOT))


def manifest(image: str, to: str, *more: str) -> str:
    """manifests/job.yaml as a user edits it: another image, another ``--to``, and more arguments if given.

    Raises ValueError where one of these is not there exactly once.
    """
    text = (ROOT / "manifests" / "job.yaml").read_text(encoding="utf-8")
    for piece in (_TO, _IMAGE):
        if text.count(piece) != 1:
            raise ValueError(f"manifests/job.yaml: {piece!r} is there {text.count(piece)} times")
    arguments = "".join(f"{' ' * 12}- {argument}\n" for argument in more)
    return text.replace(_IMAGE, f"image: {image}\n").replace(_TO, f"- --to={to}\n{arguments}")


class KindCluster(Cluster):
    """A cluster of one node, which is deleted at the end whatever happens.

    ``image`` is ours, in the engine's store. Builds are installed from ``source``, which must have their charts.
    ``by_chart``: the Job is that of our chart, which Helm waits for, and not that of manifests/job.yaml.
    """

    start_seconds = 600.0  # images are pulled
    settle_seconds = 1800.0

    def __init__(
        self, directory: Path, image: str, *, run: Run = run, source: Charts = _PUBLISHED, by_chart: bool = False
    ) -> None:
        super().__init__()
        self._by_chart = by_chart
        self._charts = source
        self.name = f"grove-migrator-{secrets.token_hex(4)}"
        self.kubeconfig = directory / "kubeconfig"
        self._directory = directory
        self._image = image
        self._run = run
        self._ended: dict[str, float] = {}  # when the last pod of each operator's image was gone

    def _begin(self, ends: ExitStack) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        named = ("--name", self.name, "--kubeconfig", str(self.kubeconfig))
        ends.callback(self._run, "kind", "delete", "cluster", *named)
        self._run("kind", "create", "cluster", *named, "--wait", "5m")
        self._run("kind", "load", "docker-image", self._image, "--name", self.name)
        self.ready = self._administrator()

    def _administrator(self) -> Ready:
        """A token with every right: kind's kubeconfig has a certificate, and the tests' client speaks with tokens."""
        kubectl = ("kubectl", "--kubeconfig", str(self.kubeconfig), "--namespace", "kube-system")
        account = f"kube-system:{_ADMINISTRATOR}"
        binding = ("--clusterrole=cluster-admin", f"--serviceaccount={account}")
        self._run(*kubectl, "create", "serviceaccount", _ADMINISTRATOR)
        self._run(*kubectl, "create", "clusterrolebinding", _ADMINISTRATOR, *binding)
        token = self._run(*kubectl, "create", "token", _ADMINISTRATOR, "--duration=8h").strip()
        (server,) = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))["clusters"]
        ca = self._directory / "ca.crt"
        ca.write_bytes(base64.b64decode(server["cluster"]["certificate-authority-data"]))
        return Ready(server["cluster"]["server"], token, ca)

    # The operator.

    def install(self, build: Build) -> None:
        """Install a build with its CRDs, or upgrade to it, from its chart; wait until it is at work."""
        values = self._charts.values(build)
        self.build = build
        self._apply_crds_of(build.name)
        chart = (*self._charts.reference(build.name), *values, "--skip-crds")
        self._helm("upgrade", "--install", _RELEASE, *chart, "--wait", "--timeout=10m")
        self.wait_for_operator(build)

    def apply_crds(self, line: str) -> None:
        """Apply the CRDs of the chart of the release that a line is named after."""
        self._apply_crds_of(f"v0.1.0-{line}")

    def _apply_crds_of(self, release: str) -> None:
        text = self._run("helm", "show", "crds", *self._charts.reference(release))
        crds.put(self.client, [found for found in yaml.safe_load_all(text) if found])

    def ended(self, build: Build) -> float:
        """When the last pod of a build's operator was gone, on the monotonic clock, as the watch told it."""
        eventually(lambda: self._ends_of(build), what=f"no operator of {build.name} has ended")
        return max(self._ends_of(build))

    def _ends_of(self, build: Build) -> list[float]:
        return [when for image, when in list(self._ended.items()) if is_of(image, build)]

    def _note(self, change: str, pod: Object) -> None:
        super()._note(change, pod)
        if change == DELETED and installation.LABELS.items() <= (pod["metadata"].get("labels") or {}).items():
            self._ended[pod["spec"]["containers"][0]["image"]] = time.monotonic()

    def _metrics(self) -> str:
        answer = self.client.request("GET", _METRICS, accept="*/*")
        return str(answer.body) if answer.status == 200 else ""

    def _log(self) -> str:
        try:
            return self._kubectl("logs", f"deployment/{installation.NAME}", "--tail=100")
        except CommandError as error:
            return str(error)

    # Workloads.

    def create_set(self, pcs: Object) -> None:
        """Create a PodCliqueSet with containers that a kubelet can really run."""
        self.client.create(pods.small(pcs))

    # The tool.

    def tool(self, *arguments: str) -> Ran:
        """Run the tool to its end: ``run`` as the Job in the cluster, all else from this machine.

        The Job has its own flags. Raises ValueError for a ``run`` with others than those of a target and
        ``--stop-operator``.
        """
        match arguments:
            case ("run", "--to", to, "--stop-operator"):
                return self._run_job(to)
            case ("run", "--to", to, "--target-image", target, "--stop-operator"):
                return self._run_job(to, target)
            case ("run", *_):
                raise ValueError(f"the Job is run with --to RELEASE --stop-operator, and not with {arguments}")
            case _:
                return self.from_here(*arguments)

    def _run_job(self, to: str, target_image: str = "") -> Ran:
        self._kubectl("delete", "job", _JOB, "--ignore-not-found")
        began = time.monotonic()
        if self._by_chart:
            self._install_chart(to, target_image)
        else:
            path = self._directory / "job.yaml"
            more = (f"--target-image={target_image}",) if target_image else ()
            path.write_text(manifest(self._image, to, *more), encoding="utf-8")
            self._kubectl("apply", "--filename", str(path))
        eventually(self._job_result, what="the Job does not end", seconds=_JOB_SECONDS, every=_LOOK_SECONDS)
        seconds = time.monotonic() - began
        found = self.client.list("v1", "Pod", _NAMESPACE, selector=f"batch.kubernetes.io/job-name={_JOB}")
        if not found:
            raise RuntimeError(f"the Job has no pod: {self._job_result()}")
        last = max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        lines = self._kubectl("logs", last["metadata"]["name"]).splitlines(keepends=True)
        # A pod has one log. What is JSON in it is the tool's log, the rest is its output.
        log = [line for line in lines if line.startswith("{")]
        return Ran(_exit_code(last), "".join(line for line in lines if line not in log), "".join(log), seconds)

    def _install_chart(self, to: str, target_image: str) -> None:
        repository, _, tag = self._image.rpartition(":")
        values = f"target={to},targetImage={target_image},image.repository={repository},image.tag={tag}"
        chart = str(ROOT / "charts" / "grove-migrator")
        self._helm("upgrade", "--install", _JOB, chart, "--set", values, "--timeout=145m")

    def _job_result(self) -> tuple[str, str] | None:
        return job_end(self.client.get("batch/v1", "Job", _JOB, _NAMESPACE))

    def _helm(self, *arguments: str) -> None:
        self._run("helm", *arguments, "--namespace", _NAMESPACE, "--kubeconfig", str(self.kubeconfig))

    def _kubectl(self, *arguments: str) -> str:
        return self._run("kubectl", "--kubeconfig", str(self.kubeconfig), "--namespace", _NAMESPACE, *arguments)


def _exit_code(pod: Object) -> int:
    (container,) = pod["status"]["containerStatuses"]
    return int(container["state"]["terminated"]["exitCode"])
