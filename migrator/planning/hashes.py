"""The hashes of one PodCliqueSet under every scheme that is asked for. Pure."""

from __future__ import annotations

from migrator.errors import DecodeError, InputError
from migrator.grove.model import PodCliqueSet, SetHashes
from migrator.hashing import podcliqueset
from migrator.hashing.schemes import Scheme


class HashesOf:
    """The hashes of one set, computed once per scheme and only where asked for."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self._pcs = pcs
        self._hasher = podcliqueset.SetHasher({"spec": pcs.spec})
        self._known: dict[Scheme, SetHashes] = {}

    def __call__(self, scheme: Scheme) -> SetHashes:
        """The hashes under one scheme; raises :class:`~migrator.errors.InputError` where Go could not decode."""
        if scheme not in self._known:
            try:
                computed = self._hasher.under(scheme)
            except DecodeError as error:
                raise InputError(f"{self._pcs.ref}: {error}") from error
            self._known[scheme] = SetHashes(computed.generation_hash, computed.pod_template_hashes)
        return self._known[scheme]
