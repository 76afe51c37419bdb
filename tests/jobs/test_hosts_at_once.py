"""A job whose clients use ``--hosts proc``, ``node`` and ``client``, read from the wire."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from impi.lab.dissect.jobs.raw import StreamName, observe_streams

SEMANTICS = str(Path(__file__).parent / "programs" / "semantics.py")
WAIT_S = 90.0


class Tap:
    """Stands between one client and the server, and keeps what both say."""

    def __init__(self) -> None:
        self.said = {True: bytearray(), False: bytearray()}
        """By whether it is the client who says it."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    def open(self, where: str) -> str:
        """Lead the next connection to ``where``; returns what to connect to."""
        host, _, port = where.rpartition(":")
        self._start(self._join, host, int(port))
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _join(self, host: str, port: int) -> None:
        client = self._listener.accept()[0]
        server = socket.create_connection((host, port))
        back = threading.Thread(
            target=self._carry, args=(server, client, False), daemon=True
        )
        back.start()
        self._carry(client, server, True)
        back.join(WAIT_S)
        client.close()
        server.close()

    def _carry(self, source: socket.socket, dest: socket.socket, forth: bool) -> None:
        while octets := source.recv(1 << 16):
            self.said[forth] += octets
            dest.sendall(octets)
        dest.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    "vendors",
    [
        ("pure", "mpich", "openmpi"),
        pytest.param(("mpich", "openmpi", "pure"), marks=pytest.mark.proof),
        pytest.param(("openmpi", "pure", "mpich"), marks=pytest.mark.proof),
    ],
)
def test_all_three_at_once(
    vendors: tuple[str, str, str], run_job: Callable[..., object]
) -> None:
    wirings = ("proc", "node", "client")
    options = {rank: ["--hosts", wiring] for rank, wiring in enumerate(wirings)}
    tap = Tap()
    try:
        # Ranks 0 and 1 are their own hosts, 2 and 3 share an agent, 4 to 6 another.
        argv = [SEMANTICS, "3", "0,1,2,2,3,3,3"]
        clients = [
            f"{vendor}:{size}" for vendor, size in zip(vendors, (2, 2, 3), strict=True)
        ]
        result = run_job(argv, clients, options=options, through=tap.open)
    finally:
        tap.close()
    assert result.codes == [0, 0, 0, 0], str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
    job = observe_streams(
        {
            StreamName("startup", 0, 0, forth): bytes(octets)
            for forth, octets in tap.said.items()
        }
    )
    assert job.layout is not None
    # H_NPROCS and C_NHOSTS as the server broadcast them (IMPI 2.3.5).
    assert [(host.client, host.nprocs) for host in job.layout.hosts] == [
        (0, 1),
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    assert [proc.host for proc in job.layout.procs] == [0, 1, 2, 2, 3, 3, 3]
