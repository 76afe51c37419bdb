"""A client whose procs an outer process manager has placed, such as srun (``--launcher outer``).

How it works: the manager starts impirun once for each proc, as a *task*. The tasks find each other
by PMI, in two fences: each puts the name of its node, and task 0 then puts where its control socket
is, with its token, which is veiled by the secret of the job: PMI is not ours to encrypt. Task 0 is
the client, as in any other job. Every further task connects to that socket, proves that it knows
the token, and has a starter (:mod:`impi.base.remote.starter`) that task 0 feeds, over TLS.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import Final
from urllib.parse import quote, unquote

from impi.base.errors import (
    ImpiError,
    JobError,
    PeerError,
    StartupError,
    UsageError,
    refuse,
)
from impi.base.remote import processes, starter
from impi.launch.client.between import begin, keep
from impi.launch.pmi.client import Client
from impi.launch.start.nodes import HERE, Node
from impi.launch.start.program import (
    Command,
    Program,
    TaskLink,
    base_environment,
    command_on,
)
from impi.protocol.options import ClientOptions
from impi.protocol.proofs import NONCE_SIZE, prove, veil
from impi.protocol.startup.auth import names_key
from impi.rank.engine.job import launcher_variables
from impi.rank.engine.job.fetched_input import VARIABLE as INPUT
from impi.rank.vendors.meeting import open_control

_CHUNK: Final = 1 << 16
_NODE: Final = "impi-node-"
_DOOR: Final = "impi-door"
_VEIL: Final = "token of tasks"
# In place of the control socket: task 0 has failed, and has said why
_NOWHERE: Final = "-"
# Slurm speaks PMI-2; every other manager of PMI speaks PMI-1
_SLURM: Final = "SLURM_JOB_ID"


def is_further(environ: Mapping[str, str]) -> bool:
    """Return whether this process is a further task, which serves task 0."""
    return environ.get("PMI_RANK", "0") != "0"


class Tasks:
    """The tasks of an outer process manager, as one of them sees them by PMI.

    Task 0 must call :meth:`tell` or :meth:`close`, and further ones :meth:`told`.

    Args:
        environ: variables of this process, with PMI_FD, PMI_RANK and PMI_SIZE.

    Raises:
        UsageError: no process manager that speaks PMI has started this process.
        StartupError: the manager has ended.
        PeerError: the manager breaks PMI.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        numbers = [environ.get(name, "") for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE")]
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            raise UsageError(
                "--launcher outer needs a process manager that speaks PMI, and PMI_FD, PMI_RANK and PMI_SIZE are not "
                "set: start impirun by srun --mpi=pmi2 or by MPICH's mpiexec"
            )

        descriptor, self.rank, self.size = map(int, numbers)
        # Without a secret anybody can compute it, as everything else
        self._key = names_key(environ)
        version = 2 if environ.get(_SLURM) else 1

        self._client = Client(version, self.rank, environ.get("PMI_JOBID", ""))
        try:
            self._sock: socket.socket | None = socket.socket(fileno=descriptor)
        except OSError as error:
            raise UsageError(
                f"PMI_FD is {descriptor}, which is not a socket here: {error.strerror}"
            ) from None

        # All tasks make the same calls in the same order, since a fence waits for every one of
        # them. Values are visible after the fence that follows them.
        self._ask(self._client.begin())
        self._ask(self._client.enter())
        self._job = self._ask(self._client.named())[
            "kvsname" if version == 1 else "jobid"
        ]
        # A name may be any octets, blanks too.
        here = quote(socket.gethostname(), errors="surrogateescape")
        self._put(f"{_NODE}{self.rank}", here)
        self._ask(self._client.fence())

        self.nodes: tuple[str, ...] = ()
        if self.rank == 0:
            self.nodes = tuple(
                unquote(self._get(f"{_NODE}{rank}"), errors="surrogateescape")
                for rank in range(self.size)
            )

    @property
    def placed(self) -> tuple[Node, ...]:
        """Nodes in the order of ranks; one with ranks that are not adjacent comes several times."""
        return tuple(
            Node(name, len(list(ranks))) for name, ranks in groupby(self.nodes)
        )

    def tell(self, endpoint: str, token: str) -> None:
        """Tell the other tasks where to come, and the token (hex) that they have to know."""
        nonce = os.urandom(NONCE_SIZE)
        self._tell(
            f"{endpoint}/{nonce.hex()}/{self._veiled(nonce, bytes.fromhex(token)).hex()}"
        )

    def told(self) -> tuple[str, bytes]:
        """Return what task 0 has told; nothing: it has failed.

        Raises:
            PeerError: it speaks of something else.
        """

        self._ask(self._client.fence())
        # The fence before this waits until task 0 has put its door, or that it has failed.
        door = self._get(_DOOR)

        self._leave()
        if door == _NOWHERE:
            return "", b""

        try:
            endpoint, nonce, token = door.split("/")
            return endpoint, self._veiled(bytes.fromhex(nonce), bytes.fromhex(token))
        except ValueError:
            raise PeerError(
                f"task 0 of this client has reported {door!r}: its impi has another version"
            ) from None

    def _tell(self, door: str) -> None:
        self._put(_DOOR, door)
        self._ask(self._client.fence())
        self._leave()

    def _veiled(self, nonce: bytes, token: bytes) -> bytes:
        return veil(prove(self._key, _VEIL, nonce), _VEIL, token)

    def close(self) -> None:
        """Let the further tasks end, unless they know where to connect. Idempotent."""
        # Without a word of task 0 the further tasks would wait in their fence.
        if self._sock is not None and self.rank == 0:
            with suppress(ImpiError):
                self._tell(_NOWHERE)

    def _leave(self) -> None:
        self._ask(self._client.leave())
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _put(self, key: str, value: str) -> None:
        # PMI separates fields by blanks; names of nodes and endpoints have none.
        self._ask(self._client.put(self._job, key, value))

    def _get(self, key: str) -> str:
        return self._ask(self._client.get(self._job, key))["value"]

    def _ask(self, octets: bytes) -> Mapping[str, str]:
        # Put back after the answer: close() must not ask a manager that has failed here.
        sock, self._sock = self._sock, None
        if sock is None:
            raise StartupError(
                "the process manager that started this impirun has been left"
            )

        with ExitStack() as stack:
            stack.enter_context(sock)
            try:
                sock.sendall(octets)
                while (answer := self._client.read(data := sock.recv(_CHUNK))) is None:
                    if not data:
                        raise StartupError(
                            "the process manager that started this impirun has ended its connection"
                        )
            except OSError as error:
                raise StartupError(
                    f"the process manager that started this impirun is gone: {error.strerror}"
                ) from None

            stack.pop_all()

        self._sock = sock

        return answer.fields


def check(options: ClientOptions, tasks: Tasks, *, library: bool) -> None:
    """Check that the options fit procs that an outer manager has placed.

    Args:
        options: the client's options.
        tasks: the outer manager's tasks.
        library: whether the vendor has an MPI library.

    Raises:
        UsageError: an option does not fit.
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
    """Be the starter of this task's proc until the proc has ended.

    Raises:
        JobError: task 0 cannot be reached.
    """

    endpoint, token = tasks.told()
    if not endpoint:
        return

    link = join_task_0(endpoint, token, tasks.rank)
    environ = base_environment(os.environ)
    # The starter adds the proc's variables to its own, so those of the outer manager must be gone.
    os.environ.clear()
    os.environ.update(environ)
    (theirs_in, to), (output, theirs_out) = os.pipe(), os.pipe()
    processes.fork((theirs_in, theirs_out, 2), starter.main, b"impi-starter")
    # The starter alone may hold these ends: else keep() would never read the end of its output.
    os.close(theirs_in)
    os.close(theirs_out)
    keep(link, to, output)


def join_task_0(endpoint: str, token: bytes, rank: int) -> TaskLink:
    """Connect to task 0, as a task that starts the proc of that rank.

    Raises:
        JobError: it does not answer, or somebody is between.
    """
    with ExitStack() as stack:
        sock = stack.enter_context(open_control(endpoint, token.hex()))
        try:
            link = begin(sock, token)
            hello = json.dumps({"role": "starter", "rank": rank}).encode() + b"\n"
            sock.sendall(link.stream.send(hello))
        except (OSError, PeerError) as error:
            raise JobError(f"task 0 at {endpoint} has no TLS: {error}") from None

        stack.pop_all()

    return link


class OuterLauncher:
    """Makes a command for each proc: a starter here for rank 0, and a further task's for others."""

    library = ""

    def __init__(self, nodes: Sequence[str], tasks: Mapping[int, TaskLink]) -> None:
        self._nodes, self._tasks = nodes, tasks

    def commands(self, program: Program) -> list[Command]:
        commands = []
        for rank, node in enumerate(self._nodes):
            # Ranks of a node need not be adjacent: the outer manager has placed them.
            there = [other for other, name in enumerate(self._nodes) if name == node]

            own = {
                "IMPI_JOIN": program.invitation(
                    rank=rank, size=program.size, node=node
                ),
                **launcher_variables.of_client(
                    rank, program.size, there.index(rank), len(there)
                ),
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
