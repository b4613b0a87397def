"""``releases``: which release speaks which scheme."""

from __future__ import annotations

from migrator.cli.options import command, output
from migrator.cli.output import as_json, write


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
    from migrator.render.text import columns

    rows_json = [
        {
            "release": release.name,
            "scheme": release.scheme.name,
            "algorithm": release.scheme.algorithm,
            "kubernetesMinor": release.scheme.minor,
            "commit": release.commit,
            "dev": release.dev,
            "hashInNames": release.hash_in_names,
        }
        for release in schemes.releases()
    ]
    used = {scheme: [release.name for release in schemes.speakers(scheme)] for scheme in schemes.all_schemes()}
    if output == "json":
        known = [
            {"scheme": one.name, "algorithm": one.algorithm, "kubernetesMinor": one.minor, "releases": names}
            for one, names in used.items()
        ]
        write(as_json({"releases": rows_json, "schemes": known}))
        return
    in_names = "only hash: the hash is in object names"
    rows = [
        (one.name, one.scheme.name, one.scheme.minor, one.commit or "-", in_names if one.hash_in_names else "")
        for one in schemes.releases()
    ]
    write(columns(("RELEASE", "SCHEME", "K8S.IO/API", "COMMIT", "REMARK"), rows))
    speakers = ((scheme.name, ", ".join(names) or "no build") for scheme, names in used.items())
    write("\n" + columns(("SCHEME", "USED BY"), speakers))
