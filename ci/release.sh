#!/bin/sh
# Make a release in dist/ (ci/release.py), by build and twine of ci/locks/package.txt in an environment of their own.
# Usage: ci/release.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
if ! cmp -s ci/locks/package.txt build/release/made-from; then
    ${PYTHON:-python3} -m venv --clear build/release
    build/release/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r ci/locks/package.txt
    cp ci/locks/package.txt build/release/made-from
fi
exec build/release/bin/python ci/release.py "$@"
