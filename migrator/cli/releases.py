"""``releases``: which release uses which scheme, and which Dynamo brings it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from migrator.cli.options import command, output
from migrator.cli.output import as_json, write

if TYPE_CHECKING:
    from migrator.hashing.schemes import Scheme

_ONLY_HASH: Final = "only for `hash`"
_UNREAD: Final = "not read: use --to-binary"


@command(
    "releases",
    "List the releases of Grove, their Dynamo versions and their schemes.",
    """
    grove-migrator releases
    grove-migrator releases -o json
    """,
)
@output(["table", "json"])
def releases(*, output: str) -> None:
    """List Grove's releases and the hash schemes that they use.

    Two releases with the same scheme store the same hashes: between them there is nothing to migrate.
    """
    from migrator.hashing import schemes
    from migrator.render.text import columns, wrapped

    used = {scheme: [release.name for release in schemes.speakers(scheme)] for scheme in schemes.all_schemes()}
    if output == "json":
        write(as_json({"releases": [*_releases()], "schemes": [*map(_scheme, used, used.values())]}))
        return
    rows = [
        (one.name, ", ".join(one.dynamo) or "-", one.scheme.name, _ONLY_HASH if one.hash_in_names else "")
        for one in schemes.releases()
    ]
    rows += [(name, ", ".join(dynamo) or "-", "-", _UNREAD) for name, dynamo in schemes.unread_releases().items()]
    write(columns(("RELEASE", "DYNAMO", "SCHEME", "NOTE"), rows))
    unused = ", ".join(scheme.name for scheme, names in used.items() if not names)
    write("\n" + wrapped(f"Schemes that no release uses: {unused}."))


def _releases() -> Iterator[dict[str, object]]:
    from migrator.hashing import schemes

    for release in schemes.releases():
        yield {
            "release": release.name,
            "dynamo": list(release.dynamo),
            "scheme": release.scheme.name,
            "algorithm": release.scheme.algorithm,
            "kubernetesMinor": release.scheme.minor,
            "commit": release.commit,
            "dev": release.dev,
            "hashInNames": release.hash_in_names,
        }
    unknown = dict.fromkeys(("scheme", "algorithm", "kubernetesMinor", "commit"))
    for name, dynamo in schemes.unread_releases().items():
        yield {"release": name, "dynamo": list(dynamo), **unknown, "dev": False, "hashInNames": None}


def _scheme(scheme: Scheme, names: Sequence[str]) -> dict[str, object]:
    return {
        "scheme": scheme.name,
        "algorithm": scheme.algorithm,
        "kubernetesMinor": scheme.minor,
        "releases": list(names),
    }
