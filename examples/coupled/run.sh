#!/bin/bash
# Two solvers, each a job under its own MPI library, coupled through ports:
#     examples/coupled/run.sh [POINTS [STEPS]]
# IMPIRUN, MPICH and OPENMPI name the programs and libraries of others than this checkout's. CC compiles.
# The exit code is 0 if both halves end well, and 77 if something is missing, which is named.
here=$(cd "$(dirname "$0")" && pwd) && top=$(cd "$here/../.." && pwd)
impirun=${IMPIRUN:-$top/.venv/bin/impirun}
mpich=${MPICH:-$top/.mpi/mpich} openmpi=${OPENMPI:-$top/.mpi/openmpi} cc=${CC:-cc}

missing() {
    echo "run.sh: left out, because $1 is missing: $2" >&2
    exit 77
}
command -v "$cc" > /dev/null || missing "$cc" "apt-get install gcc python3-dev"
[ -x "$impirun" ] || missing "$impirun" "make interop"
for prefix in "$mpich" "$openmpi"; do
    [ -e "$prefix/include/mpi.h" ] || missing "$prefix/include/mpi.h" "make interop"
done

# The names of ports have secrets: only this user may read the folder.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for library in "$mpich" "$openmpi"; do
    "$cc" -O2 -I"$library/include" -o "$folder/plate-$(basename "$library")" "$here/plate.c" \
        -L"$library/lib" -lmpi -Wl,--allow-shlib-undefined || exit 1
done

"$impirun" -n 2 --vendor mpich --prefix "$mpich" "$folder/plate-$(basename "$mpich")" left "$folder" "$@" &
"$impirun" -n 3 --vendor openmpi --prefix "$openmpi" "$folder/plate-$(basename "$openmpi")" right "$folder" "$@" &

# If a half fails, the other one would wait for it.
code=0
for _ in left right; do
    wait -n || {
        ended=$?
        [ $code = 0 ] && code=$ended
        kill $(jobs -p) 2> /dev/null
    }
done
exit $code
