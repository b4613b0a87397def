"""``releases``: which release speaks which scheme."""

from __future__ import annotations

from migrator.cli import output
from migrator.hashing import schemes
from migrator.render.text import columns


def main(*, form: str) -> None:
    """Print the table of releases and that of schemes."""
    releases = [
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
    spoken = {scheme: [release.name for release in schemes.speakers(scheme)] for scheme in schemes.all_schemes()}
    if form == "json":
        known = [
            {"scheme": one.name, "algorithm": one.algorithm, "kubernetesMinor": one.minor, "releases": names}
            for one, names in spoken.items()
        ]
        output.write(output.as_json({"releases": releases, "schemes": known}))
        return
    in_names = "only hash and explain: the hash is in object names"
    rows = [
        (one.name, one.scheme.name, one.scheme.minor, one.commit or "-", in_names if one.hash_in_names else "")
        for one in schemes.releases()
    ]
    output.write(columns(("RELEASE", "SCHEME", "K8S.IO/API", "COMMIT", "REMARK"), rows))
    speakers = ((scheme.name, ", ".join(names) or "no build") for scheme, names in spoken.items())
    output.write("\n" + columns(("SCHEME", "SPOKEN BY"), speakers))
