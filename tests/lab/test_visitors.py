"""Servers of pages while strangers hold connections: they answer, and have few threads."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from impi.lab.conform.report.desk import Desk
from impi.lab.conform.report.web_page import Page
from impi.lab.report.live.server import RunServer
from impi.lab.visitors import MOST, FewVisitors, Visitor

HELD = 2 * MOST
TIME_S = 20.0
ADDRESS = ("127.0.0.1", 0)


def conform_page(stack: ExitStack, _: Path) -> str:
    shown = Page(Desk([], lambda *_: None), "mine", "", 2, *ADDRESS)
    thread = threading.Thread(target=shown.serve)
    thread.start()
    stack.callback(thread.join)
    stack.callback(shown.close)
    return shown.url


def pages_of_a_run(stack: ExitStack, folder: Path) -> str:
    (folder / "plan.json").write_text(
        '{"schema": "impilab/plan/1", "run": "r", "argv": [], "backend": "local", "seed": 1,'
        ' "started": 1.8e9, "builds": {}, "source": "", "cells": [], "excluded": []}'
    )
    shown = stack.enter_context(RunServer(folder))
    thread = threading.Thread(target=shown.serve)
    thread.start()
    stack.callback(thread.join)
    stack.callback(shown.stop)
    return shown.url


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def answer(url: str) -> int:
    """Ask until there is an answer, as a browser's user does; return its code."""
    parts = urlsplit(url)
    until = time.monotonic() + TIME_S
    while True:
        connection = HTTPConnection(parts.netloc, timeout=TIME_S)
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status
        except (OSError, HTTPException):
            assert time.monotonic() < until
        finally:
            connection.close()


@pytest.mark.parametrize("begin", [conform_page, pages_of_a_run])
def test_a_page_answers_while_others_hold_connections(
    begin: Callable[[ExitStack, Path], str], stack: ExitStack, tmp_path: Path
) -> None:
    url = begin(stack, tmp_path)
    threads = threading.active_count()
    where = urlsplit(url)
    most = 0
    for number in range(HELD):
        sock = stack.enter_context(
            socket.create_connection((str(where.hostname), int(where.port or 0)))
        )
        if number % 2:
            sock.sendall(b"GET")
        most = max(most, threading.active_count() - threads)
    assert answer(url) == 200
    assert most <= MOST + 16, "those that are closed need a moment to end"


class Slow(Visitor):
    asked, goes_on = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.goes_on.wait(TIME_S)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(FewVisitors, ThreadingHTTPServer):
    pass


def test_an_answer_under_way_is_not_cut(stack: ExitStack) -> None:
    server = stack.enter_context(Server(ADDRESS, Slow))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.shutdown)
    asks = HTTPConnection("127.0.0.1", server.server_port, timeout=TIME_S)
    asks.request("GET", "/")
    assert Slow.asked.wait(TIME_S)
    for _ in range(HELD):
        stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
    Slow.goes_on.set()
    assert asks.getresponse().status == 200
    asks.close()
