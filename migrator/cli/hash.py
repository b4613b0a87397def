"""``hash``: what an operator would store for PodCliqueSets in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from migrator.cli import output
from migrator.cli.operators import from_binary_option, known, to_binary_option
from migrator.cli.options import complete_scheme, log_options, output_option
from migrator.resources import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from migrator.hashing.podcliqueset import PodCliqueSetHashes
    from migrator.hashing.schemes import Scheme


@click.command(
    name="hash",
    short_help="Hashes of PodCliqueSets in a file.",
    epilog="""\b
    Examples:
      kubectl get podcliqueset demo -o yaml | grove-migrator hash -f -
      grove-migrator hash -f sets.yaml --scheme legacy-1.34 --scheme v0.1.0-alpha.11
      grove-migrator hash -f sets.jsonl -o json
    """,
)
@click.option(
    "-f",
    "--filename",
    "path",
    required=True,
    metavar="FILE|-",
    help="YAML documents, JSON, a List or JSON Lines, plain or gzipped; - is stdin. Other kinds are skipped.",
)
@click.option(
    "--scheme",
    "names",
    multiple=True,
    metavar="SCHEME|RELEASE",
    shell_complete=complete_scheme,
    help="Hash under this scheme; may be repeated. Default: all of them.",
)
@output_option(
    "json",
    "table",
    default=None,
    meaning="One JSON object per set and scheme and line, or a table. Default: table on a terminal, json elsewhere.",
)
@to_binary_option
@from_binary_option
@log_options
def hash_(
    path: str, names: tuple[str, ...], form: str | None, *, to_binary: str | None, from_binary: str | None
) -> int:
    """Print the hashes of PodCliqueSets under one scheme, several, or all.

    The operator hashes what the API server returns, so hash what `kubectl get -o yaml` printed: a manifest
    lacks the defaults that admission adds. A set that Go could not decode is reported, the others are printed,
    and the exit code is 2.
    """
    from migrator.hashing import schemes  # noqa: PLC0415
    from migrator.stores.dump.store import read_documents  # noqa: PLC0415 - --help needs none of it

    chosen = {known(path).scheme for path in (from_binary, to_binary) if path is not None}
    chosen |= {schemes.resolve(name) for name in names}
    wanted = tuple(one for one in schemes.all_schemes() if one in chosen or not (chosen or one.preview))
    reader = _Reader(path, wanted)
    hashed = reader.read(read_documents(path))
    if form == "table" or (form is None and sys.stdout.isatty()):
        _print_table(hashed)
    else:
        for namespace, name, scheme, hashes in hashed:
            line = {
                "namespace": namespace,
                "name": name,
                "scheme": scheme.name,
                "generationHash": hashes.generation_hash,
                "podTemplateHashes": dict(hashes.pod_template_hashes),
            }
            output.write(json.dumps(line, ensure_ascii=False) + "\n")
    return reader.exit_code


class _Reader:
    """Hashes documents one after the other; ``exit_code`` is not 0 if one could not be hashed."""

    def __init__(self, path: str, schemes: tuple[Scheme, ...]) -> None:
        self._path = "stdin" if path == "-" else path
        self._schemes = schemes
        self._warned = False
        self.exit_code = 0

    def read(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, Scheme, PodCliqueSetHashes]]:
        """Yield namespace, name, scheme and hashes of every PodCliqueSet, in input order, then table order."""
        for document in documents:
            if not _is_set(document):
                continue
            metadata = document.get("metadata")
            metadata = metadata if isinstance(metadata, Mapping) else {}
            namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")
            if not metadata.get("uid") and not metadata.get("creationTimestamp"):
                self._warn_of_manifest(namespace, name)
            for scheme, hashes in self._hash(document, f"PodCliqueSet {namespace}/{name}").items():
                yield namespace, name, scheme, hashes

    def _hash(self, document: Mapping[str, Any], what: str) -> dict[Scheme, PodCliqueSetHashes]:
        from migrator.errors import DecodeError  # noqa: PLC0415 - --help needs none of it
        from migrator.hashing.podcliqueset import SetHasher  # noqa: PLC0415

        hasher = SetHasher(document)
        hashes: dict[Scheme, PodCliqueSetHashes] = {}
        reasons: dict[str, None] = {}
        # An operator ignores fields that its layout lacks, so what one cannot decode another may.
        for scheme in self._schemes:
            try:
                hashes[scheme] = hasher.under(scheme)
            except DecodeError as error:
                reasons[str(error)] = None
        for reason in reasons:
            self._report(what, reason)
        return hashes

    def _report(self, what: str, reason: str) -> None:
        from migrator.cli import log  # noqa: PLC0415 - only a bad set needs it
        from migrator.errors import DecodeError  # noqa: PLC0415

        self.exit_code = DecodeError.exit_code
        log.write_failure(DecodeError.code, DecodeError.exit_code, f"{self._path}: {what}: {reason}")

    def _warn_of_manifest(self, namespace: str, name: str) -> None:
        if self._warned:
            return
        from migrator.cli import log  # noqa: PLC0415 - only a manifest needs it

        self._warned = True
        log.write_warning(
            "bare_manifest",
            f"PodCliqueSet {namespace}/{name} looks like a manifest: the defaults that admission adds are not "
            "applied, so an operator may store other hashes",
        )


def _is_set(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == "PodCliqueSet" and str(document.get("apiVersion", "")).startswith("grove.io/")


def _print_table(hashed: Iterable[tuple[str, str, Scheme, PodCliqueSetHashes]]) -> None:
    from migrator.render.text import columns  # noqa: PLC0415 - only a table needs it

    rows = []
    for namespace, name, scheme, hashes in hashed:
        rows.append((namespace, name, scheme.name, "generation", hashes.generation_hash))
        rows += [
            (namespace, name, scheme.name, f"clique {clique}", value)
            for clique, value in hashes.pod_template_hashes.items()
        ]
    output.write(columns(("NAMESPACE", "NAME", "SCHEME", "HASH OF", "HASH"), rows))
