#!/bin/sh
# Import a home-made stand-in for Debian's slim image, for machines whose engine cannot pull images.
# Usage: ci/standin.sh [TAG [MACHINE]] ; the tag never carries Debian's name. MACHINE is Debian's name of another
# architecture, such as s390x, whose programs run here by qemu-user (ci/machines.sh). Where the host runs the same
# release its own apt sources are used (IMPILAB_APT_SOURCES names another sources file or "deb ..." line).
set -eu
cd "$(dirname "$0")/.."
tag=${1:-impilab/os:bookworm}
machine=${2:-}
suite=bookworm

build=$PWD/build
[ -w . ] || build=${XDG_CACHE_HOME:-$HOME/.cache}/impilab  # installed by somebody else

say() { echo "impilab: $*" >&2; }

# mmdebstrap makes a Debian tree from packages, as root or in a user namespace. It is one Perl script.
find_mmdebstrap() {
    if command -v mmdebstrap >/dev/null; then mmdebstrap=mmdebstrap; return; fi
    mmdebstrap=$build/mmdebstrap/usr/bin/mmdebstrap
    if [ -x "$mmdebstrap" ]; then return; fi
    command -v apt-get >/dev/null || { say "no apt-get here: pull or load debian:$suite-slim into the engine"; exit 3; }
    if [ "$(id -u)" = 0 ]; then
        apt-get -qq -o DPkg::Lock::Timeout=300 update >&2 || true
        if apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends mmdebstrap >&2; then
            mmdebstrap=mmdebstrap; return
        fi
    fi
    mkdir -p "$build/mmdebstrap"
    # An absolute path because apt's fetcher may run as another user.
    (cd "$build/mmdebstrap" && apt-get -qq download mmdebstrap >&2 && dpkg-deb -x mmdebstrap_*.deb .) || {
        say "mmdebstrap cannot be had: install it, or load debian:$suite-slim into the engine"; exit 3; }
}

host_sources() {
    # Only a host of the same release has sources that fit; else mmdebstrap's own default is right.
    if [ -n "${IMPILAB_APT_SOURCES:-}" ]; then printf '%s' "$IMPILAB_APT_SOURCES"; return; fi
    (. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && [ "${VERSION_CODENAME:-}" = "$suite" ]) || return 0
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        if [ -s "$file" ]; then printf '%s' "$file"; return; fi
    done
}

find_mmdebstrap
if [ "$(id -u)" != 0 ] && ! command -v newuidmap >/dev/null; then
    say "without root, mmdebstrap needs newuidmap (package uidmap) and a line for you in /etc/subuid and /etc/subgid;"
    say "or run 'sudo sh $PWD/ci/standin.sh' once, or load debian:$suite-slim into the engine"
    exit 3
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
say "making $tag from Debian's packages (half a minute; of another machine three)"
sources=$(host_sources)
# The same files are left out as in Debian's slim image.
"$mmdebstrap" --quiet --variant=minbase --include=ca-certificates ${machine:+--arch="$machine"} \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -f "$1/etc/resolv.conf" "$1/etc/hostname"' \
    "$suite" "$work/os.tar" ${sources:+"$sources"} >&2
docker import -c 'CMD ["bash"]' -c 'LABEL org.impilab.image=os' -m "Debian $suite from its packages" "$work/os.tar" "$tag"
