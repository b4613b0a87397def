"""The command line as in a pod whose ServiceAccount's files are in another directory, which is the first argument."""

from __future__ import annotations

import sys
from pathlib import Path

from kubernetes.config import incluster_config

from migrator import cli
from migrator.cli import connect

if __name__ == "__main__":
    files = Path(sys.argv[1])
    incluster_config.SERVICE_TOKEN_FILENAME = str(files / "token")
    incluster_config.SERVICE_CERT_FILENAME = str(files / "ca.crt")
    connect._OWN_NAMESPACE = files / "namespace"  # type: ignore[misc]
    sys.exit(cli.invoke(sys.argv[2:]))
