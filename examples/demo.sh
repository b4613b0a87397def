#!/usr/bin/env bash
# The main job on a recorded cluster: what the upgrade would do, the migration, and what it would do after it.
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

printf '# Dynamo 1.3 to 1.4 is Grove v0.1.0-alpha.8 to v0.1.0-alpha.12-rc1: what would the new operator recreate?\n'
show grove-migrator plan -f cluster.json --to v0.1.0-alpha.12-rc1

printf '\n# Migrate. On a cluster the flags -f and --write are left out.\n'
show grove-migrator run -f cluster.json --write "$migrated" --to v0.1.0-alpha.12-rc1

printf '\n# What would it recreate now?\n'
show grove-migrator plan -f "$migrated" --to v0.1.0-alpha.12-rc1

printf '\n# What has changed? Hashes, and nothing else.\n'
# diff exits with 1 for files that differ, which is what they should do.
printf "\n$ diff cluster.json migrated.json | sed -n 's/^> *\"\\\\(.*\\\\)\":.*/\\\\1/p' | sort | uniq -c\n"
{ diff cluster.json "$migrated" || [ $? -eq 1 ]; } | sed -n 's/^> *"\(.*\)":.*/\1/p' | sort | uniq -c

printf '\n# A build that is in no table? What it hashes is read from its own binary, or from a file that was made of it.\n'
show grove-migrator plan -f cluster.json --to-binary ../scheme.json
