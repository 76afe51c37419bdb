#!/bin/sh
# The weekly addition to CI: the parts of the matrix that take long or need more of the machine. A part that fails
# does not stop those after it; the exit code is the worst of all.
set -u
cd "$(dirname "$0")/.."
worst=0
part() {
    echo "== $*" >&2
    "$@" || { code=$?; if [ "$code" -gt "$worst" ]; then worst=$code; fi; }
}
run() { part .venv/bin/impilab run --backend docker --capture failures "$@"; }
[ "$(id -u)" != 0 ] || part ci/machines.sh
run --tier pairs
run --tier versions
run --tier natives
run --tier net
run --tier faults
# One command starts all clients on one machine: cells of loopback alone.
part .venv/bin/impilab run --backend local --tier faults 'faults.phases/*/*/*start=one*'
run --tier soak --jobs 1
run '@smoke/*/1x2+1x2' --with pure@s390x
run '@smoke/*/1x2+1x2' --with pure@arm64
run '@smoke/*/1x2+1x2' --with mpich@arm64
part .venv/bin/python -m pytest -m alone
part env IMPI_TESTS_NEED_ALL=1 make proofs
part .venv/bin/python ci/clauses.py
part ci/pythons.sh
part .venv/bin/python tests/mutants
part .venv/bin/python tests/planted
part ci/axes.sh
mkdir -p build
part .venv/bin/impi bench --json build/bench.json
part .venv/bin/impi bench compare build/bench.json # beside the last release
part ci/audit.sh
# Cells that vendors declare unsupported are run to prove it. Code 5: nothing is declared.
echo "== impilab run --tier pairs --prove-unsupported" >&2
.venv/bin/impilab run --backend docker --tier pairs --prove-unsupported || [ $? = 5 ] || worst=1
exit "$worst"
