#!/bin/sh
# Branch coverage of the protocol's packages, each by its own folder of tests alone; fails under 100 %.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
# One seed: what is covered must not depend on luck.
for package in wire startup transfer; do
    echo "impi/protocol/$package by tests/protocol/$package:"
    export COVERAGE_FILE="$work/$package"
    .venv/bin/python -m coverage run --branch --source="impi/protocol/$package" \
        -m pytest -q -p no:cacheprovider --hypothesis-seed=0 "tests/protocol/$package" || status=1
    .venv/bin/python -m coverage report --show-missing --fail-under=100 || status=1
done
# A pragma would make the number a claim instead of a measurement.
if grep -rn 'pragma: *no' impi/protocol/wire impi/protocol/startup impi/protocol/transfer; then
    echo "coverage pragmas are not allowed in these packages" >&2
    status=1
fi
exit $status
