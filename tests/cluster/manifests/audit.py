"""What an account asked of an API server, by its audit log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pytest

from testbed.controlplane.client import Object
from tests.cluster.manifests.site import USER, Grant, Site

#: What every authenticated user may do.
_QUESTIONS: Final = {"selfsubjectaccessreviews"}


class Audit:
    """The requests of an account since the last look, apart from discovery and questions about itself."""

    def __init__(self, site: Site, user: str = USER) -> None:
        self._log, self._user = site.directory / "audit.jsonl", user
        self._seen = len(self._lines())

    def requests(self) -> list[Object]:
        """The requests that are answered."""
        lines = self._lines()
        fresh, self._seen = lines[self._seen :], len(lines)
        found = [json.loads(line) for line in fresh]
        return [
            item
            for item in found
            if item["user"]["username"] == self._user
            and item["stage"] == "ResponseComplete"
            and "objectRef" in item  # discovery has none
            and item["objectRef"]["resource"] not in _QUESTIONS
        ]

    def _lines(self) -> list[str]:
        return self._log.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def audit(site: Site) -> Audit:
    """What our account asks of the API server from now on."""
    return Audit(site)


def used(requests: Sequence[Object], granted: Sequence[Grant]) -> set[Grant]:
    """The grants that requests needed; asserts that each was allowed, and that none is beyond the grants."""
    found = set()
    for request in requests:
        assert request["annotations"]["authorization.k8s.io/decision"] == "allow", request
        covering = [grant for grant in granted if grant.covers(request)]
        assert covering, (request["verb"], request["objectRef"])
        found.update(covering)
    return found
