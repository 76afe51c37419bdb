#!/bin/sh
# Write the lock files: each package that environments and images install, with its version and the hashes of its files.
# Run it after a change of a version in pyproject.toml, images/base/locked.txt or images/NAME/NAME.toml.
# Usage: ci/lock.sh, or ci/lock.sh tools: install what this script and ci/audit.sh run, and nothing else.
set -eu
cd "$(dirname "$0")/.."
if ! cmp -s ci/locks/lock.txt build/lock/made-from; then
    python3 -m venv --clear build/lock
    build/lock/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r ci/locks/lock.txt
    cp ci/locks/lock.txt build/lock/made-from
fi
[ "$*" != tools ] || exit 0
uv() { build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate "$@"; }
lines() { sed 's/ *\\$//; s/^ */ /' | tr -d '\n' | sed 's/ \([a-z0-9-]*==\)/\n\1/g; s/^ //; $s/$/\n/' | sed '/^$/d'; }

# environment NAME EXTRA...: an editable installation of impi needs setuptools as well.
environment() {
    name=$1; shift
    build=$(sed -n 's/^requires = \["\(setuptools[^"]*\)"\]/\1/p' pyproject.toml)
    # shellcheck disable=SC2046
    echo "$build" | uv pyproject.toml - $(printf ' --extra %s' "$@") -o "ci/locks/$name.txt"
}
environment lab lab vendors compiled web
environment dev lab vendors compiled web test lint plots kubernetes schemas
environment fuzz fuzz
environment tests test vendors
environment browser browser
environment lock lock

# Images: a line for each package, so that a Dockerfile can choose among them.
packages=$(sed -n 's/^\([a-z0-9-]*==[^ ]*\) .*/\1/p' images/base/locked.txt)
echo "$packages" | uv --no-deps - | lines > build/locked.txt
mv build/locked.txt images/base/locked.txt
for script in images/*/install; do
    folder=${script%/install}
    package=$(sed -n 's/.*"\([a-z0-9-]*\)==$version").*/\1/p' "$script")
    [ -n "$package" ] || continue
    : > build/locked.txt
    for version in $(sed -n 's/.*"\([0-9][0-9.]*\.[0-9]*\)"$/\1/p' "$folder/${folder##*/}.toml" | sort -Vu); do
        echo "$package==$version" | uv --no-deps - | lines >> build/locked.txt
    done
    mv build/locked.txt "$folder/locked.txt"
done
