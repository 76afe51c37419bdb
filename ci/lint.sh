#!/bin/sh
# Style, types and layers: what must hold of the source text itself.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/lint-imports --config ci/contracts.toml
