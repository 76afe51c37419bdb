"""An SSH server in a thread, on loopback: enough of sshd for tests of our client."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from impi.base.remote.ssh import Key


@dataclass
class Sshd(paramiko.ServerInterface):
    """``port`` listens once :meth:`start` has returned."""

    host_key: Key
    user_key: Key
    port: int = 0
    commands: list[bytes] = field(default_factory=list)
    _transports: list[paramiko.Transport] = field(default_factory=list)

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Lose every connection."""
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                transport = paramiko.Transport(connection)
                transport.add_server_key(self.host_key.pkey())
                self._transports.append(transport)
                transport.start_server(server=self, event=threading.Event())

    # -- paramiko's questions

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = (
            username == "tester" and key.get_base64() == self.user_key.public.split()[1]
        )
        return paramiko.common.AUTH_SUCCESSFUL if good else paramiko.common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(
        self, channel: paramiko.Channel, command: bytes
    ) -> bool:
        self.commands.append(command)
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        with subprocess.Popen(
            ["/bin/sh", "-c", command.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        ) as process:
            feeder = threading.Thread(
                target=self._feed, args=(channel, process), daemon=True
            )
            feeder.start()
            assert process.stdout is not None
            # EOFError: the connection is lost, so the command's output has no reader.
            with contextlib.suppress(OSError, EOFError):
                while data := os.read(process.stdout.fileno(), 65536):
                    channel.sendall(data)
            code = process.wait()
            feeder.join(10)
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(code if code >= 0 else 128 - code)
            channel.close()

    @staticmethod
    def _feed(channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            channel.settimeout(0.05)
            while process.poll() is None:
                try:
                    data = channel.recv(65536)
                except TimeoutError:
                    continue
                if not data:
                    break
                process.stdin.write(data)
        with contextlib.suppress(OSError):
            process.stdin.close()


def file_of(
    sshd: Sshd,
    folder: Path,
    *,
    python: str = sys.executable,
    more: str = "",
    names: tuple[str, ...] = ("here",),
) -> Path:
    (key := folder / "key").write_text(sshd.user_key.private)
    key.chmod(0o600)
    rows = [
        f"[hosts.{name}]\naddress = '127.0.0.{number}'\nssh = '127.0.0.1:{sshd.port}'\nuser = 'tester'\n"
        f"key = '{key}'\nhost_key = '{sshd.host_key.public}'\npython = '{python}'\n{more}\n"
        for number, name in enumerate(names, start=2)
    ]
    (path := folder / "hosts.toml").write_text(
        "\n".join([f"folder = '{folder}'", *rows])
    )
    return path
