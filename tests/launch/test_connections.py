"""Each row of SECURITY.md's table of connections is true: somebody sits in the middle of each."""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts_world import job_of_hosts
from middle import IDLE_S, Middle, replay
from server_thread import DEADLINE_S, ServerThread

from impi.base.errors import ImpiError, JobError, PeerError, UsageError
from impi.base.manifests import manifest
from impi.launch.client import hosts, outer
from impi.launch.client.control import Control
from impi.launch.relay.near_end import NearEnd
from impi.launch.start.launchers import HydraLauncher, PrteLauncher, PureLauncher
from impi.launch.start.nodes import parse
from impi.launch.start.prefix import Installation
from impi.launch.start.program import Program, base_environment
from impi.protocol.job import Host
from impi.protocol.startup.auth import names_key, relay_key
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.encrypted import Stream
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.wire import addresses
from impi.rank.engine.channels import mesh
from impi.rank.engine.job import fetched_input, named, visitors
from impi.rank.vendors import presence
from impi.rank.vendors.invitation import Invitation
from impi.rank.vendors.meeting import Door, ask, open_control

ROOT = Path(__file__).parents[2]
TEXT = "correct horse battery"
SECRET = {"IMPI_AUTH_SECRET": TEXT}
KEY = b"the key of this job: 32 octets.."
PROBE = b"what one end says once it is in"
SHORT_S = 2.0
ATTACKS = ("drop", "plain")
HELLO_OF_TLS = re.compile(rb"\x16\x03.{3}\x01\x00", re.DOTALL)
"""A handshake record with a ClientHello. Two octets alone may be part of a nonce."""


def rows() -> dict[str, tuple[str, str]]:
    """Return of each connection of the table: member key in clear, and with ``--tls``."""
    text = (ROOT / "SECURITY.md").read_text()
    table = text.partition("| connection | who proves what |")[2].partition("\n\n")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]
    return {connection: (clear, tls) for connection, _, clear, tls in cells}


class Row:
    """Both ends of one connection.

    The accepting end stands from the beginning. ``call`` is the connecting end, and raises what
    its user gets; ``met`` says whether the accepting end has let it in.
    """

    keys: tuple[bytes, ...] = (TEXT.encode(),)
    """The octets that make its reader a member."""
    probe = PROBE
    where: tuple[str, int]
    names = ""
    """By what the other end is named where somebody is between: an expression."""
    always = False
    """Whether it has TLS without ``--tls``, too."""
    tasks: tuple[int, ...] = ()

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        self.stack, self.tls = stack, tls

    def call(self, where: tuple[str, int]) -> None:
        raise NotImplementedError

    def met(self) -> bool:
        raise NotImplementedError


