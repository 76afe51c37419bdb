#!/bin/sh
# Make .venv once: the interpreter with impi (editable) and what it needs.
# Usage: ci/venv.sh lab (runs, and nothing else), docs (what builds the site as well), dev (tests and linters as well),
# proofs (all of these, and what drives a browser), or fuzz (a fuzzer as well).
# It is made again when pyproject.toml or a lock file changes. Every package is checked against its hash in ci/locks/.
set -eu
cd "$(dirname "$0")/.."
want=$(cat pyproject.toml ci/venv.sh ci/locks/*.txt | cksum)
# Where PYTHONDONTWRITEBYTECODE is set, nothing is ever compiled for good: every rank that starts would compile numpy and
# impi anew, which doubles what a job costs. So what is imported all the time is compiled here.
compile() { [ ! -w impi ] || env -u PYTHONDONTWRITEBYTECODE .venv/bin/python "$@" >/dev/null; }
has() { [ -f ".venv/.has-$1" ] && [ "$(cat ".venv/.has-$1")" = "$want" ]; }
if has "$1"; then compile -m compileall -q impi; exit 0; fi
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "impilab: Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3 make ..." >&2; exit 4
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "impilab: this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 4
fi
# no-compile: most installed modules are never imported; the others are compiled at their import.
pip() { .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check "$@"; }
install() { pip --require-hashes -r "ci/locks/$1.txt"; }
if ! has lab; then
    echo "impilab: making .venv: $(grep -c == ci/locks/lab.txt) packages, which takes a minute or more" >&2
    rm -rf .venv
    "$python" -m venv .venv
    # Pages need no MPI library; whoever does, installs them later.
    vendors=
    [ "$1" = docs ] || { ci/vendors.sh & vendors=$!; }
    install lab
    pip --no-deps --no-build-isolation -e .
    [ -z "$vendors" ] || wait "$vendors"
    compile -c 'import docker, mpi4py, numpy, paramiko'
    compile -m impi.cli.impilab --help
    printf '%s' "$want" > .venv/.has-lab
fi
if [ "$1" != lab ] && [ "$1" != docs ] && ! has dev; then
    echo "impilab: installing what tests and linters need into .venv: $(grep -c == ci/locks/dev.txt) packages" >&2
    install dev
    compile -c 'import hypothesis, pytest, xdist'
    printf '%s' "$want" > .venv/.has-dev
fi
if [ "$1" = proofs ] && ! has proofs; then
    install browser
    printf '%s' "$want" > .venv/.has-proofs
fi
if { [ "$1" = docs ] || [ "$1" = proofs ]; } && ! has docs; then
    install docs
    printf '%s' "$want" > .venv/.has-docs
fi
if [ "$1" = fuzz ]; then
    install fuzz
    printf '%s' "$want" > .venv/.has-fuzz
fi
compile -m compileall -q impi
