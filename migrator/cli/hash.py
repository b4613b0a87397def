"""``hash``: what an operator would store for PodCliqueSets in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from migrator.cli import log
from migrator.cli.options import command, complete_scheme, option, output
from migrator.cli.output import as_json, write
from migrator.errors import DecodeError, InputError

if TYPE_CHECKING:
    from migrator.hashing.podcliqueset import PodCliqueSetHashes
    from migrator.hashing.schemes import Scheme

    Hashed = tuple[str, str, Scheme, PodCliqueSetHashes]


@command(
    "hash",
    "Print the hashes of PodCliqueSets in a file.",
    """
    kubectl get podcliqueset demo -o yaml | grove-migrator hash -f -
    grove-migrator hash -f sets.yaml --scheme v0.1.0-alpha.11
    """,
)
@option(
    "-f, --filename FILE",
    "YAML documents, JSON, a List or JSON Lines, gzip too; - is stdin. Other kinds are skipped.",
    required=True,
)
@option(
    "--scheme SCHEME|RELEASE",
    "Hash under this scheme; may be repeated. Default: all of them.",
    multiple=True,
    shell_complete=complete_scheme,
)
@output(["json"], "A line of JSON for each set and scheme.")
def hash_(*, filename: str, scheme: tuple[str, ...], output: str) -> int:  # noqa: ARG001 - there is one format
    """Print the hashes of PodCliqueSets under one scheme, several, or all, as lines of JSON.

    The operator hashes what the API server returns. So give this command what `kubectl get -o yaml` prints: a
    manifest lacks the defaults that admission adds. A set that Go could not decode is reported, the others are
    printed, and the exit code is 2. So it is for a file without a PodCliqueSet.
    """
    from migrator.hashing import schemes

    chosen = set(map(schemes.resolve, scheme))
    wanted = tuple(one for one in schemes.all_schemes() if one in chosen or not (chosen or one.preview))
    failures: list[str] = []
    for namespace, name, used, hashes in _hashed(filename, wanted, failures):
        line = {
            "namespace": namespace,
            "name": name,
            "scheme": used.name,
            "generationHash": hashes.generation_hash,
            "podTemplateHashes": dict(hashes.pod_template_hashes),
        }
        write(as_json(line, indent=None))
    return DecodeError.exit_code if failures else 0


def _hashed(path: str, schemes: tuple[Scheme, ...], failures: list[str]) -> Iterator[Hashed]:
    """Namespace, name, scheme and hashes of every PodCliqueSet in a file, in input order, then table order.

    What Go could not decode is logged and added to ``failures``. Raises ``InputError`` for a file without a set.
    """
    from migrator.hashing.podcliqueset import SetHasher, check_decodes
    from migrator.resources import DEFAULT_NAMESPACE, POD_CLIQUE_SETS
    from migrator.stores.dump.store import read_documents

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
                check_decodes(document)
                hashes = hasher.under(scheme)
            except DecodeError as error:
                reasons[str(error)] = None
            else:
                yield namespace, name, scheme, hashes
        for reason in reasons:
            failures.append(f"{file}: {what}: {reason}")
            log.write_failure(DecodeError.code, DecodeError.exit_code, failures[-1])
    if not found:
        raise InputError(f"{file} has no PodCliqueSet.")
