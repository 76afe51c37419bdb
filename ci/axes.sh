#!/bin/sh
# mpi4py's own suite on jobs that 'make compat' leaves out: uneven layouts, options of clients, other libraries. Part
# of ci/weekly.sh. What is expected not to pass stands in tests/compat/gaps.toml, with reasons. Words choose modules.
set -u
cd "$(dirname "$0")/.."
worst=0
suite() {
    echo "== tests/compat $*" >&2
    .venv/bin/python tests/compat "$@" || worst=1
}
for layout in mpich:3,openmpi:2,pure:1 mpich:4,openmpi:3; do suite "$@" --layout "$layout"; done
for options in '--hosts client' --external32 --tls --lazy; do
    suite "$@" --layout mpich:2,openmpi:1,pure:1 --options="$options"
done
# Debian's libraries, where their packages are installed; Intel MPI comes from the package index.
for vendor in mpich openmpi; do
    command -v "mpiexec.$vendor" >/dev/null || { echo "axes: no package of Debian's $vendor" >&2; continue; }
    if [ "$vendor" = mpich ]; then export IMPI_PREFIX_MPICH=/usr; else export IMPI_PREFIX_OPENMPI=/usr; fi
    suite "$@" --layout "$vendor:2,pure:1"
    unset IMPI_PREFIX_MPICH IMPI_PREFIX_OPENMPI
done
ci/vendors.sh intel && suite "$@" --layout intel:2,openmpi:1
exit "$worst"
