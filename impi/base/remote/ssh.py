"""A node behind SSH: commands under starters, and files.

How it works: one connection of paramiko carries everything. The first command starts the node's
fork server in an SSH channel. :mod:`impi.base.remote.commands` then sends all commands and errands
through that channel, because each further channel costs a round trip and a process of sshd. Files
are errands, not SFTP. Only :meth:`Connection.execute` opens a channel of its own, for short
commands with much input (the sources). Our key and the only accepted host key are values in memory;
without them ~/.ssh is used.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from impi.base.errors import LaunchError
from impi.base.remote.commands import Commands, bootstrap
from impi.base.remote.supervised import Completed, Supervised

# paramiko logs tracebacks of failed logins. Here a failure is an exception, and a node that is not
# ready yet is not a failure.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_KEEPALIVE_S: Final = 15
_STEP_S: Final = 10.0  # longest wait for an answer of a connected sshd
_RETRY_S: Final = 0.02
_CHUNK: Final = 1 << 18
# paramiko's exceptions for a lost peer
_LOST: Final = (OSError, EOFError, paramiko.SSHException)


@dataclass(frozen=True, slots=True)
class Key:
    """An ed25519 key pair in OpenSSH's forms."""

    private: str
    # ssh-ed25519 AAAA...: for authorized_keys, and the end of a line of known_hosts
    public: str

    def pkey(self) -> paramiko.PKey:
        """Return the pair for paramiko; LaunchError: it is of another type, or has a passphrase."""
        try:
            return paramiko.Ed25519Key.from_private_key(io.StringIO(self.private))
        except paramiko.SSHException as error:
            raise LaunchError(
                f"it is not an ed25519 key without a passphrase: {error}"
            ) from None


def new_key() -> Key:
    """Make a new key pair, for one lab."""

    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )

    return Key(text.decode(), public.decode())


class _Session:
    """One SSH channel. Implements :class:`impi.base.remote.commands.Channel`."""

    def __init__(self, channel: paramiko.Channel, where: str) -> None:
        self._channel, self._where = channel, where
        self._writing = threading.Lock()

    def read(self, size: int) -> bytes:
        data = self._channel.recv(size)
        # Without a Python on the node, the only message is the shell's, on standard error.
        if not data and self._channel.recv_stderr_ready():
            said = self._channel.recv_stderr(2000).decode("utf-8", "replace").strip()
            raise LaunchError(f"{self._where}: the fork server did not start: {said}")

        if not data and not self._channel.get_transport().is_active():
            raise LaunchError(f"{self._where}: the SSH connection was lost")

        return data

    def write(self, data: bytes) -> None:
        try:
            with self._writing:
                self._channel.sendall(data)
        except _LOST as error:
            raise LaunchError(
                f"{self._where}: the SSH channel is closed: {error}"
            ) from error

    def close(self) -> None:
        with contextlib.suppress(*_LOST):
            self._channel.shutdown_write()

    def release(self) -> None:
        with contextlib.suppress(*_LOST):
            self._channel.close()


