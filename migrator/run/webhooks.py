"""With ``--allow GM-202`` a run exempts its account from webhooks of the operator while that is at zero.

It adds one ``matchCondition``, which names its account and nobody else, and removes it at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from migrator.cluster import Cluster
from migrator.errors import ClusterError, NotFound
from migrator.kinds import SELF_SUBJECT_REVIEWS, Op
from migrator.kinds import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from migrator.planning import webhooks


def read(cluster: Cluster) -> tuple[webhooks.Webhook, ...]:
    """Every validating webhook of the cluster."""
    return tuple(one for found in cluster.list(CONFIGURATIONS, webhooks.webhooks_of) for one in found)


def account_of(cluster: Cluster) -> str:
    """The name by which the API server knows us."""
    body = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind, "metadata": {}}
    answer = cluster.create(SELF_SUBJECT_REVIEWS, "", body)
    try:
        return str(answer["status"]["userInfo"]["username"])
    except KeyError as error:
        raise ClusterError("create SelfSubjectReview: the answer names nobody; is a proxy in the way?") from error


def open_for(cluster: Cluster, account: str, to_open: Iterable[webhooks.Webhook]) -> None:
    """Add our condition to webhooks, or replace the one that a run of another account has left."""
    for name in dict.fromkeys(one.configuration for one in to_open):
        _change(cluster, name, lambda one: webhooks.adding(one, account))


def close(cluster: Cluster) -> None:
    """Remove every condition of ours; a configuration that does not exist is passed over."""
    for name in webhooks.OPENED:
        with suppress(NotFound):
            _change(cluster, name, webhooks.removing)


def _change(cluster: Cluster, name: str, ops_of: Callable[[webhooks.Webhook], Iterable[Op]]) -> None:
    """Patch a configuration by what is read of it now."""
    found = webhooks.webhooks_of(cluster.get(CONFIGURATIONS, "", name))
    if ops := [op for one in found for op in ops_of(one)]:
        cluster.patch(CONFIGURATIONS, "", name, ops)
