"""Checks of the engine's ability to run labs, without any change."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import Final

import docker

from impi.base.errors import ImpiError
from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.docker.images.node_images import SPY, Images
from impi.lab.backends.docker.inventory import DockerInventory
from impi.lab.backends.docker.lab_network import network_subnets
from impi.lab.backends.docker.processor_share import weighs_by_itself
from impi.lab.backends.docker.sidecar_capture import CAPTURE_RIGHTS
from impi.lab.backends.docker.subnet_pool import (
    free_subnets,
    host_routes,
    pool_from_environment,
)
from impi.lab.backends.lifecycle import ownership
from impi.lab.backends.lifecycle.lab_labels import LABEL
from impi.lab.nodes import Finding, core_vendors

_OLDEST_API: Final = (1, 40)
_MEMORY_GIB: Final = 2.0
_DISK_GIB: Final = 2.0
_PROBE_NODES: Final = 8
_PROBE_S: Final = 20


def examine(client: docker.DockerClient, images: Images) -> list[Finding]:
    """Return all findings; a thing that cannot be examined is a finding, too."""

    checks = [_engine, _machine, _pool, _leftovers]

    found: list[Finding] = []
    for check in checks:
        try:
            with engine_fault("the examination"):
                found += check(client)
        except ImpiError as error:
            found.append(
                Finding(subject=check.__name__.strip("_"), ok=False, detail=str(error))
            )

    try:
        found += _images_and_capture(client, images)
    except ImpiError as error:
        found.append(Finding(subject="images", ok=False, detail=str(error)))

    return found


def _engine(client: docker.DockerClient) -> list[Finding]:
    version = client.version()
    api = str(version["ApiVersion"])
    new_enough = tuple(int(x) for x in api.split(".")) >= _OLDEST_API

    return [
        Finding(
            subject="engine",
            ok=new_enough,
            detail=f"version {version['Version']}, API {api}, {version['Os']}/{version['Arch']}",
            cure=""
            if new_enough
            else f"install an engine with API {'.'.join(map(str, _OLDEST_API))} or newer",
        )
    ]


def _machine(client: docker.DockerClient) -> list[Finding]:
    info = client.info()
    gib = int(info["MemTotal"]) / (1 << 30)
    found = [
        Finding(
            subject="cores",
            ok=True,
            detail=f"{info['NCPU']} for {os.uname().nodename}",
            fatal=False,
        ),
        Finding(
            subject="share",
            ok=True,
            detail="each node weighs by itself beside other work"
            if weighs_by_itself(client)
            else f"the engine's own ({info.get('CgroupDriver', 'no')} groups): a lab may be slow beside other work",
            fatal=False,
        ),
        Finding(
            subject="memory",
            ok=gib >= _MEMORY_GIB,
            detail=f"{gib:.1f} GiB",
            cure=""
            if gib >= _MEMORY_GIB
            else f"give the engine at least {_MEMORY_GIB:g} GiB",
            fatal=False,
        ),
    ]

    root = str(info.get("DockerRootDir", ""))
    if os.path.isdir(root):  # noqa: PTH112  (not on this machine, or not ours to see: nothing to say)
        free = shutil.disk_usage(root).free / (1 << 30)
        cure = "" if free >= _DISK_GIB else "docker system prune"
        found.append(
            Finding(
                subject="disk",
                ok=not cure,
                detail=f"{free:.1f} GiB free in {root}",
                cure=cure,
            )
        )

    return found


def _pool(client: docker.DockerClient) -> list[Finding]:
    pool = pool_from_environment()
    taken = [
        network
        for network in [*host_routes(), *network_subnets(client)]
        if network.overlaps(pool)
    ]
    free = next(free_subnets(pool, _PROBE_NODES, taken), None)

    detail = f"{pool}, next {free}" if free else f"{pool} is full"
    if taken:
        detail += "; in use: " + ", ".join(sorted({str(network) for network in taken}))

    cure = (
        "" if free else "impilab clean, or set IMPILAB_POOL to a free private network"
    )

    return [Finding(subject="subnets", ok=free is not None, detail=detail, cure=cure)]


def _leftovers(client: docker.DockerClient) -> list[Finding]:
    states = Counter(found.state for found in DockerInventory(client).find())
    dead = states["left over"]
    detail = f"{states['running']} labs of live runs, {states['kept']} kept, {dead} of dead ones"

    return [
        Finding(
            subject="leftovers",
            ok=not dead,
            detail=detail,
            cure="impilab clean" if dead else "",
            fatal=False,
        )
    ]


def _images_and_capture(client: docker.DockerClient, images: Images) -> list[Finding]:
    wanted = (SPY, *core_vendors())
    present = images.present(wanted)
    missing = [name for name in ("base", *wanted) if name not in present]

    found = [
        Finding(
            subject="images",
            ok=not missing,
            detail="all there" if not missing else f"to be built: {', '.join(missing)}",
            cure="" if not missing else "none is needed: a run builds them",
            fatal=False,
        )
    ]
    if "base" not in present:
        return found

    # tcpdump on loopback, until one packet: it tests the rights that kernel and engine give.
    program = (
        f"timeout {_PROBE_S} tcpdump -Z root -i lo --immediate-mode -c 1 -w /dev/null udp & "
        "while kill -0 $!; do echo > /dev/udp/127.0.0.1/9; sleep 0.05; done 2> /dev/null; wait $!"
    )
    try:
        with engine_fault("tcpdump does not work in a container"):
            client.containers.run(
                present["base"],
                ["/bin/bash", "-c", program],
                user="0",
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=[*CAPTURE_RIGHTS],
                remove=True,
                stderr=True,
                labels={f"{LABEL}lab": "doctor", f"{LABEL}owner": ownership.myself()},
            )
    except ImpiError as error:
        return [
            *found,
            Finding(
                subject="captures",
                ok=False,
                detail=str(error),
                cure="allow containers NET_RAW",
            ),
        ]

    return [
        *found,
        Finding(subject="captures", ok=True, detail="tcpdump works in a container"),
    ]
