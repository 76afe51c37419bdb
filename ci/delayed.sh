#!/bin/sh
# Collectives of MPICH with 1 ms between two containers: over IMPI, and flat over MPICH's own TCP.
# Each container has one core and two procs. Prints octets and medians of 5 rounds in us.
# Usage: ci/delayed.sh (needs Docker with root's rights, and two cores)
set -eu
lab=delayed
programs=/opt/impi/src/impi/tools/bench/programs
options="--collectives 8,1024,65536,1048576 --iterations 80 --skip 8"
results=$(mktemp)
node() { .venv/bin/impilab exec --lab $lab "$@"; }
address() { sed -n "/^Host $1\$/,/HostName/s/ *HostName //p" .impilab/$lab/ssh_config; }
rows() { sed -n "s|^\([A-Z][a-z]*/[0-9]*\)  *\([0-9.]*\)\$|$1 \1 \2|p" >> "$results"; }

trap '.venv/bin/impilab down $lab > /dev/null; rm -f "$results" "$results.server"' EXIT
.venv/bin/impilab up 1x2+1x2 --parties mpich+mpich --name $lab > /dev/null
for client in 0 1; do
    # Two nodes with a core each: else the ranks could not know that they share cores.
    docker ps --format '{{.Names}}' | grep -- "-up-$lab-.*-c${client}n0\$" |
        xargs docker update --cpuset-cpus=$client > /dev/null
done
.venv/bin/impilab net set --lab $lab --between c0,c1 --delay 1ms > /dev/null

over_impi() {
    : > "$results.server"
    node server -- impirun -server 2 2>/dev/null > "$results.server" &
    until server=$(head -1 "$results.server") && [ -n "$server" ]; do sleep 0.1; done
    # shellcheck disable=SC2086  # the options are words
    node c1n0 -- impirun -client 1 "$server" -np 2 --vendor mpich --interface "$(address c1n0)" \
        $programs/usual.py $options > /dev/null &
    # shellcheck disable=SC2086
    node c0n0 -- impirun -client 0 "$server" -np 2 --vendor mpich --interface "$(address c0n0)" \
        $programs/usual.py $options | rows impi
    wait
}

flat() {
    # shellcheck disable=SC2086
    node c0n0 -- env FI_PROVIDER=tcp MPIR_CVAR_NOLOCAL=1 \
        MPI4PY_LIBMPI=/opt/mpi/mpich/lib/libmpi.so.12 /opt/mpi/mpich/bin/mpiexec \
        -hosts "$(address c0n0):2,$(address c1n0):2" -iface eth0 -n 4 -genvall \
        /opt/impi/venv/bin/python $programs/usual.py $options | rows mpich
}

for round in 1 2 3 4 5; do
    echo "round $round" >&2
    over_impi
    flat
done
python3 - "$results" <<'END'
import collections, statistics, sys

found = collections.defaultdict(list)
for line in open(sys.argv[1]):
    way, row, value = line.split()
    found[row, way].append(float(value))

for row, way in found:
    if way == "impi":
        ours, flat = (statistics.median(found[row, way]) for way in ("impi", "mpich"))
        print(f"{row:20} impi {ours:8.0f}   MPICH, flat {flat:8.0f}   {ours / flat:.2f} x")
END
