"""``hash``: what an operator would store for PodCliqueSets in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from migrator.cli import log, output
from migrator.errors import DecodeError
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import PodCliqueSetHashes, SetHasher
from migrator.hashing.schemes import Scheme
from migrator.render.text import columns
from migrator.resources import DEFAULT_NAMESPACE, POD_CLIQUE_SETS
from migrator.stores.dump.store import read_documents

Hashed = tuple[str, str, Scheme, PodCliqueSetHashes]


def main(*, path: str, names: tuple[str, ...], form: str | None, to_binary: str | None, from_binary: str | None) -> int:
    """Print the hashes; the exit code is 2 if Go could not decode a set."""
    chosen = set()
    for binary in (one for one in (from_binary, to_binary) if one is not None):
        from migrator.cli import operators  # noqa: PLC0415 - reading names alone is quicker

        chosen.add(operators.known(binary).scheme)
    chosen.update(map(schemes.resolve, names))  # which may name the other scheme over a layout that was just read
    wanted = tuple(one for one in schemes.all_schemes() if one in chosen or not (chosen or one.preview))
    failures: list[str] = []
    hashed = _hashed(path, wanted, failures)
    if form == "table" or (form is None and sys.stdout.isatty()):
        output.write(columns(("NAMESPACE", "NAME", "SCHEME", "HASH OF", "HASH"), _rows(hashed)))
    else:
        for namespace, name, scheme, hashes in hashed:
            line = {
                "namespace": namespace,
                "name": name,
                "scheme": scheme.name,
                "generationHash": hashes.generation_hash,
                "podTemplateHashes": dict(hashes.pod_template_hashes),
            }
            output.write(output.as_json(line, indent=None))
    return DecodeError.exit_code if failures else 0


def _hashed(path: str, schemes: tuple[Scheme, ...], failures: list[str]) -> Iterator[Hashed]:
    """Namespace, name, scheme and hashes of every PodCliqueSet in a file, in input order, then table order.

    What Go could not decode is logged and added to ``failures``.
    """
    warned = found = False
    file = "stdin" if path == "-" else path
    for document in read_documents(path):
        group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
        if (group, document.get("kind")) != (POD_CLIQUE_SETS.group, POD_CLIQUE_SETS.kind):
            continue
        found = True
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")
        what = f"PodCliqueSet {namespace}/{name}"
        if not warned and not metadata.get("uid") and not metadata.get("creationTimestamp"):
            warned = True
            log.write_warning(
                "bare_manifest",
                f"{what} looks like a manifest: the defaults that admission adds are not applied, so an operator may "
                "store other hashes",
            )
        hasher = SetHasher(document)
        reasons: dict[str, None] = {}
        # An operator ignores fields that its layout lacks. So one scheme may decode a set that another cannot.
        for scheme in schemes:
            try:
                hashes = hasher.under(scheme)
            except DecodeError as error:
                reasons[str(error)] = None
            else:
                yield namespace, name, scheme, hashes
        for reason in reasons:
            failures.append(f"{file}: {what}: {reason}")
            log.write_failure(DecodeError.code, DecodeError.exit_code, failures[-1])
    if not found:
        log.write_warning("no_pod_clique_set", f"{file} has no PodCliqueSet")


def _rows(hashed: Iterable[Hashed]) -> Iterator[tuple[str, ...]]:
    for namespace, name, scheme, hashes in hashed:
        yield namespace, name, scheme.name, "generation", hashes.generation_hash
        for clique, value in hashes.pod_template_hashes.items():
            yield namespace, name, scheme.name, f"clique {clique}", value
