#!/bin/sh
# Make .venv once: the interpreter with impi (editable) and everything the lab and the tests import.
# It is made again when pyproject.toml changes. Usage: ci/venv.sh lab
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.made-from
want=$(cksum pyproject.toml ci/venv.sh)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "impilab: Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3 make ..." >&2; exit 4
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "impilab: this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 4
fi
echo "impilab: making .venv" >&2
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[lab,vendors,test,lint]'
printf '%s' "$want" > "$stamp"
