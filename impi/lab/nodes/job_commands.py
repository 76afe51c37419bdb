"""The commands of a job in a lab; :func:`run_job` runs a user's own program there.

How it works: functions make the command lines and variables of server, relay and clients from a lab
and the settings of a cell. Cells, ``impilab up`` and the plug-in for pytest use the same functions,
so a job that you start by hand in a lab is the job that a cell would run.

Variables with secrets are kept apart from all others (:data:`SECRETS`): evidence, pages and bundles
show commands, and must never show these.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.base.manifests import manifest
from impi.base.remote.supervised import Completed
from impi.lab.nodes.interface import (
    ON_HOSTS,
    ON_KUBERNETES,
    ON_LOOPBACK,
    ON_SWARM,
    Lab,
    RunningCommand,
)
from impi.lab.nodes.parties import is_remote, node_prefix

CROWDED: Final = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "OPENBLAS_NUM_THREADS": "1",  # else importing numpy takes twice as long
}
"""Settings for procs that share cores, of which launchers know nothing: else spinning slows all."""
NATIVE_CLIENT: Final = "/opt/impi/vendor/client"
"""The script of a native vendor that starts one client; images/README.md says how."""
NATIVE_HOSTS: Final = "client"
"""The owners of hosts in a job with a native client: the native's, and ours for each client."""
NATIVE_PROGRAMS: Final = "/opt/impi/vendor/programs"
_KEY: Final = "IMPI_AUTH_KEY"
_SECRET: Final = "IMPI_AUTH_SECRET"  # noqa: S105  (a name)
SECRETS: Final = (_KEY, _SECRET)
"""Names of variables whose values must not be shown."""
_LEAST_KEY: Final = 10**18
_TURN_S: Final = 0.02
_SERVER_S: Final = 30.0
_GRACE_S: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """The end of a job."""

    server: Completed
    # In client order; ``code`` None: the deadline ended it
    clients: tuple[Completed, ...]

    @property
    def ok(self) -> bool:
        return all(each.code == 0 for each in (self.server, *self.clients))

    @property
    def stdout(self) -> str:
        return "".join(
            client.stdout.decode("utf-8", "replace") for client in self.clients
        )

    def __str__(self) -> str:
        parts = []
        for who, each in (
            ("server", self.server),
            *((f"client {i}", c) for i, c in enumerate(self.clients)),
        ):
            said = (each.stdout + each.stderr).decode("utf-8", "replace")
            parts.append(
                f"--- {who}: {'ended by the deadline' if each.code is None else f'exit {each.code}'}\n{said}"
            )

        return "".join(parts)


def server_argv(lab: Lab, *, auth: str | None = None, ports: str = "") -> list[str]:
    """Return the command of the server of a job of all the lab's clients.

    ``auth``: as in a variant; ``ports``: where it listens (--ports); empty: anywhere.
    """

    # Verbose: its reports of joins and ends belong in the timeline.
    argv = [
        lab.access.python,
        "-m",
        "impi.cli.impirun",
        "-server",
        str(len(lab.clients)),
        "-v",
    ]
    argv += ["--tls"] if auth == "tls" else methods_of(auth)
    argv += ["--ports", ports] if ports else []
    # Else it prints a.b.c.d:port, as IMPI 2.2.1 has it; existing hosts may have several addresses.
    named = ":" in lab.server.address or lab.access.backend.startswith(
        (ON_HOSTS, ON_SWARM, ON_KUBERNETES)
    )

    return [*argv, "--interface", lab.server.address] if named else argv


def relay_argv(lab: Lab) -> list[str]:
    """Return the command of the relay on the server's node, for clients that accept nothing."""
    return [
        lab.access.python,
        "-m",
        "impi.cli.impirun",
        "-relay",
        "-v",
        "--interface",
        lab.server.address,
    ]


def python_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a Python needs at its start, from those of a node."""
    return {
        name: environment[name]
        for name in ("HOME", "PATH", "PYTHONPATH", "LANG")
        if name in environment
    }


def server_environment(lab: Lab) -> dict[str, str]:
    """Return the variables that the server needs on a node: where impi is."""
    return python_start(lab.access.environment["server"])


def random_key() -> int:
    """Return a cell's key: below 2^63, of 19 digits, since a short secret could occur by chance."""
    return secrets.randbelow((1 << 63) - _LEAST_KEY) + _LEAST_KEY


def authentication(setting: str | None, number: int, *, last: bool) -> dict[str, str]:
    """Return the variables of the server or a client for ``auth=`` of a variant.

    ``number``: the cell's key and secret; ``last``: for the last client, which may get another.
    """
    none, key = {"IMPI_AUTH_NONE": "1"}, {_KEY: str(number)}
    match setting:
        case "key":
            return key
        case "both":
            return none | key
        case "wrong":
            return {_KEY: str(number ^ 1)} if last else key
        case "apart":
            return none if last else key
        case "challenge" | "tls":
            secret = {_SECRET: str(number)}
            return secret if setting == "tls" else none | secret

    return none


def methods_of(setting: str | None) -> tuple[str, ...]:
    """Return the option for ``auth=`` of a variant: IMPI's own methods, unless it asks for impi's.

    Without it a client of ours sends no key in clear.
    """
    return () if setting in (None, "challenge", "tls") else ("-auth", "1,0")


