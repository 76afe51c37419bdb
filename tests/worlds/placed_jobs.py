"""Jobs on labs whose nodes somebody places: all ranks are up and wait for ever."""

from __future__ import annotations

import time
from pathlib import Path

from impi.lab.nodes.interface import Lab, RunningCommand
from impi.lab.nodes.job_commands import client_argv, server_argv, server_environment

UP_S = 60.0
WAITS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
print("up", world.rank, flush=True)
world.recv(source=world.rank)
"""


def started(lab: Lab, program: Path) -> list[RunningCommand]:
    """Start the server and both clients; return them once all four ranks have printed a line."""
    env = {"IMPI_AUTH_NONE": "1"}
    server = lab.server.start(server_argv(lab), env={**server_environment(lab), **env})
    await_lines([server], 1)
    hostport = server.stdout().decode().split()[0]
    clients = []
    for client, (node,) in enumerate(lab.clients):
        node.write(program.name, program.read_bytes())
        environment = lab.access.environment[node.name]
        argv = [
            *client_argv(lab, client, hostport),
            lab.access.python,
            f"{environment['HOME']}/{program.name}",
        ]
        clients.append(node.start(argv, env={**environment, **env}))
    await_lines(clients, 4)
    return [server, *clients]


def await_lines(commands: list[RunningCommand], count: int) -> None:
    end = time.monotonic() + UP_S
    while sum(command.stdout().count(b"\n") for command in commands) < count:
        assert time.monotonic() < end, [command.stdout() for command in commands]
        time.sleep(0.05)
