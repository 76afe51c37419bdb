#!/bin/sh
# Write the lock files: each package that environments and images install, with its version and the hashes of its files.
# Run it after a change in pyproject.toml, images/base/locked.txt or images/NAME/NAME.toml.
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

# environment NAME OPTION...: versions that are in the file stay, unless UPGRADE=1 is set.
environment() {
    name=$1; shift
    uv ${UPGRADE:+--upgrade} "$@" -o "ci/locks/$name.txt"
}
# Where impi itself is installed, what builds it is needed, too.
build=build/lock/build.txt
sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml > "$build"
lab="pyproject.toml $build --extra lab --extra compiled --extra web"
# shellcheck disable=SC2086
{
environment lab $lab
environment dev $lab --extra plots --extra kubernetes --group test --group lint --group schemas
}
environment tests pyproject.toml --extra lab --group test
# It shares an environment with the others: what both need has one version.
environment docs --group docs -c ci/locks/dev.txt
for group in browser fuzz lock package; do environment "$group" --group "$group"; done

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
