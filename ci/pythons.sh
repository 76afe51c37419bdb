#!/bin/sh
# The tests of the protocol on every supported Python that this machine has; says which it has not.
# Each gets an environment of its own below .pythons/, made again when pyproject.toml or the lock file changes.
# TESTED=3.11 leaves out a version on which these tests have just passed; VERSIONS="3.13 3.14" names those wanted.
set -eu
cd "$(dirname "$0")/.."
want=$(cat pyproject.toml ci/locks/tests.txt | cksum)
root=$(pwd)
status=0
found_of() {
    for path in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python \
        "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-"$1".*/bin/python3; do
        # A shim of pyenv's answers for versions that are not chosen, with an error.
        if [ -n "$path" ] && "$path" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$path"
            return
        fi
    done
}
for version in ${VERSIONS:-3.11 3.12 3.13 3.14}; do
    [ "$version" != "${TESTED:-}" ] || continue
    python=$(found_of "$version")
    if [ -z "$python" ]; then
        echo "Python $version: not on this machine, not tested"
        continue
    fi
    own=.pythons/$version
    if [ "$(cat "$own/.made" 2>/dev/null || true)" != "$want" ]; then
        rm -rf "$own"
        "$python" -m venv "$own"
        "$own/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r ci/locks/tests.txt
        # As an editable install does it, without a build backend in each environment.
        echo "$root" > "$("$own/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/checkout.pth"
        printf '%s' "$want" > "$own/.made"
    fi
    echo "Python $version ($python):"
    # shellcheck disable=SC2086
    (cd "$root" && "$own/bin/python" -m pytest -q -n "${JOBS:-2}" -p no:cacheprovider \
        tests/protocol/wire tests/protocol/startup tests/protocol/transfer tests/protocol/semantics tests/protocol/collectives tests/rank/engine "$@") || status=1
done
exit $status
