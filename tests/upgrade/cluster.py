"""What the bodies of the upgrade tests ask of a cluster, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from testbed.controlplane.client import Client, Object
from tests.upgrade.builds import Build
from tests.upgrade.diary import PodDiary
from tests.upgrade.photo import Photo

WORKLOADS: Final = "serving"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command of the tool ended, and how long it took, in seconds."""

    code: int
    out: str
    err: str
    seconds: float


class Cluster(Protocol):
    """A cluster with at most one operator: Lab imitates its nodes, KindCluster has real ones.

    ``client`` is the administrator's. ``build`` was installed last, and ``answering`` is since when it answers;
    times are on the monotonic clock.
    """

    client: Client
    build: Build
    answering: float

    def install(self, build: Build) -> None:
        """Install a build with its CRDs, or upgrade to it, and wait until it has reconciled what was there."""

    def apply_crds(self, line: str) -> None:
        """Apply the CRDs of a release line."""

    def stop_operator(self) -> None:
        """Scale the operator to zero and wait until it has ended."""

    def ended(self, build: Build) -> float:
        """When the last operator of a build ended."""
        ...

    def create_set(self, pcs: Object) -> None:
        """Create a PodCliqueSet, in a form that the nodes of this cluster can run."""

    def photo(self) -> Photo:
        """All sets with everything that belongs to them, as they are now."""
        ...

    def settle(self, condition: Callable[[Photo], object] = bool, *, unrest: Sequence[str] = ()) -> Photo:
        """Wait until exactly this is left to do, a condition holds and nothing has changed for a while; return that."""
        ...

    def patch_set(self, name: str, patch: object) -> None:
        """Patch a PodCliqueSet, through the operator's webhooks."""

    def scale_group(self, name: str, replicas: int) -> None:
        """Scale a PodCliqueScalingGroup, as an autoscaler does."""

    def diary(self) -> AbstractContextManager[PodDiary]:
        """What happens to workload pods while the block runs, as the watch tells it."""
        ...

    def tool(self, *arguments: str) -> Ran:
        """Run the tool to its end; ``err`` is its log."""
        ...

    def hashes(self, scheme: str) -> dict[str, Object]:
        """What ``grove-migrator hash`` says of the sets as the API server returns them, by name."""
        ...
