"""``hash``: the hashes of PodCliqueSets in a file; it imports nothing of clusters and plans, to start at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from migrator import dump
from migrator.cli import flags, log
from migrator.cli.stdout import as_json, write
from migrator.errors import DecodeError, InputError
from migrator.exact_json import JSONObject
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import SetHasher
from migrator.hashing.schemes import Scheme
from migrator.kinds import DEFAULT_NAMESPACE, POD_CLIQUE_SETS
from migrator.releases.table import named


@flags.command(
    "hash",
    "Print the hashes of PodCliqueSets in a file.",
    """
    kubectl get podcliqueset demo -o yaml | grove-migrator hash -f -
    grove-migrator hash -f sets.yaml --scheme v0.1.0-alpha.11
    """,
)
@flags.option(
    "-f, --filename FILE",
    "YAML documents, JSON, a List or JSON Lines; - is stdin. Other kinds are skipped.",
    required=True,
)
@flags.option(
    "--scheme SCHEME|RELEASE",
    "Hash under this scheme; may be repeated. Default: all.",
    multiple=True,
    shell_complete=flags.names,
)
def hash_(*, filename: str, scheme: tuple[str, ...]) -> int:
    """Print the hashes of PodCliqueSets: a line of JSON for each set and scheme.

    Give it what `kubectl get podcliquesets -o yaml` prints, not a manifest: an operator also hashes the defaults that
    admission adds. The exit code is 2 if the file has no PodCliqueSet, or one that Go could not decode; the others are
    printed all the same.
    """
    chosen = {named(text).scheme for text in scheme}
    wanted = [one for one in schemes.all_schemes() if not chosen or one in chosen]
    file = dump.title(filename)
    found = warned = failed = False
    for document in _sets_in(filename):
        found = True
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")
        what = f"PodCliqueSet {namespace}/{name}"
        if not (warned or metadata.get("uid") or metadata.get("creationTimestamp")):
            warned = True
            log.write_warning(
                "bare_manifest",
                f"{what} looks like a manifest: the defaults that admission adds are not applied, so an operator may "
                "store other hashes",
            )
        for reason in _print_hashes(document, namespace, name, wanted):
            failed = True
            log.write_failure(DecodeError(f"{file}: {what}: {reason}"))
    if not found:
        raise InputError(f"{file} has no PodCliqueSet.")
    return DecodeError.exit_code if failed else 0


def _print_hashes(document: JSONObject, namespace: str, name: str, wanted: Iterable[Scheme]) -> Iterable[str]:
    """Print a line for each scheme; returns why Go could not decode the set under others, each reason once."""
    if document.get("spec") is None:
        return ("spec: it is missing",)
    hasher = SetHasher(document)
    reasons: dict[str, None] = {}
    # An operator ignores fields that its layout lacks. So one scheme may decode a set that another cannot.
    for scheme in wanted:
        try:
            hashes = hasher.under(scheme)
        except DecodeError as error:
            reasons[str(error)] = None
            continue
        line = {
            "namespace": namespace,
            "name": name,
            "scheme": scheme.name,
            "generationHash": hashes.generation,
            "podTemplateHashes": dict(hashes.templates),
        }
        write(as_json(line, indent=None))
    return reasons


def _sets_in(path: str) -> Iterator[JSONObject]:
    for document in dump.objects(path, lenient=True):
        group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
        if (group, document.get("kind")) == (POD_CLIQUE_SETS.group, POD_CLIQUE_SETS.kind):
            yield document
