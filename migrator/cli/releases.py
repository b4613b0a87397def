"""``releases``: which release speaks which scheme."""

from __future__ import annotations

from typing import Any

from migrator.cli import output
from migrator.hashing import schemes
from migrator.render.text import columns


def main(*, form: str) -> None:
    """Print the table of releases and that of schemes."""
    if form == "json":
        output.write(output.as_json(_document()))
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
    spoken = [
        (scheme.name, ", ".join(release.name for release in schemes.speakers(scheme)) or "no build")
        for scheme in schemes.all_schemes()
    ]
    output.write(columns(("RELEASE", "SCHEME", "K8S.IO/API", "COMMIT", "REMARK"), rows))
    output.write("\n" + columns(("SCHEME", "SPOKEN BY"), spoken))


def _document() -> dict[str, Any]:
    return {
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
