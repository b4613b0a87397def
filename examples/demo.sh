#!/usr/bin/env bash
# What an upgrade of a recorded cluster would restart, and what a migration changes instead. Nothing is written.
# Run it by `make demo`, or with grove-migrator on PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

printf '# Grove goes from v0.1.0-alpha.8 to v0.1.0-alpha.11. What would restart?\n'
show grove-migrator plan -f examples/dynamo/cluster.json --to v0.1.0-alpha.11
