#!/bin/sh
# Let this machine run programs of others in containers: qemu-user, registered in the kernel's binfmt_misc. Needs root;
# the registration lasts until the next start of the machine.
set -eu
if [ "$(id -u)" != 0 ]; then echo "machines: needs root" >&2; exit 1; fi
export DEBIAN_FRONTEND=noninteractive
if ! [ -x /usr/bin/qemu-s390x-static ] || ! command -v update-binfmts >/dev/null || ! command -v arch-test >/dev/null; then
    apt-get -qq update
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
        arch-test binfmt-support qemu-user-static >/dev/null
fi
if ! [ -e /proc/sys/fs/binfmt_misc/register ]; then mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; fi
update-binfmts --enable