def native_options(vendors: Sequence[str]) -> list[str]:
    """Return options that our clients need beside clients of another implementation of IMPI."""

    quirks = [
        word
        for vendor in vendors
        for word in manifest(vendor).peer_quirks.split(",")
        if word
    ]
    if all(manifest(vendor).kind == "backed" for vendor in vendors):
        return []

    # Others know a host by its address: a host for each client has one of its own.
    told = ["--peer-quirks", ",".join(dict.fromkeys(quirks))] if quirks else []

    return ["--hosts", NATIVE_HOSTS, *told]


def library_cache(lab: Lab, node: str) -> str:
    """Return the folder where impirun on a node keeps our libraries for compiled programs.

    Labs on loopback share the user's own: to compile them anew in each would take longer than most
    programs do.
    """
    mine = os.environ.get("IMPI_CACHE") or str(Path.home() / ".cache/impi")
    if lab.access.backend == ON_LOOPBACK and re.fullmatch(
        r"/[\w./@+-]*", mine, re.ASCII
    ):
        return mine

    return f"{lab.access.environment[node].get('HOME', '')}/.cache/impi"


def twin_path(folder: str, abi: str, program: str) -> str:
    """Return where a node has a case's program in C, compiled for an ABI."""
    return f"{folder}/{abi}/{program.removesuffix('.py')}"


def program_argv(
    lab: Lab, client: int, folder: str, program: str, abi: str = ""
) -> list[str]:
    """Return the command of a client's procs for a case: in Python; for an ABI or a native in C."""
    if abi:
        return [twin_path(folder, abi, program)]

    if manifest(lab.access.vendors[client]).kind == "native":
        return [f"{NATIVE_PROGRAMS}/{program.removesuffix('.py')}"]

    return [lab.access.python, f"{folder}/{program}"]


def client_argv(
    lab: Lab, client: int, hostport: str, *, chooses: bool = False
) -> list[str]:
    """Return the command of impirun for one client, on its first node, without its procs' program.

    ``chooses``: impirun finds the address of its node itself.
    """

    shape, nodes = lab.access.topology.clients[client], lab.clients[client]
    vendor = lab.access.vendors[client]

    places = ",".join(f"{node.name}:{shape.procs_per_node}" for node in nodes)
    if manifest(vendor).kind == "native":
        return [
            "/bin/sh",
            NATIVE_CLIENT,
            node_prefix(vendor),
            str(client),
            hostport,
            nodes[0].address,
            places,
        ]

    argv = [
        lab.access.python,
        "-m",
        "impi.cli.impirun",
        "-client",
        str(client),
        hostport,
    ]

    argv += ["-np", str(shape.np)]
    if not nodes:
        return [*argv, "--hosts", NATIVE_HOSTS]  # a remote party of ours

    argv += ["--vendor", vendor, *native_options(lab.access.vendors)]
    if shape.nodes > 1:
        return [*argv, "--nodes", places]

    # A remote party may be on another machine: by default the address is this machine's.
    if chooses or (
        any(map(is_remote, lab.access.vendors)) and nodes[0].address.startswith("127.")
    ):
        return argv

    return [*argv, "--interface", nodes[0].address]


def run_job(
    lab: Lab,
    program: Path,
    *arguments: str,
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
) -> JobEnded:
    """Run a local Python program as a job of all clients; first copy it to every node.

    ``env``: variables for all procs. No authentication, as a lab has its own network.

    Raises:
        LabError: the program cannot be read, the server does not come up, or a party is remote.
    """

    if not all(lab.clients):
        raise LabError(
            "this job is for clients on nodes of the lab, and one party is remote"
        )

    try:
        text = program.read_bytes()
    except OSError as error:
        raise LabError(
            f"the program {program} cannot be read: {error.strerror}"
        ) from error

    more = {"IMPI_AUTH_NONE": "1", **(env or {})}
    server = lab.server.start(server_argv(lab), env={**server_environment(lab), **more})

    clients: list[RunningCommand] = []
    try:
        hostport = _listening(server)
        for client, nodes in enumerate(lab.clients):
            for node in nodes:
                node.write(program.name, text)

            environment = lab.access.environment[nodes[0].name]
            home = environment.get("HOME", ".")
            argv = [
                *client_argv(lab, client, hostport),
                lab.access.python,
                f"{home}/{program.name}",
                *arguments,
            ]
            clients.append(nodes[0].start(argv, env={**CROWDED, **environment, **more}))

        return _wait(server, clients, timeout_s)
    finally:
        for remote in (*clients, server):
            if remote.poll() is None:
                remote.stop()


def _listening(server: RunningCommand) -> str:
    deadline = time.monotonic() + _SERVER_S
    while b"\n" not in server.stdout():
        if server.poll() is not None or time.monotonic() > deadline:
            said = server.stop().stderr.decode("utf-8", "replace").strip()
            raise LabError(
                f"the server did not come up: {said or 'it printed nothing'}"
            )

        time.sleep(_TURN_S)

    return server.stdout().partition(b"\n")[0].decode("utf-8", "replace").strip()


def _wait(
    server: RunningCommand, clients: Sequence[RunningCommand], timeout_s: float
) -> JobEnded:
    deadline = time.monotonic() + timeout_s
    ended = [client.wait(max(0.0, deadline - time.monotonic())) for client in clients]
    return JobEnded(server=server.wait(_GRACE_S), clients=tuple(ended))
