"""A kind cluster with real releases of Grove from their charts, for the bodies of the upgrade tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from testbed import operator_installation as installation
from testbed.controlplane import crds
from testbed.controlplane.client import Object, eventually, job_end
from testbed.kind import BUSYBOX, archives
from tests.e2e import images, pods
from tests.e2e.commands import CommandError, run
from tests.e2e.kind import Kind
from tests.e2e.lab.builds import REPOSITORY, Build
from tests.e2e.lab.cluster import Cluster, Ran, is_of
from tests.e2e.scene import JOB, manifest
from tests.support.paths import ROOT
from tests.support.watch import DELETED

_NAMESPACE: Final = installation.NAMESPACE
_RELEASE: Final = "grove"
_INITC: Final = "grove-initc"
_LOOK_SECONDS: Final = 0.5
_MARGIN_SECONDS: Final = 60
_METRICS: Final = f"/api/v1/namespaces/{_NAMESPACE}/services/{installation.NAME}:metrics/proxy/metrics"


#: docs/installation.md of each release: until alpha.3 and from alpha.4 on.
_FIRST: Final = "oci://ghcr.io/nvidia/grove/grove-charts"
_LATER: Final = "oci://ghcr.io/ai-dynamo/grove/grove-charts"
_OF_FIRST: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts by the names of builds: the published ones, or those of a directory, as they are in Grove's repository."""

    directory: Path | None = None

    def reference(self, name: str) -> tuple[str, ...]:
        """A build's chart, as arguments of helm; the version of a published chart is the release's tag."""
        if self.directory is not None:
            return (str(self.directory / name),)
        return (_FIRST if name in _OF_FIRST else _LATER, "--version", name)

    def values(self, build: Build) -> tuple[str, ...]:
        """What an installation needs, as arguments of helm; raises ValueError where there is no chart."""
        if self.directory is not None:
            return ("--set", f"image.tag={build.name}")  # the repository's chart names a developer's image
        if not build.release:
            raise ValueError(f"{build.name} is not a release of Grove: it has no chart")
        return ()


class KindCluster(Cluster):
    """A cluster of one node, which is deleted at the end whatever happens.

    Builds are installed from ``source``; those of a directory of binaries are loaded as images. ``by_chart``: Jobs are
    those of our chart, which Helm waits for, and not those of manifests/.
    """

    start_seconds = 600.0  # images are pulled
    settle_seconds = 1800.0

    def __init__(self, directory: Path, builds: Sequence[Build], source: Charts, *, by_chart: bool = False) -> None:
        super().__init__()
        self._builds, self._charts, self._by_chart = builds, source, by_chart
        self._kind = Kind(directory)
        self.kubeconfig = self._kind.kubeconfig
        self._ended: dict[str, float] = {}  # when the last pod of each operator's image was gone

    def _begin(self, ends: ExitStack) -> None:
        ends.enter_context(self._kind)
        self.client = self._kind.client
        self._kind.load([images.OURS, BUSYBOX])
        for build in self._builds if self._charts.directory is not None else ():
            self._kind.load(_loaded(build, self._kind.directory))

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
        text = self._helm("show", "crds", *self._charts.reference(release))
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

        The Job has its own flags. Raises ValueError for a ``run`` with others than those of a target,
        ``--stop-operator``, and ``--from`` for the way back.
        """
        match arguments:
            case ("run", "--to", to, "--stop-operator"):
                return self._run_job(to)
            case ("run", "--from", origin, "--to", to, "--stop-operator"):
                return self._run_job(to, origin=origin)
            case ("run", "--to", to, "--target-image", target, "--stop-operator"):
                return self._run_job(to, target)
            case ("run", *_):
                raise ValueError(f"the Job is not run with {arguments}")
            case _:
                return self.from_here(*arguments)

    def _run_job(self, to: str, target_image: str = "", origin: str = "") -> Ran:
        more = [f"--target-image={target_image}"] if target_image else []
        objects = manifest(to, *more, origin=origin)
        [job] = [item for item in objects if item["kind"] == "Job"]
        name, limit = job["metadata"]["name"], job["spec"]["activeDeadlineSeconds"] + _MARGIN_SECONDS
        self._kubectl("delete", "job", name, "--ignore-not-found")
        began = time.monotonic()
        if self._by_chart:
            self._install_chart(to, target_image, origin, limit)
        else:
            for item in objects:
                self.client.apply(item)

        def end() -> tuple[str, str] | None:
            return job_end(self.client.get("batch/v1", "Job", name, _NAMESPACE))

        eventually(end, what="the Job does not end", seconds=limit, every=_LOOK_SECONDS)
        seconds = time.monotonic() - began
        found = self.client.list("v1", "Pod", _NAMESPACE, selector=f"batch.kubernetes.io/job-name={name}")
        if not found:
            raise RuntimeError(f"the Job has no pod: {end()}")
        last = max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        lines = self._kubectl("logs", last["metadata"]["name"]).splitlines(keepends=True)
        # A pod has one log. What is JSON in it is the tool's log, the rest is its output.
        log = [line for line in lines if line.startswith("{")]
        return Ran(_exit_code(last), "".join(line for line in lines if line not in log), "".join(log), seconds)

    def _install_chart(self, to: str, target_image: str, origin: str, limit: int) -> None:
        repository, _, tag = images.OURS.rpartition(":")
        values = f"target={to},targetImage={target_image},image.repository={repository},image.tag={tag}"
        values += f",mode=revert,from={origin}" if origin else ""
        chart = str(ROOT / "charts" / "grove-migrator")
        patience = (f"--timeout={limit}s",)
        self._helm("upgrade", "--install", JOB, chart, "--set", values, *patience, seconds=limit + _MARGIN_SECONDS)

    def _helm(self, *arguments: str, seconds: float = 1200) -> str:
        done = self._kind.helm(*arguments, "--namespace", _NAMESPACE, seconds=seconds)
        if done.returncode != 0:
            raise CommandError(f"helm {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout

    def _kubectl(self, *arguments: str) -> str:
        return self._kind.kubectl("--namespace", _NAMESPACE, *arguments)


def _loaded(build: Build, directory: Path) -> list[str]:
    """Make images of a build's programs in the engine; returns their names."""
    binary = build.binary()
    names = [f"{REPOSITORY}:{build.name}", f"{_INITC}:{_version(binary)}"]
    for name in names:
        program = name.partition(":")[0]
        archive = archives.of_program(directory / f"{program}.tar", [name], binary.parent / program, f"/{program}")
        run("docker", "load", "--input", str(archive))
    return names


def _version(binary: Path) -> str:
    """The version of an operator, which it takes for the tag of its init container's image."""
    printed = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout
    words = printed.replace("{", " ").split()
    return next(word for word in words if word.startswith("v"))


def _exit_code(pod: Object) -> int:
    [container] = pod["status"]["containerStatuses"]
    return int(container["state"]["terminated"]["exitCode"])
