#!/bin/sh
# Put the MPI library of every vendor of the default tier into a prefix of its own under .mpi/, by its script
# images/NAME/install. Usage: ci/vendors.sh [NAME ...], where each NAME is a further vendor.
set -eu
cd "$(dirname "$0")/.."
# missing NAME ...: scripts of the vendors that are to be installed
missing() {
    for script in images/*/install; do
        folder=${script%/install}
        name=${folder##*/}
        manifest=$folder/$name.toml
        case " $* " in *" $name "*) ;; *) grep -q '^tier = "core"' "$manifest" || continue ;; esac
        version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$manifest")
        stamp=.mpi/$name/.made-from
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$name==$version" ]; then continue; fi
        echo "$script $name $version"
    done
}
# Where nothing is missing, nothing is written: the checkout may be read-only.
[ -n "$(missing "$@")" ] || exit 0
mkdir -p .mpi
exec 9>.mpi/.lock
flock 9  # two that install at the same time would remove each other's files
missing "$@" | while read -r script name version; do
    stamp=.mpi/$name/.made-from
    echo "impilab: installing $name $version into .mpi/$name" >&2
    rm -rf ".mpi/$name"
    sh "$script" ".mpi/$name" "$version" .venv/bin/python </dev/null
    printf '%s' "$name==$version" > "$stamp"
done
