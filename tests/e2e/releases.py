"""A kind cluster with real releases of Grove from their charts, for the bodies of the upgrade tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import yaml

from testbed import operator_installation as installation
from testbed.controlplane import crds
from testbed.controlplane.client import eventually
from testbed.kind import BUSYBOX, archives
from tests.cluster.helm.wrapper import OURS, settings
from tests.cluster.site import of_kind
from tests.e2e import images, jobs
from tests.e2e.kind import Kind
from tests.e2e.lab import builds
from tests.e2e.lab.builds import REPOSITORY, Build
from tests.e2e.lab.cluster import Cluster, Ran
from tests.support.commands import CommandError, run

_RELEASE: Final = "grove"
_INITC: Final = "grove-initc"
_MARGIN_SECONDS: Final = 60
#: The chart's values for the flags of a run.
_VALUES: Final = {"--to": "target", "--from": "from", "--target-image": "targetImage"}
_METRICS: Final = f"/api/v1/namespaces/{installation.NAMESPACE}/services/{installation.NAME}:metrics/proxy/metrics"


class KindCluster(Cluster):
    """A cluster of one node, which is deleted at the end whatever happens.

    Where there is a directory of binaries, those of ``pair`` are loaded as images. ``by_chart``: Jobs are those of our
    chart, which Helm waits for, and not those of manifests/.
    """

    start_seconds = 600.0  # images are pulled
    settle_seconds = 1800.0

    def __init__(self, directory: Path, pair: Sequence[Build], *, by_chart: bool = False) -> None:
        super().__init__()
        self._pair, self._by_chart = pair, by_chart
        self._kind = Kind(directory)
        self.kubeconfig = self._kind.kubeconfig

    def _begin(self, ends: ExitStack) -> None:
        ends.enter_context(self._kind)
        self.client = self._kind.client
        self._kind.load([images.OURS, BUSYBOX])
        for build in self._pair if builds.directory() is not None else ():
            self._kind.load(_loaded(build, self._kind.directory))

    # The operator.

    def apply_crds(self, build: Build) -> None:
        """By those of the build's chart."""
        text = self._helm("show", "crds", *builds.chart(build.name))
        found = [crd for crd in yaml.safe_load_all(text) if crd]
        self.make_way(crd["metadata"]["name"] for crd in found)
        crds.put(self.client, found)

    def upgrade(self, build: Build) -> None:
        """With the build's tag: where the chart is that of the repository, it names a developer's image."""
        chart = (*builds.chart(build.name), "--set", f"image.tag={build.name}", "--skip-crds")
        self._helm("upgrade", "--install", _RELEASE, *chart, "--wait", "--timeout=10m")

    def _metrics(self) -> str:
        answer = self.client.request("GET", _METRICS, accept="*/*")
        return str(answer.body) if answer.status == 200 else ""

    def _log(self) -> str:
        return "".join(jobs.log_of(self.client, pod) for pod in self.operators())

    # The tool.

    def tool(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run the tool to its end: ``run`` as the Job in the cluster, all else from this machine."""
        if arguments[0] != "run":
            return super().tool(*arguments, stdin=stdin)
        words = [word for word in arguments[1:] if word != "--stop-operator"]  # which is what every Job does
        return self._run_job(dict(zip(words[::2], words[1::2], strict=True)))

    def _run_job(self, flags: Mapping[str, str]) -> Ran:
        objects = jobs.manifest(flags)
        [job] = of_kind(objects, "Job")
        name, limit = job["metadata"]["name"], job["spec"]["activeDeadlineSeconds"] + _MARGIN_SECONDS
        self.client.delete(job)
        eventually(lambda: not jobs.pods_of(self.client, name), what="pods of the last Job are left")
        began = time.monotonic()
        if self._by_chart:
            self._install_chart(flags, limit)
        else:
            for item in objects:
                self.client.apply(item)
        jobs.result_of(self.client, name, seconds=limit)
        seconds = time.monotonic() - began
        *_, last = jobs.ends_of(self.client, name)
        return Ran(last.code, "", "\n".join(last.events), seconds)

    def _install_chart(self, flags: Mapping[str, str], limit: int) -> None:
        repository, _, tag = images.OURS.rpartition(":")
        values = [f"{_VALUES[flag]}={value}" for flag, value in flags.items()]
        values += [f"image.repository={repository}", f"image.tag={tag}"]
        values += ["mode=revert"] if "--from" in flags else []
        command = ("upgrade", "--install", jobs.JOB, str(OURS), *settings(values), f"--timeout={limit}s")
        self._helm(*command, seconds=limit + _MARGIN_SECONDS)

    def _helm(self, *arguments: str, seconds: float = 1200) -> str:
        done = self._kind.helm(*arguments, seconds=seconds)
        if done.returncode != 0:
            raise CommandError(f"helm {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout


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
