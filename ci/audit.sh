#!/bin/sh
# Ask the package index for known vulnerabilities of every package in the lock files. Needs an index with advisories:
# a package that it does not know is an error, not a pass.
set -eu
cd "$(dirname "$0")/.."
ci/lock.sh tools
worst=0
for lock in ci/locks/*.txt images/*/locked.txt; do
    echo "audit: $lock" >&2
    build/lock/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps -r "$lock" || worst=1
done
exit $worst
