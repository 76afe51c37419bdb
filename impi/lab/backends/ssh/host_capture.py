"""tcpdump on an existing host, as the hosts file says how it runs there (key ``capture``).

It runs for one cell (:mod:`.capture_program`), because a user cannot ask root's tcpdump for its
statistics: it tells them when it ends. It listens on all interfaces, since two hosts of a lab may
be one machine. Canaries go to the host's own address, so they do not leave it.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, LaunchError
from impi.base.remote.ssh import Connection
from impi.base.variables import port_range
from impi.lab.backends.capture.canary_tap import DISCARD, Tap, tcpdump_options
from impi.lab.backends.nodes import lab_fault
from impi.lab.backends.ssh import capture_program
from impi.lab.backends.ssh.hosts_file import SSH_PORT, Host, HostsFile

_READY_S: Final = 10.0
_GRACE_S: Final = 10.0  # more than the 8 s that the program needs to end tcpdump
_TURNS: Final[dict[str, threading.Lock]] = {}
_DROPPED: Final = re.compile(rb"(\d+) packets? dropped by kernel")


def turns(hosts: Collection[Host]) -> list[threading.Lock]:
    """Return the locks of hosts, in the order in which to take them.

    One captured cell at a time has a host. A job may get the ports that another one has just left,
    and in a capture of both, connections of two jobs would look like those of one. Sorted, so that
    two cells never wait for each other.
    """
    return [
        _TURNS.setdefault(address, threading.Lock())
        for address in sorted({host.address for host in hosts})
    ]


def capture_filter(hosts: Collection[Host], ports: str = "") -> str:
    """Return tcpdump's filter: TCP between these hosts but SSH, and canaries; nothing of others.

    Args:
        hosts: all of a lab.
        ports: where all listeners of its jobs are, as in a file of hosts; empty: anywhere.
    """

    addresses = list(dict.fromkeys(host.address for host in hosts))
    # Both ends must be hosts of the lab: traffic of others is not ours to record.
    ends = (
        " or ".join(f"{end} host {address}" for address in addresses)
        for end in ("src", "dst")
    )
    between = " and ".join(f"({end})" for end in ends)
    span = port_range(ports)
    tcp = f"tcp portrange {span[0]}-{span[-1]}" if span else "tcp"
    # SSH brings the file here: a capture of SSH would fill itself.
    # SSH at another port than 22 needs a condition of its own.
    seats = dict.fromkeys(
        (host.address, host.port) for host in hosts if host.port != SSH_PORT
    )
    logins = [
        f"not ({end} host {address} and {end} port {port})"
        for address, port in seats
        for end in ("src", "dst")
    ]
    seen = " and ".join([tcp, f"not port {SSH_PORT}", *logins])

    return f"({seen} or udp dst port {DISCARD}) and {between}"


class HostRecorder:
    """A :class:`~impi.lab.backends.capture.canary_tap.Recorder` of a host, for one cell.

    Args:
        path: the file on the host; there must be none.
        env: the lab's mark, for processes of our own.
        seconds: after this time it ends by itself.
        what: the filter.

    Raises:
        LabError: the host is lost.
    """

    def __init__(
        self,
        host: Host,
        connection: Connection,
        path: str,
        *,
        env: Mapping[str, str],
        seconds: float,
        what: str,
    ) -> None:
        self.where = f"host {host.name}"
        self._host, self._connection, self._path = host, connection, path
        text = Path(capture_program.__file__).read_text("utf-8")
        argv = [host.python, "-I", "-S", "-c", text, path, str(seconds)]

        # Any interface, and room for two captures: two hosts of a lab may be one machine.
        argv += [
            *shlex.split(host.capture),
            *tcpdump_options("any", 2),
            "-w",
            "-",
            what,
        ]
        # The program that runs tcpdump ends it when its time is over.
        with lab_fault(self.where):
            self._program = connection.start(argv, env=env, grace_s=_GRACE_S)

    def read(self, offset: int) -> bytes:
        with lab_fault(self.where):
            return self._connection.read(self._path, offset=offset) or b""

    def mark(self, payload: bytes) -> None:
        address = self._host.address
        with lab_fault(self.where):
            # To its own address: a canary must not leave the host, nor reach another capture.
            self._connection.datagram(address, DISCARD, payload, source=address)

    def ended(self) -> bool:
        with lab_fault(self.where):
            # A command of our own: unlike a sidecar it can be asked at any time.
            return self._program.poll() is not None

    def dropped(self) -> int:
        """End tcpdump, and return how many packets the kernel dropped."""
        # The count comes on standard error at the end only, so ending it is how to ask.
        with lab_fault(self.where):
            found = _DROPPED.search(self._program.stop().stderr)

        if found is None:
            raise LabError(
                f"{self.where}: tcpdump did not print its statistics; tcpdump said: {self.said()}"
            )

        return int(found[1])

    def said(self) -> str:
        return " ".join(
            self._program.stderr().decode("utf-8", "replace").strip().splitlines()[-2:]
        )

    def stop(self) -> None:
        """End tcpdump, if it runs. Never raises: a lost one ends by itself."""
        with contextlib.suppress(LaunchError):
            self._program.stop()


def begin(tap: Tap, file: HostsFile, host: Host) -> Tap:
    """Return the tap, once its first canary has arrived.

    Raises:
        LabError: tcpdump does not run, or sees nothing; the message names the cure.
    """
    try:
        tap.wait_ready(_READY_S)
        tap.begin()
    except LabError as error:
        cure = (
            f"'{host.capture} -i any' must work there without a question: "
            f"set capture in {file.path}, or leave it out"
        )
        raise LabError(f"{error.message}; {cure}") from None

    return tap
