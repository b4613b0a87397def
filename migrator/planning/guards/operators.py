"""The guards that need the operator, its webhooks or the records of runs; ``run`` and ``webhooks`` find them."""

from __future__ import annotations

from typing import Final

from migrator.planning.guards import base

RUNNING: Final = base.Guard(
    "GM-122",
    "operator-running",
    "An operator is running",
    "add --stop-operator, or scale the operator to zero yourself",
    question="whether an operator is running",
)
WEBHOOK: Final = base.Guard(
    "GM-202",
    "webhook",
    "A webhook of the stopped operator rejects the migration",
    "let an administrator leave this account out of the webhook, with the command of the finding",
    overridable=True,
    question="whether a webhook of the stopped operator rejects the migration",
)
UNCLEAR: Final = base.Guard(
    "GM-203",
    "operator-unclear",
    "The operator's installation is not clear",
    "remove the others, or scale them to zero and name the one that you upgrade with --operator NAMESPACE/NAME",
)
OPEN_RECORD: Final = base.Guard(
    "GM-205",
    "open-record",
    "Another migration has not ended",
    "finish or revert that run first, with the command of the finding",
    question="whether an earlier run left a record",
)
NO_ELECTION: Final = base.Guard(
    "GM-207",
    "no-election",
    "Leader election of the operator seems to be off",
    "make sure that nothing, such as GitOps or an autoscaler, starts the operator before the run has ended",
    warns=True,
)

GUARDS: Final[tuple[base.Guard, ...]] = (RUNNING, WEBHOOK, UNCLEAR, OPEN_RECORD, NO_ELECTION)
