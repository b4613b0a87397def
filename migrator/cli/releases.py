"""``releases``: which release speaks which scheme."""

from __future__ import annotations

import json

import click

from migrator.cli import output
from migrator.cli.options import log_options, output_option


@click.command(
    short_help="Releases and the schemes that they speak.",
    epilog="""\b
    Examples:
      grove-migrator releases
      grove-migrator releases -o json
    """,
)
@output_option("table", "json")
@log_options
def releases(form: str) -> None:
    """List Grove's releases and the hash schemes that they speak.

    Two releases with the same scheme store the same hashes: between them there is nothing to migrate.
    """
    from migrator.hashing import schemes  # noqa: PLC0415 - loads the table
    from migrator.render.text import columns  # noqa: PLC0415

    if form == "json":
        document = {
            "releases": [
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
            ],
            "schemes": [
                {
                    "scheme": scheme.name,
                    "algorithm": scheme.algorithm,
                    "kubernetesMinor": scheme.minor,
                    "releases": [release.name for release in schemes.speakers(scheme)],
                }
                for scheme in schemes.all_schemes()
            ],
        }
        output.write(json.dumps(document, indent=2) + "\n")
        return
    rows = [
        (
            release.name,
            release.scheme.name,
            release.scheme.minor,
            release.commit or "-",
            "only hash and explain: the hash is in object names" if release.hash_in_names else "",
        )
        for release in schemes.releases()
    ]
    output.write(columns(("RELEASE", "SCHEME", "K8S.IO/API", "COMMIT", "REMARK"), rows))
    output.write("\n")
    spoken = [
        (scheme.name, ", ".join(release.name for release in schemes.speakers(scheme)) or "no build")
        for scheme in schemes.all_schemes()
    ]
    output.write(columns(("SCHEME", "SPOKEN BY"), spoken))
