"""Our account is left out of webhooks of the operator while it is at zero, with ``--allow GM-202``.

A run adds one ``matchCondition``, which names our account and nobody else, and takes it away at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from migrator import errors
from migrator.cluster import Cluster
from migrator.kinds import SELF_SUBJECT_REVIEWS, Op
from migrator.kinds import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from migrator.planning import webhooks

_ATTEMPTS: Final = 5


def read(cluster: Cluster) -> tuple[webhooks.Webhook, ...]:
    """Every validating webhook of the cluster."""
    return tuple(one for found in cluster.list(CONFIGURATIONS, webhooks.webhooks_of) for one in found)


def account_of(cluster: Cluster) -> str:
    """The name by which the API server knows us."""
    body = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind, "metadata": {}}
    status = cluster.create(SELF_SUBJECT_REVIEWS, "", body).get("status") or {}
    return str((status.get("userInfo") or {}).get("username") or "")


def open_for(cluster: Cluster, account: str, to_open: Iterable[webhooks.Webhook]) -> None:
    """Add our condition to webhooks; a stale one of another account is replaced.

    Raises :class:`~migrator.errors.MigratorError`, also where the server drops the field.
    """
    for name in dict.fromkeys(one.configuration for one in to_open):
        _change(cluster, name, lambda one: webhooks.adding(one, account) if not one.leaves_out(account) else ())
        if any(one.matches_us and not one.leaves_out(account) for one in _configuration(cluster, name)):
            raise errors.MigratorError(f"the API server drops a matchCondition in {name}: it must be 1.28 or newer")


def close(cluster: Cluster) -> None:
    """Remove every condition of ours; a configuration that does not exist is passed over.

    Raises the first :class:`~migrator.errors.MigratorError` once all were tried.
    """
    failed = list[errors.MigratorError]()
    for name in webhooks.OPENED:
        try:
            _change(cluster, name, webhooks.removing)
        except errors.NotFound:
            continue
        except errors.MigratorError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def try_to_open(cluster: Cluster, configuration: str) -> None:
    """Dry-run a patch of this configuration that changes nothing, with exactly the right that opening needs."""
    cluster.patch(CONFIGURATIONS, "", configuration, (Op("test", "/metadata/name", configuration),))


def _change(cluster: Cluster, name: str, ops_of: Callable[[webhooks.Webhook], Iterable[Op]]) -> None:
    """Patch a configuration by what is read of it now."""
    for attempt in range(1, _ATTEMPTS + 1):
        ops = [op for one in _configuration(cluster, name) for op in ops_of(one)]
        if not ops:
            return
        try:
            cluster.patch(CONFIGURATIONS, "", name, ops)
        except (errors.TestFailed, errors.Conflict):
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _configuration(cluster: Cluster, name: str) -> list[webhooks.Webhook]:
    return webhooks.webhooks_of(cluster.get(CONFIGURATIONS, "", name))
