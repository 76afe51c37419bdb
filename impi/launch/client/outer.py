"""A client whose procs an outer process manager has placed, such as srun (``--launcher outer``).

How it works: the manager starts impirun once for each proc, as a *task*. The tasks find each other
by PMI, in two fences: each puts the name of its node, and task 0 then puts where its control socket
is. Task 0 is the client, as in any other job. Every further task connects to that socket, proves
that it knows the token, and becomes a starter (:mod:`impi.base.remote.starter`) that task 0 feeds.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import Final

from impi.base.errors import ImpiError, StartupError, UsageError, refuse
from impi.base.remote import starter
from impi.launch.pmi.client import Client
from impi.launch.start.nodes import HERE, Node
from impi.launch.start.program import Command, Program, base_environment, command_on
from impi.protocol.options import ClientOptions
from impi.rank.engine.job import launcher_variables
from impi.rank.engine.job.fetched_input import VARIABLE as INPUT
from impi.rank.vendors.meeting import open_control

_CHUNK: Final = 1 << 16
_NODE: Final = "impi-node-"
_DOOR: Final = "impi-door"
_NOWHERE: Final = "-"  # in place of the control socket: task 0 has failed, and has said why
_SLURM: Final = "SLURM_JOB_ID"  # Slurm speaks PMI-2; every other manager of PMI speaks PMI-1


def is_further(environ: Mapping[str, str]) -> bool:
    """Return whether this process is a task that serves task 0."""
    return environ.get("PMI_RANK", "0") != "0"


class Tasks:
    """What one task learns of the others; task 0 must call :meth:`tell` or :meth:`close`.

    Raises:
        UsageError: no process manager that speaks PMI has started this process.
        StartupError: it has ended.
        PeerError: it does not keep to PMI.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        numbers = [environ.get(name, "") for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE")]
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            raise UsageError(
                "--launcher outer needs a process manager that speaks PMI, and PMI_FD, PMI_RANK and PMI_SIZE are not "
                "set: start impirun by srun --mpi=pmi2 or by MPICH's mpiexec"
            )
        descriptor, self.rank, self.size = map(int, numbers)
        version = 2 if environ.get(_SLURM) else 1
        self._client = Client(version, self.rank, environ.get("PMI_JOBID", ""))
        try:
            self._sock: socket.socket | None = socket.socket(fileno=descriptor)
        except OSError as error:
            raise UsageError(f"PMI_FD is {descriptor}, which is no socket here: {error.strerror}") from None
        self._ask(self._client.begin())
        self._ask(self._client.enter())
        self._job = self._ask(self._client.named())["kvsname" if version == 1 else "jobid"]
        self._put(f"{_NODE}{self.rank}", socket.gethostname())
        self._ask(self._client.fence())
        self.nodes: tuple[str, ...] = ()
        if self.rank == 0:
            self.nodes = tuple(self._get(f"{_NODE}{rank}") for rank in range(self.size))

    @property
    def placed(self) -> tuple[Node, ...]:
        """The nodes in the order of ranks; one that comes again after others is there again."""
        return tuple(Node(name, len(list(ranks))) for name, ranks in groupby(self.nodes))

    def tell(self, door: str) -> None:
        self._put(_DOOR, door)
        self._ask(self._client.fence())
        self._leave()

    def told(self) -> str:
        self._ask(self._client.fence())
        door = self._get(_DOOR)
        self._leave()
        return "" if door == _NOWHERE else door

    def close(self) -> None:
        """Let the other tasks end, unless they have been told where to come. Idempotent."""
        if self._sock is not None and self.rank == 0:
            with suppress(ImpiError):
                self.tell(_NOWHERE)

    def _leave(self) -> None:
        self._ask(self._client.leave())
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _put(self, key: str, value: str) -> None:
        # PMI splits at blanks, which neither a name nor an address has.
        self._ask(self._client.put(self._job, key, value))

    def _get(self, key: str) -> str:
        return self._ask(self._client.get(self._job, key))["value"]

    def _ask(self, octets: bytes) -> Mapping[str, str]:
        sock, self._sock = self._sock, None  # back after an answer; without one there will be none
        if sock is None:
            raise StartupError("the process manager that started this impirun has been left")
        with ExitStack() as stack:
            stack.enter_context(sock)
            try:
                sock.sendall(octets)
                while (answer := self._client.read(data := sock.recv(_CHUNK))) is None:
                    if not data:
                        raise StartupError("the process manager that started this impirun has ended its connection")
            except OSError as error:
                raise StartupError(f"the process manager that started this impirun is gone: {error.strerror}") from None
            stack.pop_all()
        self._sock = sock
        return answer.fields


def check(options: ClientOptions, tasks: Tasks, *, library: bool) -> None:
    """Raise UsageError if an option does not fit procs that others have placed.

    Args:
        options: of the client.
        tasks: of the outer manager.
        library: whether the vendor has an MPI library.
    """
    placement = options.placement
    refuse(
        (
            library,
            (
                f"--launcher outer is for --vendor pure: procs of {placement.vendor} start by its mpiexec, or by "
                "srun in impirun -slurm"
            ),
        ),
        (
            placement.nodes or placement.hostfile,
            "--nodes and --hostfile place no procs of --launcher outer: the outer manager has done that",
        ),
        (
            placement.procs not in (None, tasks.size),
            f"-np {placement.procs} does not fit the {tasks.size} tasks of the outer manager: leave it out",
        ),
        (
            options.reach.hosts != "proc",
            f"--launcher outer needs a host for each proc: leave out --hosts {options.reach.hosts}",
        ),
    )


def serve(tasks: Tasks) -> None:
    """Be the starter of this task's proc until it has ended.

    Raises:
        JobError: task 0 cannot be reached.
    """
    endpoint, _, token = tasks.told().partition("/")
    if not endpoint:
        return
    sock = open_control(endpoint, token)
    sock.settimeout(None)
    sock.sendall(json.dumps({"role": "starter", "rank": tasks.rank}).encode() + b"\n")
    for stream in (0, 1):
        os.dup2(sock.fileno(), stream)
    sock.close()
    environ = base_environment(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    starter.main()


class OuterLauncher:
    """A starter for each proc: here that of task 0, elsewhere each further task."""

    library = ""

    def __init__(self, nodes: Sequence[str], tasks: Mapping[int, socket.socket]) -> None:
        self._nodes, self._tasks = nodes, tasks

    def commands(self, program: Program) -> list[Command]:
        commands = []
        for rank, node in enumerate(self._nodes):
            there = [other for other, name in enumerate(self._nodes) if name == node]
            own = {
                "IMPI_JOIN": program.invitation(rank=rank, size=program.size, node=node),
                **launcher_variables.of_client(rank, program.size, there.index(rank), len(there)),
            }
            if program.input and rank == 0:
                own[INPUT] = program.input
            titles = {rank: f"rank {rank} of this client"}
            where, task = (HERE, None) if rank == 0 else (node, self._tasks[rank])
            commands.append(
                command_on(
                    where,
                    program.argv,
                    program.environ,
                    {rank: own},
                    titles,
                    ranks=True,
                    task=task,
                    leaves=program.leaves,
                )
            )
        return commands
