"""The SSH side, against a server in a thread."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sshd_thread import Sshd

from impi.base.errors import LaunchError
from impi.base.remote.ssh import Connection, Key, new_key

DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def keys() -> tuple[Key, Key]:
    return new_key(), new_key()


@pytest.fixture
def sshd(keys: tuple[Key, Key]) -> Iterator[Sshd]:
    server = Sshd(host_key=keys[0], user_key=keys[1])
    server.start()
    yield server
    server.stop()


def login(sshd: Sshd, **changes: object) -> Connection:
    arguments = {
        "port": sshd.port,
        "user": "tester",
        "key": sshd.user_key,
        "host_key": sshd.host_key.public,
        "python": sys.executable,
        "timeout_s": DEADLINE_S,
        **changes,
    }
    return Connection.open("127.0.0.1", **arguments)  # type: ignore[arg-type]


@pytest.fixture
def connection(sshd: Sshd) -> Iterator[Connection]:
    connection = login(sshd)
    yield connection
    connection.close()


def test_a_command_runs_under_a_starter(connection: Connection) -> None:
    argv = ["sh", "-c", 'echo "$0 $X"; echo bad >&2; exit 4', 'it\'s "quoted"; $HOME\n']
    outcome = connection.run(argv, env={"X": "a b"}, timeout_s=DEADLINE_S)
    assert outcome.code == 4
    assert outcome.stdout == b'it\'s "quoted"; $HOME\n a b\n'
    assert outcome.stderr == b"bad\n"


def test_several_commands_at_a_time(connection: Connection) -> None:
    waiting = [connection.start(["sh", "-c", f"echo {i}; sleep 0.1"]) for i in range(5)]
    assert [c.wait(DEADLINE_S).stdout for c in waiting] == [
        f"{i}\n".encode() for i in range(5)
    ]


def test_losing_the_connection_ends_the_command(
    sshd: Sshd, connection: Connection
) -> None:
    command = connection.start(["sh", "-c", "echo $$; sleep 600"], grace_s=0.2)
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    pid = int(command.stdout())
    sshd.drop()
    with pytest.raises(LaunchError, match="outcome of sh is unknown"):
        command.wait(DEADLINE_S)
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_files(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "below" / "it's"
    data = bytes(range(256)) * 3000
    connection.write(str(path), data, mode=0o640)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640
    assert connection.read(str(path)) == data
    assert connection.read(str(path), offset=len(data) - 5) == data[-5:]
    assert connection.read(str(path), offset=len(data)) == b""
    assert connection.read(str(tmp_path / "nothing")) is None
    assert (connection.read("/proc/self/status") or b"").startswith(b"Name:")


def test_a_file_that_cannot_be_written_is_an_error(connection: Connection) -> None:
    with pytest.raises(LaunchError, match="cannot be written"):
        connection.write("/proc/nothing/here", b"")


def test_short_commands(connection: Connection) -> None:
    assert connection.execute(["sh", "-c", "cat; exit 3"], stdin=b"in") == (3, b"in")
    with pytest.raises(LaunchError, match="did not end within"):
        connection.execute(["sleep", "20"], timeout_s=0.2)


def test_another_host_key_is_refused(sshd: Sshd) -> None:
    with pytest.raises(LaunchError, match="login failed"):
        login(sshd, host_key=new_key().public)


def test_another_user_key_is_refused(sshd: Sshd) -> None:
    with pytest.raises(LaunchError, match="login failed"):
        login(sshd, key=new_key())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def test_nobody_there_is_said_in_time(keys: tuple[Key, Key]) -> None:
    began = time.monotonic()
    with pytest.raises(LaunchError, match=r"no SSH login within 0\.3 s"):
        login(Sshd(host_key=keys[0], user_key=keys[1], port=free_port()), timeout_s=0.3)
    assert time.monotonic() - began < DEADLINE_S


def test_waits_for_a_server_that_is_not_up_yet(keys: tuple[Key, Key]) -> None:
    late = Sshd(host_key=keys[0], user_key=keys[1], port=free_port())
    timer = threading.Timer(0.3, late.start)
    timer.start()
    try:
        connection = login(late)
        assert connection.execute(["echo", "hi"]) == (0, b"hi\n")
        connection.close()
    finally:
        timer.join()
        late.stop()


def test_a_node_without_python_says_so(sshd: Sshd) -> None:
    connection = login(sshd, python="/no/such/python")
    try:
        with pytest.raises(
            LaunchError,
            match=r"outcome of true is unknown|closed|the fork server ended",
        ):
            connection.run(["true"], timeout_s=DEADLINE_S)
    finally:
        connection.close()


def test_datagrams(connection: Connection) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(DEADLINE_S)
        connection.datagram("127.0.0.1", sock.getsockname()[1], b"a canary")
        assert sock.recv(100) == b"a canary"
        with pytest.raises(
            LaunchError, match=r"no datagram can be sent to 127\.0\.0\.1"
        ):
            connection.datagram("127.0.0.1", sock.getsockname()[1], bytes(1 << 17))


def test_many_threads_ask_at_once(connection: Connection, tmp_path: Path) -> None:
    """The fork server takes a lower number for an old one, and would never answer it."""

    def ask(i: int) -> bytes | None:
        connection.write(str(tmp_path / str(i)), b"%d" % i)
        if i % 5 == 0:
            assert connection.run(["true"]).code == 0
        return connection.read(str(tmp_path / str(i)), timeout_s=DEADLINE_S)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(60))) == [b"%d" % i for i in range(60)]


def test_a_file_that_cannot_be_read_is_an_error(
    connection: Connection, tmp_path: Path
) -> None:
    with pytest.raises(LaunchError, match="cannot be read: Is a directory"):
        connection.read(str(tmp_path))