class Connection:
    """An SSH connection to a node for many commands at once; make it by :meth:`open`. Thread-safe.

    Its methods raise LaunchError if the connection fails. A failed command is not an error: see
    :class:`~impi.base.remote.supervised.Completed`.
    """

    def __init__(
        self,
        client: paramiko.SSHClient,
        transport: paramiko.Transport,
        where: str,
        python: str,
    ) -> None:
        self._client, self._transport, self._where, self._python = (
            client,
            transport,
            where,
            python,
        )
        self._starting = threading.Lock()
        self._commands: dict[str, Commands] = {}

    @classmethod
    def open(
        cls,
        address: str,
        *,
        port: int = 22,
        user: str,
        key: Key | None = None,
        host_key: str | None = None,
        python: str = "python3",
        timeout_s: float = 30.0,
    ) -> Connection:
        """Log in, trying again until the deadline while no server listens. Never prompts.

        Args:
            address: name or numeric address of the node.
            port, user: as for ssh.
            key: our key; None: the default keys and those of ssh-agent.
            host_key: the only accepted host key, in OpenSSH's public form; None: the user's
                known_hosts decides.
            python: the node's interpreter for the fork server, 3.11 or newer.
            timeout_s: seconds for the whole login.

        Raises:
            LaunchError: no login before the deadline, or an unexpected host key.
        """
        where = f"{user}@{address}:{port}"
        deadline = time.monotonic() + timeout_s
        pkey = None if key is None else key.pkey()
        while True:
            client = _client(address, port, host_key)
            left_s = max(0.1, deadline - time.monotonic())
            try:
                client.connect(
                    address,
                    port,
                    user,
                    pkey=pkey,
                    timeout=left_s,
                    banner_timeout=left_s,
                    auth_timeout=left_s,
                    # sshd ends a login after 6 keys (MaxAuthTries): the user's could use these up.
                    allow_agent=key is None,
                    look_for_keys=key is None,
                )
                transport = client.get_transport()
                if transport is None:
                    raise EOFError("the connection was closed at once")
            except (
                paramiko.BadHostKeyException,
                paramiko.AuthenticationException,
            ) as error:
                # Another attempt would have the same answer.
                client.close()
                raise LaunchError(f"{where}: the login failed: {error}") from error
            except _LOST as error:
                client.close()
                if time.monotonic() >= deadline:
                    raise LaunchError(
                        f"{where}: no SSH login within {timeout_s:g} s: {error}"
                    ) from error
                time.sleep(_RETRY_S)
                continue
            transport.set_keepalive(_KEEPALIVE_S)
            return cls(client, transport, where, python)

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        stdin: bytes | None = None,
        grace_s: float = 2.0,
        settle_s: float = 0.5,
        warm: Mapping[str, str] | None = None,
    ) -> Supervised:
        """Start a command under a starter of its own; ``env`` is added to the login's variables.

        Args:
            argv, env, cwd, stdin, grace_s, settle_s: as for
                :meth:`impi.base.remote.commands.Commands.start`.
            warm: for ``python -m MODULE``: fork it from a process that has loaded MODULE, with
                these variables at its start. None: start a fresh Python.
        """
        forkserver = (
            self._forkserver() if warm is None else self._forkserver(argv[2], warm)
        )
        return forkserver.start(
            argv, env=env, cwd=cwd, stdin=stdin, grace_s=grace_s, settle_s=settle_s
        )

    def _forkserver(
        self, module: str = "", env: Mapping[str, str] | None = None
    ) -> Commands:
        # Threads that come first at the same time must not start two fork servers.
        with self._starting:
            if module not in self._commands:
                command, text = bootstrap(self._python, module)
                if env:
                    command = ["env", *(f"{n}={v}" for n, v in env.items()), *command]

                session = _Session(self._channel(shlex.join(command)), self._where)
                session.write(text)
                self._commands[module] = Commands(session, self._where)

            return self._commands[module]

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Completed:
        return self.start(argv, env=env).wait(timeout_s)

    def execute(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = _STEP_S
    ) -> tuple[int, bytes]:
        """Run a short command without a starter; return its exit status and standard output.

        Raises:
            LaunchError: the command did not end in time, or the connection was lost.
        """

        deadline = time.monotonic() + timeout_s
        channel = self._channel(shlex.join(argv))

        output = []
        try:
            channel.settimeout(timeout_s)
            channel.sendall(stdin)

            # The command may read to the end of its input before it says anything.
            channel.shutdown_write()
            while data := channel.recv(_CHUNK):
                output.append(data)
                channel.settimeout(max(0.001, deadline - time.monotonic()))

            # sshd may send the status after the end of the stream.
            if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
                raise TimeoutError

            return channel.recv_exit_status(), b"".join(output)
        except TimeoutError as error:
            raise LaunchError(
                f"{self._where}: {argv[0]} did not end within {timeout_s:g} s"
            ) from error
        except _LOST as error:
            raise LaunchError(
                f"{self._where}: the SSH connection was lost under {argv[0]}: {error}"
            ) from error
        finally:
            with contextlib.suppress(*_LOST):
                channel.close()

    def read(
        self, path: str, *, offset: int = 0, timeout_s: float = 60.0
    ) -> bytes | None:
        """Return a file's octets from ``offset``, also of files in /proc; None: no such file."""
        found = bytearray()
        # Until a short piece, not by the file's size: files in /proc have size 0.
        while True:
            begin = offset + len(found)

            more = self._errand(
                "read",
                f"{path} cannot be read",
                timeout_s,
                path=path,
                offset=begin,
                most=_CHUNK,
            )
            if more["data"] is None:
                return None

            data = base64.b64decode(more["data"])

            found += data
            if len(data) < _CHUNK:
                return bytes(found)

    def write(
        self, path: str, data: bytes, *, mode: int = 0o644, timeout_s: float = 60.0
    ) -> None:
        text = base64.b64encode(data).decode()
        self._errand(
            "write",
            f"{path} cannot be written",
            timeout_s,
            path=path,
            data=text,
            mode=mode,
        )

    def datagram(self, host: str, port: int, data: bytes, *, source: str = "") -> None:
        """Send one UDP datagram from the node to a numeric address.

        Args:
            host, port: the target.
            data: the octets.
            source: the node's address to send from; empty: the system chooses.
        """
        text = base64.b64encode(data).decode()
        failing = f"no datagram can be sent to {host}:{port}"
        self._errand(
            "datagram", failing, _STEP_S, host=host, port=port, data=text, source=source
        )

    def _errand(
        self, do: str, failing: str, timeout_s: float, **errand: object
    ) -> dict[str, Any]:
        answer = self._forkserver().ask(do, timeout_s, **errand)
        if "error" in answer:
            raise LaunchError(f"{self._where}: {failing}: {answer['error']}")

        return answer

    def close(self) -> None:
        """Close the connection; the node's starters then end their commands. Idempotent."""
        self._client.close()

    def _channel(self, command: str) -> paramiko.Channel:
        try:
            channel = self._transport.open_session(timeout=_STEP_S)
            channel.exec_command(command)
        except _LOST as error:
            raise LaunchError(
                f"{self._where}: no further SSH channel: {error}"
            ) from error

        return channel


def _client(address: str, port: int, host_key: str | None) -> paramiko.SSHClient:
    client = paramiko.SSHClient()

    # Never trust on first use: a lab knows its nodes' keys, and a user's
    # known_hosts says the others.
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    if host_key is None:
        client.load_system_host_keys()
        return client

    # known_hosts writes the name so if the port is not 22, and paramiko looks it up in this form.
    name = address if port == 22 else f"[{address}]:{port}"

    entry = paramiko.hostkeys.HostKeyEntry.from_line(f"{name} {host_key}")
    if entry is None or entry.key is None:
        raise LaunchError(f"{name}: {host_key!r} is not a public host key")

    client.get_host_keys().add(name, entry.key.get_name(), entry.key)

    return client
