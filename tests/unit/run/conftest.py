"""A cluster after a migration, as ``verify`` finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator import kinds
from migrator.errors import VerificationFailed
from migrator.hashing import podcliqueset, schemes
from migrator.kinds import Resource
from migrator.run import migration
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE, RECORD
from migrator.run.operator import OperatorFlags
from migrator.run.record import Record, parse
from migrator.run.verify import VerifyOptions, VerifyResult, verify
from testbed import operator_installation as installation
from testbed import workloads
from testbed.trees import State, grow
from tests.faults import cluster
from tests.support.builders import options_of
from tests.support.clock import Clock, context_of
from tests.support.memory_store import MemoryCluster

SOURCE, TARGET, NAMESPACE = "legacy-1.34", "legacy-1.35", "grove-system"
PLAN = options_of(target=TARGET)
Change = Callable[[dict[str, Any]], object]


class Site(MemoryCluster):
    """A cluster in memory, its clock, what verify finds in it, and what others do to it."""

    def __init__(self, *objects: dict[str, Any], **options: Any) -> None:
        super().__init__(*objects, **options)
        self.clock = Clock()
        now = datetime(2026, 3, 1, tzinfo=UTC)
        self.context = context_of(self.clock, lambda: now, "verifier", sleep=self.clock.sleep)

    def verified(
        self, *, source: str = "auto", target: str = TARGET, after: bool = True, **options: Any
    ) -> VerifyResult:
        """What verify finds."""
        plan = options_of(source=source, target=target)
        return verify(self, VerifyOptions(plan, after_upgrade=after, **options), self.context)

    def fails(self, words: str, **options: Any) -> str:
        """Check that verify fails, with these words in its message; returns the message."""
        with pytest.raises(VerificationFailed, match=words) as failed:
            self.verified(**options)
        return str(failed.value)

    def change(self, how: Change, kind: Resource = kinds.POD_CLIQUES, name: str = "disagg-0-frontend") -> None:
        """Change an object as others would."""
        self.edit(kind, "default", name, how)

    def recorded(self, **changes: Any) -> Record:
        """What the run has recorded, with some of it changed by hand."""
        text = self.read(kinds.LEASES, NAMESPACE, OWN_LEASE)["metadata"]["annotations"][RECORD]
        found = parse(text, NAMESPACE)
        assert found is not None
        changed = replace(found, **changes)
        annotations = {RECORD: changed.text()}
        self.edit(kinds.LEASES, NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations=annotations))
        return changed

    def made_at(self, moment: str, *, label: str = "disagg-0-frontend") -> None:
        """Let the pods of a PodClique be made at another time."""
        for pod in self.everything(kinds.PODS):
            if pod["metadata"].get("labels", {}).get("grove.io/podclique") == label:
                name = pod["metadata"]["name"]
                self.edit(kinds.PODS, "default", name, lambda body: body["metadata"].update(creationTimestamp=moment))


@pytest.fixture
def migrated() -> Site:
    """A cluster after a migration, with its record and the new operator."""
    site = Site({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for pcs, state in (
        (workloads.disaggregated("disagg"), State(updated=True)),
        (workloads.standalone("patient", on_delete=True), State(updated=True, leftovers={"frontend": "4567b"})),
    ):
        for item in grow(pcs, podcliqueset.SetHasher(pcs).under(schemes.by_name(SOURCE)), state):
            site.put(item)
    migration.run(site, RunOptions(plan=PLAN, flags=OperatorFlags(NAMESPACE)), site.context)
    for item in (*cluster.operator(image=cluster.NEW_IMAGE), installation.pod(cluster.NEW_IMAGE, name="new-1")):
        site.put(item)
    return site
