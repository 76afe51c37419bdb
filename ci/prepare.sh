#!/bin/sh
# For CI machines only: install and start what make test and make interop use but never install themselves.
set -eu
say() { echo "prepare: $*" >&2; }
if [ "$(id -u)" != 0 ]; then say "not root: nothing installed, nothing started"; exit 0; fi
export DEBIAN_FRONTEND=noninteractive
missing=
command -v git >/dev/null || missing="$missing git"
command -v make >/dev/null || missing="$missing make"
python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
if ! command -v cc >/dev/null; then missing="$missing gcc libc6-dev"; fi
if ! python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then
    missing="$missing python3-dev"
fi
if ! docker version >/dev/null 2>&1 && ! command -v dockerd >/dev/null; then missing="$missing docker.io"; fi
command -v gfortran >/dev/null || missing="$missing gfortran"
command -v chromium >/dev/null || missing="$missing chromium"
command -v tshark >/dev/null || missing="$missing tshark"
command -v tcpdump >/dev/null || missing="$missing tcpdump"
command -v strace >/dev/null || missing="$missing strace"
command -v ip >/dev/null || missing="$missing iproute2"
if [ -n "$missing" ]; then
    say "installing$missing"
    apt-get -qq update
    # shellcheck disable=SC2086
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null
fi
if docker version >/dev/null 2>&1; then exit 0; fi
say "starting a Docker engine"
mkdir -p build
setsid dockerd >build/dockerd.log 2>&1 </dev/null &
pid=$!
for _ in $(seq 60); do
    if docker version >/dev/null 2>&1; then exit 0; fi
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 1
done
say "the Docker engine does not answer; its last words:"
tail -n 5 build/dockerd.log >&2
exit 1
