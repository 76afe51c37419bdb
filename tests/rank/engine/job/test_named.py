"""A proc's sentences about a server that keeps no names; tests/jobs asks real servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from impi.base.errors import PeerError
from impi.rank.engine.job.named import ask


@contextmanager
def listener(answer: bytes) -> Iterator[str]:
    """HOST:PORT of a server that reads a little, says ``answer``, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def serve() -> None:
            came, _ = sock.accept()
            with came:
                came.recv(40)
                came.sendall(answer)
                came.shutdown(socket.SHUT_WR)
                while came.recv(100):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{sock.getsockname()[1]}"
        thread.join()


def named(answer: bytes) -> bytes:
    return b"NAME" + len(answer).to_bytes(4, "big") + answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "keeps no names"),
        (b"FAIL\0\0\0\0", "keeps no names"),
        (
            named(b"n" * 32),
            "has another secret: give both jobs the same IMPI_AUTH_SECRET",
        ),
        (
            named(b"n" * 32) + named(b"answer" * 10),
            "has not proved that it knows the secret",
        ),
    ],
)
def test_what_is_no_server_of_names(answer: bytes, why: str) -> None:
    with (
        listener(answer) as where,
        pytest.raises(PeerError, match=f"^what listens at {where} {why}$"),
    ):
        ask(where, b"key", "lookup", "ocean", "")


@pytest.mark.parametrize("where", ["nowhere", "127.0.0.1:x"])
def test_an_address_that_is_none(where: str) -> None:
    with pytest.raises(PeerError, match=f"^no server of names answers at {where}: "):
        ask(where, b"key", "lookup", "ocean", "")
