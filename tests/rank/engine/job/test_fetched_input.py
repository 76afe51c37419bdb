"""Standard input that a proc fetches from impirun, each time in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from control_proof import prove

from impi.rank.engine.job.fetched_input import told
from impi.rank.vendors.secure_socket import open_session

TOKEN = "5e" * 16
ROOT = Path(__file__).parents[4]
PROGRAM = """
import os, sys
from impi.rank.engine.job.fetched_input import VARIABLE, fetch
fetch()
print(repr(sys.stdin.readline()), repr(sys.stdin.read()), sys.stdin is sys.__stdin__, VARIABLE in os.environ)
"""


def start(
    endpoint: str, stdin: int = subprocess.DEVNULL, *, tls: bool = False
) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "IMPI_INPUT": told(endpoint, TOKEN, tls=tls),
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=env,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], stdin: str | None = None) -> str:
    out, err = process.communicate(stdin, timeout=60)
    assert err == ""
    return out


def test_input_comes_from_the_control_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        process = start(f"127.0.0.1:{door.getsockname()[1]}")
        door.settimeout(60)
        with door.accept()[0] as sock, sock.makefile("rb") as hello:
            prove(sock, TOKEN)
            assert json.loads(hello.readline()) == {"role": "input"}
            sock.sendall("ü\nrest".encode())
        assert said(process) == "'ü\\n' 'rest' True False\n"


def test_redirected_input_stays() -> None:
    assert (
        said(start("127.0.0.1:1", subprocess.PIPE), "mine\n")
        == "'mine\\n' '' True False\n"
    )


def test_without_impirun_it_stays_empty() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        nobody = door.getsockname()[1]
    for endpoint in (f"127.0.0.1:{nobody}", "not an address"):
        assert said(start(endpoint)) == "'' '' True False\n"


@pytest.mark.clause("2.2.4")
@pytest.mark.parametrize("cut", [False, True])
def test_over_tls_input_comes_whole_or_that_is_said(cut: bool) -> None:
    """Somebody who cuts the connection must not end the input in silence."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        process = start(f"127.0.0.1:{door.getsockname()[1]}", tls=True)
        door.settimeout(60)
        with door.accept()[0] as sock:
            prove(sock, TOKEN)
            session = open_session(
                sock,
                bytes.fromhex(TOKEN),
                accepts=True,
                deadline=time.monotonic() + 60,
            )
            with session, session.makefile("rb") as hello:
                assert json.loads(hello.readline()) == {"role": "input"}
                session.sendall("ü\nrest".encode())
                if not cut:
                    session.settimeout(0.0)
                    with suppress(ssl.SSLWantReadError):
                        session.unwrap()
        out, err = process.communicate(timeout=60)
    assert out == "'ü\\n' 'rest' True False\n"
    assert err == (
        "impi: standard input is not whole: it has been cut\n" if cut else ""
    )


def test_over_tls_the_program_finds_no_child_and_the_copying_ends_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        program = PROGRAM.partition("print")[0] + (
            "try: os.wait()\nexcept ChildProcessError: print('none')\n"
        )
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "IMPI_INPUT": told(f"127.0.0.1:{door.getsockname()[1]}", TOKEN, tls=True),
        }
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        door.settimeout(60)
        with door.accept()[0] as sock:
            prove(sock, TOKEN)
            session = open_session(
                sock,
                bytes.fromhex(TOKEN),
                accepts=True,
                deadline=time.monotonic() + 60,
            )
            with session:
                # Its copy holds the standard error until it ends.
                assert process.communicate(timeout=60) == ("none\n", "")
