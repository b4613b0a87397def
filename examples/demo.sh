#!/usr/bin/env bash
# The main job on a recorded cluster: what the upgrade would restart, the migration, and the check.
# Nothing but a temporary directory is written. Run it by `make demo`, or with grove-migrator on PATH.
set -euo pipefail
cd "$(dirname "$0")/dynamo"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
migrated="$scratch/migrated.json"

show() {
    printf '\n$ %s\n' "${*//$scratch\//}"
    "$@"
}

printf '# Grove goes from v0.1.0-alpha.8 to v0.1.0-alpha.11. What would restart?\n'
show grove-migrator plan -f cluster.json --to v0.1.0-alpha.11

printf '\n# Migrate the dump. On a cluster, leave out -f and --write.\n'
show grove-migrator run -f cluster.json --write "$migrated" --to v0.1.0-alpha.11

printf '\n# Check every stored hash.\n'
show grove-migrator verify -f "$migrated" --to v0.1.0-alpha.11
