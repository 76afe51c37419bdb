"""Endpoints in the kernel's tables, in its own byte order and in another machine's."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from impi.lab.programs import kernel_tables


def test_a_socket_of_ours_is_found_where_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
        assert server.getsockname() in [
            kernel_tables.endpoint(line.split()[1]) for line in lines
        ]


def test_the_order_is_the_kernels_and_not_the_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel_tables.order.cache_clear()
    here = sys.byteorder
    monkeypatch.setattr(sys, "byteorder", "big" if here == "little" else "little")
    try:
        assert kernel_tables.order() == here
    finally:
        kernel_tables.order.cache_clear()


@pytest.mark.parametrize(
    ("order", "text"), [("little", "0100007F:1F90"), ("big", "7F000001:1F90")]
)
def test_words_have_the_order_of_the_kernel(
    order: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tables, "order", lambda: order)
    assert kernel_tables.endpoint(text) == ("127.0.0.1", 8080)


def test_listeners_without_a_walk_of_the_kernel_through_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A witness looks fifty times a second, and the table has every connection."""
    with (
        socket.create_server(("127.126.4.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.create_server(
            ("::", 0), family=socket.AF_INET6, dualstack_ipv6=True
        ) as both,
    ):
        ends = {
            kernel_tables.Listener(
                str(os.fstat(sock.fileno()).st_ino),
                os.getuid(),
                address,
                sock.getsockname()[1],
            )
            for sock, address in ((four, "127.126.4.1"), (six, "::1"), (both, "::"))
        }
        assert ends <= set(kernel_tables._by_tables(os.getpid()))

        def walk(pid: int | str) -> list[kernel_tables.Listener]:
            raise AssertionError(f"/proc/{pid}/net/tcp")

        monkeypatch.setattr(kernel_tables, "_by_tables", walk)
        assert ends <= set(kernel_tables.listeners())
        assert ends <= set(kernel_tables.listeners(os.getpid()))


def test_a_kernel_that_refuses_has_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(93, "Protocol not supported")

    with socket.create_server(("127.126.4.2", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(kernel_tables, "_by_netlink", refuse)
        assert f"127.126.4.2:{port}" in [each.end for each in kernel_tables.listeners()]
