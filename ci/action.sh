#!/bin/sh
# The commands of action.yml. Usage: ci/action.sh install, or ci/action.sh run.
# install: impilab by its locks into a folder of the runner, with VENDORS and REQUIREMENTS of the user.
# run: impilab with ARGUMENTS; the job's summary and annotations; the exit code by FAILS: red, worse or later.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
home=$RUNNER_TEMP/impilab
before=.impilab-before

install() {
    set -e
    python -m venv "$home"
    pip() { "$home/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
    pip --require-hashes -r "$top/ci/locks/lab.txt"
    pip --no-deps --no-build-isolation "$top"
    [ -z "${REQUIREMENTS:-}" ] || pip -r "$REQUIREMENTS"
    if [ -n "${VENDORS:-}" ]; then
        images=${XDG_DATA_HOME:-$HOME/.local/share}/impilab/images
        mkdir -p "$images"
        cp -R "$VENDORS"/. "$images"
    fi
    # Later steps have the commands, and their own Python.
    mkdir -p "$home/commands"
    for name in impilab impi impirun; do ln -sf "../bin/$name" "$home/commands/$name"; done
    echo "$home/commands" >> "$GITHUB_PATH"
}

impilab() { "$home/bin/python" -m impi.cli.impilab "$@"; }
newest() { find runs -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' 2>/dev/null | sort | tail -n 1; }

run() {
    old=$(newest) code=0
    # The words are those of a shell, but no shell sees them.
    "$home/bin/python" -c 'import os, shlex, sys
from impi.cli.entry import impilab
sys.argv = ["impilab", *shlex.split(os.environ["ARGUMENTS"])]
sys.exit(impilab())' || code=$?
    folder=$(newest)
    [ "$folder" != "$old" ] || folder=
    echo "folder=$folder" >> "$GITHUB_OUTPUT"
    echo "code=$code" >> "$GITHUB_OUTPUT"
    # Without a run there is nothing to judge, and the code says why.
    [ -n "$folder" ] && [ -f "$folder/results.json" ] || exit "$code"
    impilab report "$folder" --github
    case $FAILS in
    later)
        # Cells say nothing about a run that was not tried, or was asked for wrongly.
        case $code in 1 | 6) code=0 ;; esac ;;
    worse)
        # An interrupted run is not a measure, and is not held against one.
        [ "$code" != 2 ] || exit 2
        if [ -f "$before/results.json" ]; then
            code=0
            impilab diff "./$before" "$folder" --gate --github || code=$?
        fi
        mkdir -p "$before" && cp "$folder/results.json" "$before" ;;
    red) ;;
    *) echo "impilab: fails: $FAILS: write red, worse or later" >&2; exit 4 ;;
    esac
    exit "$code"
}

case ${1:-} in
install) install ;;
run) run ;;
*) echo "usage: ci/action.sh install|run" >&2; exit 4 ;;
esac
