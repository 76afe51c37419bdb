"""Endpoints in the kernel's tables, in its own byte order and in another machine's."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from impi.lab.programs import kernel_tables


def test_a_socket_of_ours_is_found_where_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
        assert server.getsockname() in [kernel_tables.endpoint(line.split()[1]) for line in lines]


def test_the_order_is_the_kernels_and_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_tables.order.cache_clear()
    here = sys.byteorder
    monkeypatch.setattr(sys, "byteorder", "big" if here == "little" else "little")
    try:
        assert kernel_tables.order() == here
    finally:
        kernel_tables.order.cache_clear()


@pytest.mark.parametrize(("order", "text"), [("little", "0100007F:1F90"), ("big", "7F000001:1F90")])
def test_words_have_the_order_of_the_kernel(order: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_tables, "order", lambda: order)
    assert kernel_tables.endpoint(text) == ("127.0.0.1", 8080)
