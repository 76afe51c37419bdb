#!/bin/sh
# What a run of every week adds to CI: the parts of the matrix that take long or need more of the machine. Each part
# runs, whatever the one before it said; the exit code is the worst.
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
run --tier soak --jobs 1
run '@smoke/*/1x2+1x2' --with pure@s390x
run '@smoke/*/1x2+1x2' --with pure@arm64
run '@smoke/*/1x2+1x2' --with mpich@arm64
part .venv/bin/python -m pytest -m proof tests/slurm
part .venv/bin/python -m pytest -m proof tests/swarm
part .venv/bin/python -m pytest -m proof tests/kubernetes
part .venv/bin/python -m pytest -m alone
part .venv/bin/python tests/mutants
part .venv/bin/python tests/planted
mkdir -p build
part .venv/bin/impi bench --json build/bench.json
part .venv/bin/impi bench compare build/bench.json # beside the last release
part ci/audit.sh
# What vendors declare that they cannot do is run to prove it. Code 5: nothing is declared.
echo "== impilab run --tier pairs --prove-unsupported" >&2
.venv/bin/impilab run --backend docker --tier pairs --prove-unsupported || [ $? = 5 ] || worst=1
exit "$worst"
