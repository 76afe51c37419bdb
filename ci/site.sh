#!/bin/sh
# Build the site of all pages; a warning is an error. Usage: ci/site.sh [FOLDER]: where to put it.
set -eu
cd "$(dirname "$0")/.."
to=${1:-build/site}
# The checkout is the source folder: so a link means the same in the site as in a checkout.
.venv/bin/python -m sphinx -q -W --keep-going -n -c docs -d "$to.kept" . "$to"
echo "site $to/index.html"