def text(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"


class ToServer(Row):
    probe = (0x1122334455667788).to_bytes(8, "big")
    names = r"the server at 127|what listens at|Server disconnected"

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.server = ServerThread(1, environ=SECRET, tls=tls, verbose=True)
        self.where = (self.server.host, self.server.port)
        stack.callback(self._end)

    def call(self, where: tuple[str, int]) -> None:
        here = addresses.from_text("127.0.0.1")
        proc = ProcFacts(here, int.from_bytes(self.probe, "big"))
        with self.server.client(0) as client:
            client._host, client._port, client._where = *where, text(where)
            client.join(DEADLINE_S)
            client.negotiate(
                ClientFacts(hosts=(HostFacts(here, 5000, (proc,)),)), DEADLINE_S
            )
            client.finish()

    def met(self) -> bool:
        return "client 0 has joined" in self.server.said

    def _end(self) -> None:
        if self.server.code is None and not self.met():
            with self.server.client(0) as client:
                client.join(DEADLINE_S)
        self.server.join()


class HostToHost(Row):
    keys = (KEY,)
    names = "host 0"

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.trust = Trust(KEY, (0, 1), (0, 1) if tls else ())
        self.listener = mesh.listen("127.0.0.1")
        self.where = self.listener.getsockname()
        self.heard = b""
        self.said: list[str] = []
        self._thread: threading.Thread | None = None
        stack.callback(self._end)

    def job(self, port: int) -> Any:
        here = addresses.from_text("127.0.0.1")
        return job_of_hosts(
            [
                Host(index=i, client=i, ipv6=here, port=port + i, procs=())
                for i in range(2)
            ]
        )

    def accept(self, port: int) -> None:
        with suppress(JobError):
            sock = mesh.connect_hosts(
                self.job(port), 0, self.listener, "127.0.0.1", self.trust
            )[1]
            sock.setblocking(True)
            room = bytearray(len(PROBE))
            sock.recv_into(memoryview(room))
            self.heard = bytes(room)
            sock.close()

    def call(self, where: tuple[str, int]) -> None:
        self._thread = threading.Thread(target=self.accept, args=(where[1],))
        self._thread.start()
        mine = socket.create_server(("127.0.0.1", 0))
        sock = mesh.connect_hosts(self.job(where[1]), 1, mine, "127.0.0.1", self.trust)[
            0
        ]
        sock.setblocking(True)
        sock.send(PROBE)
        self._thread.join()
        sock.close()

    def met(self) -> bool:
        return self.heard == PROBE

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self.listener.close()


class Looped(Row):
    """An impirun's loop in a thread."""

    names = "impirun at|is not the impirun"
    served: socket.socket | None = None

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.selector = selectors.DefaultSelector()
        self.warnings: list[str] = []
        self.control = Control(
            "127.0.0.1",
            1,
            self.selector,
            self.warnings.append,
            feed=self.feed,
            tasks=self.tasks,
            tls=tls,
        )
        self.keys = (bytes.fromhex(self.control.token), KEY)
        host, _, port = self.control.endpoint.rpartition(":")
        self.where = (host, int(port))
        self.over = threading.Event()
        self.inside = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        stack.callback(self._end)

    def run(self) -> None:
        while not self.over.is_set():
            for key, _ in self.selector.select(0.02):
                key.data()
            self.control.entrance.turn()
            if self.look():
                self.inside.set()

    def look(self) -> bool:
        """Whether the connecting end is in; called in the loop."""
        return False

    def feed(self, sock: socket.socket, stream: Stream | None) -> None:
        self.inside.set()
        sock.setblocking(True)
        sock.sendall(stream.send(PROBE) + stream.close() if stream else PROBE)
        sock.close()

    def met(self) -> bool:
        return self.inside.wait(IDLE_S)

    def _end(self) -> None:
        self.over.set()
        self.thread.join()
        self.control.close()
        self.selector.close()


class ProcsJob(Looped):
    answered = False

    def look(self) -> bool:
        if self.control.rank0 is not None and not self.answered:
            self.answered = True
            trust = Trust(KEY, (0,)).told(strict=False, token=self.control.token)
            self.control.answer({"probe": PROBE.decode(), "trust": trust})
        return self.answered

    def call(self, where: tuple[str, int]) -> None:
        with open_control(text(where), self.control.token, tls=self.tls) as sock:
            answer = ask(sock, {"role": "rank0", "procs": [{"pid": 1}]})
        assert Trust.of(token=self.control.token, **answer["trust"]).key == KEY


class ProcsEnd(Looped):
    probe = b'"present"'
    names = "impirun does not answer at"

    def look(self) -> bool:
        return any(connection.rank == 0 for connection in self.control.entrance)

    def call(self, where: tuple[str, int]) -> None:
        join: Any = {
            "control": text(where),
            "token": self.control.token,
            "rank": 0,
            "tls": self.tls,
        }
        presence.announce(join)
        self.stack.callback(presence._leave_to_parent)


class Input(Looped):
    names = "no standard input: "

    def call(self, where: tuple[str, int]) -> None:
        program = (
            "import sys; from impi.rank.engine.job import fetched_input, launcher_variables\n"
            "from impi.rank.doors import introduce; introduce.AGAIN_S = 0.3\n"
            "fetched_input.fetch(); print(sys.stdin.read())"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "IMPI_INPUT": fetched_input.told(
                    text(where), self.control.token, tls=self.tls
                ),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        if ended.stdout.strip() != PROBE.decode():
            raise JobError(ended.stderr)


class ToTask(Looped):
    always = True
    tasks = (1,)
    names = "task 0 at"

    def look(self) -> bool:
        for task in self.control.starters.values():
            with suppress(OSError):
                task.sock.sendall(task.stream.send(PROBE))
            task.close()
        return bool(self.control.starters)

    def call(self, where: tuple[str, int]) -> None:
        link = outer.join_task_0(text(where), bytes.fromhex(self.control.token), 1)
        with link.sock:
            assert link.stream.receive(link.sock.recv(100))[0] == PROBE


class ProcToProc(Row):
    token = "ab" * 16
    keys = (bytes.fromhex(token),)
    names = "proc 0"

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.door = stack.enter_context(Door("127.0.0.1", 4))
        self.where = tuple(self.door.address["tcp"])
        self.heard = b""
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()
        stack.callback(self.thread.join)

    def accept(self) -> None:
        with suppress(ImpiError):
            links = self.door.meet(0, [{}, {}], self.token, 2 * SHORT_S, tls=self.tls)
            links[1].setblocking(True)
            room = bytearray(len(PROBE))
            links[1].recv_into(memoryview(room))
            self.heard = bytes(room)
            links[1].close()

    def call(self, where: tuple[str, int]) -> None:
        peers = [{"node": "another", "unix": None, "tcp": list(where)}, {}]
        with Door("127.0.0.1", 4) as door:
            sock = door.meet(1, peers, self.token, SHORT_S, tls=self.tls)[0]
        sock.setblocking(True)
        sock.send(PROBE)
        self.thread.join()
        sock.close()

    def met(self) -> bool:
        return self.heard == PROBE


class ToRelay(Row):
    keys = (TEXT.encode(), relay_key(SECRET))
    probe = b'"endpoints"'
    names = "relay at|is not a relay"
    always = True

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        command = [
            sys.executable,
            "-m",
            "impi.cli.impirun",
            "-relay",
            "-v",
            "--interface",
            "127.0.0.1",
        ]
        self.relay = stack.enter_context(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | SECRET,
            )
        )
        stack.callback(self.relay.kill)
        assert self.relay.stdout is not None
        host, _, port = self.relay.stdout.readline().strip().rpartition(":")
        self.where = (host, int(port))

    def call(self, where: tuple[str, int]) -> None:
        NearEnd(text(where), relay_key(SECRET), 1, 0.0).close()

    def met(self) -> bool:
        self.relay.terminate()
        assert self.relay.stderr is not None
        return "has 1 endpoints" in self.relay.stderr.read()


class Names(Row):
    port = "impi:127.0.0.1:1:" + "cd" * 16
    keys = (TEXT.encode(), names_key(SECRET), bytes.fromhex("cd" * 16))
    probe = b"a name that is published"
    names = "what listens at|no server of names"

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.server = ServerThread(1, environ=SECRET, tls=tls)
        self.where = (self.server.host, self.server.port)
        stack.callback(self._end)

    def call(self, where: tuple[str, int]) -> None:
        self.ask(where, "publish")

    def ask(self, where: tuple[str, int], act: str) -> Any:
        return named.ask(
            text(where),
            names_key(SECRET),
            act,
            self.probe.decode(),
            self.port if act == "publish" else "",
        )

    def met(self) -> bool:
        return self.ask(self.where, "lookup").port == self.port

    def _end(self) -> None:
        with self.server.client(0) as client:
            client.join(DEADLINE_S)
        self.server.join()


class ToPort(Row):
    secret = bytes.fromhex("ef" * 16)
    keys: tuple[bytes, ...] = (secret,)
    names = "port 127|what listens at"

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        super().__init__(stack, tls=tls)
        self.port = visitors.Port(
            "", stack.enter_context(mesh.listen("127.0.0.1")), self.secret
        )
        self.where = self.port.listener.getsockname()
        self.heard: Any = None
        self.over = False
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()
        stack.callback(self._end)

    def accept(self) -> None:
        with suppress(ImpiError), visitors.answer(self.port, self.look) as sock:
            self.heard = visitors.talk(sock, self.secret, {"procs": []})
            self.keys = (self.secret, bytes.fromhex(self.heard["key"]))

    def look(self) -> None:
        if self.over:
            raise JobError("over")

    def call(self, where: tuple[str, int]) -> None:
        engine: Any = SimpleNamespace(
            job=SimpleNamespace(is_ours=True),
            other_jobs=SimpleNamespace(encrypted=self.tls),
        )
        if self.tls and (why := visitors.refusal(engine, {"ours": True})):
            raise UsageError(why)
        with visitors.call(f"impi:{text(where)}:{self.secret.hex()}") as sock:
            met = visitors.talk(
                sock, self.secret, {"procs": [], "said": PROBE.decode()}
            )
        self.thread.join()
        assert self.keys[1:] == (bytes.fromhex(met["key"]),)

    def met(self) -> bool:
        self._end()
        return self.heard is not None

    def _end(self) -> None:
        self.over = True
        self.thread.join()


RIGS: dict[str, type[Row]] = {
    "client to server": ToServer,
    "host to host, host to agent": HostToHost,
    "proc to its impirun: the job, and its key": ProcsJob,
    "proc to its impirun: its process id, how it ends": ProcsEnd,
    "proc to proc of a client, `pure`, and to its agent": ProcToProc,
    "standard input of rank 0": Input,
    "task 0 to tasks of `--launcher outer`": ToTask,
    "near end to relay": ToRelay,
    "question for a published name": Names,
    "root to the port of another job, and to children of Spawn": ToPort,
}
OTHERS = {
    "impirun to a starter on another node": "test_a_starter_on_another_node_is_behind_ssh",
    "mpiexec to its daemons, proc to PMI": "test_what_an_mpiexec_carries",
}
"""Connections of programs that are not ours: what we give them is looked at."""


SERVER, HOSTS, INPUT = "client to server", "host to host", "standard input of rank 0"
IMPIRUN, PROCS, TASKS = "proc to its impirun", "proc to proc", "task 0"
RELAY, NAMES, PORTS = "near end", "question for", "root to the port"
PMI, STARTER = "mpiexec to its daemons, proc to PMI", "impirun to a starter"
MADE_BY: dict[str, Sequence[str]] = {
    "impi/base/remote/ssh.py": [STARTER],
    "impi/launch/client/between.py": [TASKS],
    "impi/launch/client/control.py": [IMPIRUN, INPUT, TASKS],
    "impi/launch/client/outer.py": [PMI],
    "impi/launch/client/rendezvous.py": [SERVER],
    "impi/launch/front.py": [SERVER, NAMES, RELAY],
    "impi/launch/pmi/door.py": [PMI],
    "impi/launch/relay/far_end.py": [RELAY, HOSTS],
    "impi/launch/relay/near_end.py": [RELAY, HOSTS],
    "impi/launch/server/loop.py": [SERVER, NAMES],
    "impi/rank/agent/serve.py": [HOSTS, PROCS],
    "impi/rank/api/comms/dynamic.py": [PORTS],
    "impi/rank/engine/channels/mesh.py": [HOSTS],
    "impi/rank/engine/job/bootstrap.py": [HOSTS],
    "impi/rank/engine/job/fetched_input.py": [INPUT],
    "impi/rank/engine/job/named.py": [NAMES],
    "impi/rank/engine/job/visitors.py": [PORTS],
    "impi/rank/vendors/keeper.py": [PMI],
    "impi/rank/vendors/meeting.py": [IMPIRUN, PROCS],
    "impi/rank/vendors/presence.py": [IMPIRUN],
}
"""The beginnings of the rows whose connections a module makes or takes."""
OF_NO_ROW = {
    "impi/base/remote/commands.py": "a pair inside a machine",
    "impi/base/remote/forkserver.py": "asks the kernel for a way, and sends nothing",
    "impi/base/remote/unacknowledged.py": "to the kernel",
    "impi/launch/interrupts.py": "a pair inside a process",
    "impi/launch/start/nodes.py": "asks the kernel for an address, and sends nothing",
    "impi/rank/doors/entrance.py": "takes the listeners of others",
    "impi/rank/doors/reception.py": "takes the listeners of others",
    "impi/rank/vendors/dial.py": "called by others",
    "impi/rank/vendors/interfaces.py": "asks the kernel for a way, and sends nothing",
}
MAKE = re.compile(
    r"\b(socket|create_connection|create_server|socketpair|sock_connect|open_connection"
    r"|listen|listening|dial)\(|\b(?:sock|client|socket|dial)\.connect\("
    r"|vendors\.dial import .*\bconnect\b"
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that are kept waiting give up soon."""
    for name, seconds in {
        "impi.rank.doors.introduce.AGAIN_S": 0.3,
        "impi.launch.client.rendezvous.AGAIN_S": 0.3,
        "impi.launch.client.rendezvous._ANSWER_S": SHORT_S,
        "impi.launch.relay.near_end._ANSWER_S": SHORT_S,
        "impi.rank.engine.job.named._TIME_S": SHORT_S,
        "impi.rank.engine.channels.mesh.DANCE_S": 2 * SHORT_S,
        "impi.rank.vendors.meeting._CONNECT_S": SHORT_S,
        "impi.rank.engine.job.visitors._CONNECT_S": SHORT_S,
    }.items():
        monkeypatch.setattr(name, seconds)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def crossed(key: bytes, octets: bytes) -> bool:
    return key in octets or key.hex().encode() in octets.lower()


def test_each_row_has_a_rig() -> None:
    assert sorted(rows()) == sorted([*RIGS, *OTHERS])
    assert all(test in globals() for test in OTHERS.values())


def test_each_connection_in_the_code_has_a_row() -> None:
    """If you add a connection to a job, say here which row it has, or why it needs none."""
    rooms = [
        ROOT / "impi" / room for room in ("base", "cabi", "launch", "protocol", "rank")
    ]
    found = {
        str(file.relative_to(ROOT))
        for room in rooms
        for file in room.rglob("*.py")
        if any(
            MAKE.search(line) and not line.lstrip().startswith("def ")
            for line in file.read_text().splitlines()
        )
    }
    assert found == {*MADE_BY, *OF_NO_ROW}
    told = [begin for begins in MADE_BY.values() for begin in begins]
    for begin in told:
        assert [row for row in rows() if row.startswith(begin)], begin
    for row in rows():
        assert [begin for begin in told if row.startswith(begin)], row


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("name", RIGS)
def test_what_crosses_is_what_the_table_says(
    name: str, tls: bool, stack: ExitStack
) -> None:
    clear, with_tls = rows()[name]
    row = RIGS[name](stack, tls=tls)
    middle = stack.enter_context(closing(Middle(row.where, "forward", tls=tls)))
    encrypted = row.always or (tls and with_tls == "TLS")
    if tls and with_tls == "refused":
        with pytest.raises(UsageError, match="--tls"):
            row.call(middle.where)
        assert not middle.octets
        return
    row.call(middle.where)
    assert row.met()
    assert clear.startswith("none")
    assert [key for key in row.keys if crossed(key, middle.octets)] == []
    assert (row.probe in middle.octets) != (encrypted or RIGS[name] is Names)
    assert bool(HELLO_OF_TLS.search(middle.octets)) == encrypted
    assert row.always == (with_tls == "TLS, always")


@pytest.mark.proof
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("act", ATTACKS)
@pytest.mark.parametrize("name", RIGS)
def test_who_meddles_gets_nothing_and_is_named(
    name: str, act: str, tls: bool, stack: ExitStack
) -> None:
    _, with_tls = rows()[name]
    if tls and with_tls != "TLS":
        return  # it is the same as without
    row = RIGS[name](stack, tls=tls)
    middle = stack.enter_context(closing(Middle(row.where, act, tls=tls or row.always)))
    with pytest.raises(ImpiError, match=row.names):
        row.call(middle.where)
    assert [key for key in row.keys if crossed(key, middle.octets)] == []
    assert row.probe not in middle.octets


@pytest.mark.proof
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("name", RIGS)
def test_who_replays_gets_nothing(name: str, tls: bool, stack: ExitStack) -> None:
    _, with_tls = rows()[name]
    if tls and with_tls != "TLS":
        return
    with ExitStack() as earlier:
        row = RIGS[name](earlier, tls=tls)
        middle = earlier.enter_context(closing(Middle(row.where, "forward", tls=tls)))
        row.call(middle.where)
        said = middle.said[0]
    again = RIGS[name](stack, tls=tls)
    heard = replay(again.where, said)
    assert [key for key in again.keys if crossed(key, heard)] == []
    with suppress(ImpiError):
        assert not again.met()


def program(nodes: str, kept: str = "") -> Program:
    join: Invitation = {
        "control": "127.0.0.1:1",
        "token": "ab" * 16,
        "names": ["127.0.0.1:2", "cd" * 32],
        "vendor": "pure",
        "server": "127.0.0.1",
    }
    return Program(
        argv=("/bin/prog",),
        nodes=parse(nodes),
        environ=base_environment({}),
        join=join,
        interface="",
        kept=kept,
    )


def test_a_starter_on_another_node_is_behind_ssh() -> None:
    clear, with_tls = rows()["impirun to a starter on another node"]
    [command] = PureLauncher().commands(program("elsewhere:1"))
    assert command.argv[0] == "ssh" == with_tls
    assert "BatchMode=yes" in command.argv
    assert "ab" * 16 not in " ".join(command.argv)
    assert "ab" * 16 in json.dumps(command.spec), "which goes through ssh"
    assert clear == "none: inside ssh"


def test_what_an_mpiexec_carries() -> None:
    clear, with_tls = rows()["mpiexec to its daemons, proc to PMI"]
    installed = Installation(
        mpiexec="/m/bin/mpiexec", prefix=Path("/m"), library="/m/lib/libmpi.so"
    )
    far = program("far1:2,far2:1", kept="a name")
    for launcher in (
        HydraLauncher(manifest("mpich"), installed),
        PrteLauncher(manifest("openmpi"), installed),
    ):
        [command] = launcher.commands(far)
        assert json.loads(command.spec["env"]["IMPI_JOIN"])["kept"] == "a name"
        assert [key for key in ("ab" * 16, "cd" * 32) if key in str(command)] == []
    watches = hosts.watches(far)
    assert [watch.argv[0] for watch in watches] == ["ssh", "ssh"]
    for watch in watches:
        assert "ab" * 16 not in " ".join(watch.argv)
        assert "ab" * 16 in json.dumps(watch.spec), "which goes through ssh"
    assert clear == "none: a keeper on each node has the token, by ssh"
    assert with_tls == "refused", "tests/launch/client/test_planning.py"


def test_an_outer_manager_carries_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """PMI has it veiled by the secret; who has another one does not learn it."""
    carried: dict[str, str] = {}
    monkeypatch.setattr(
        outer.Tasks, "__init__", lambda self, key: setattr(self, "_key", key)
    )
    monkeypatch.setattr(
        outer.Tasks, "_put", lambda _, name, value: carried.update({name: value})
    )
    monkeypatch.setattr(outer.Tasks, "_get", lambda _, name: carried[name])
    monkeypatch.setattr(outer.Tasks, "_ask", lambda _, __: {})
    monkeypatch.setattr(
        outer.Tasks, "_client", SimpleNamespace(fence=bytes, leave=bytes), raising=False
    )
    monkeypatch.setattr(outer.Tasks, "_sock", None, raising=False)
    token = "ab" * 16
    make: Any = outer.Tasks
    make(names_key(SECRET)).tell("127.0.0.1:1", token)
    assert "127.0.0.1:1" in str(carried)
    assert token not in str(carried)
    assert make(names_key(SECRET)).told() == ("127.0.0.1:1", bytes.fromhex(token))
    assert make(names_key({"IMPI_AUTH_SECRET": "another secret, as long"})).told()[
        1
    ] != bytes.fromhex(token)
    carried["impi-door"] = "127.0.0.1:1/" + token
    with pytest.raises(PeerError, match="its impi has another version"):
        make(names_key(SECRET)).told()
