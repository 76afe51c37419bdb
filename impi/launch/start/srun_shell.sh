#!/bin/sh
# SRUN OPTIONS... NODE COMMAND...: what ssh does, by srun. The options begin with a dash, the node does not.
run=$1; shift
options=
while [ "${1#-}" != "$1" ]; do options="$options $1"; shift; done
node=$1; shift
exec $run $options --nodelist="$node" sh -c "$*"
