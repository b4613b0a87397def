"""``hash``: what an operator would store for PodCliqueSets in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from migrator.cli import output
from migrator.cli.operators import binary_options, known
from migrator.cli.options import complete_scheme, file_option, log_options, output_option
from migrator.errors import DecodeError
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
@file_option(
    "path",
    "YAML documents, JSON, a List or JSON Lines, plain or gzipped; - is stdin. Other kinds are skipped.",
    metavar="FILE|-",
    required=True,
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
@binary_options
@log_options
def hash_(
    path: str, names: tuple[str, ...], form: str | None, *, to_binary: str | None, from_binary: str | None
) -> int:
    """Print the hashes of PodCliqueSets under one scheme, several, or all.

    The operator hashes what the API server returns. So give this command what `kubectl get -o yaml` prints: a
    manifest lacks the defaults that admission adds. A set that Go could not decode is reported, the others are
    printed, and the exit code is 2.
    """
    from migrator.hashing import schemes  # noqa: PLC0415 - --help needs none of it

    chosen = {known(path).scheme for path in (from_binary, to_binary) if path is not None}
    chosen |= {schemes.resolve(name) for name in names}
    wanted = tuple(one for one in schemes.all_schemes() if one in chosen or not (chosen or one.preview))
    failures: list[str] = []
    hashed = _hashed(path, wanted, failures)
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
    return DecodeError.exit_code if failures else 0


def _hashed(
    path: str, schemes: tuple[Scheme, ...], failures: list[str]
) -> Iterator[tuple[str, str, Scheme, PodCliqueSetHashes]]:
    """Namespace, name, scheme and hashes of every PodCliqueSet in a file, in input order, then table order.

    What Go could not decode is logged and added to ``failures``.
    """
    from migrator.cli import log  # noqa: PLC0415 - --help needs none of it
    from migrator.hashing.podcliqueset import SetHasher  # noqa: PLC0415
    from migrator.stores.dump.store import read_documents  # noqa: PLC0415

    warned = False
    for document in filter(_is_set, read_documents(path)):
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
            failures.append(f"{'stdin' if path == '-' else path}: {what}: {reason}")
            log.write_failure(DecodeError.code, DecodeError.exit_code, failures[-1])


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
