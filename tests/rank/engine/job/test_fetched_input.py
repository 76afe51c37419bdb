"""Standard input that a proc fetches from impirun, each time in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from control_proof import prove

TOKEN = "5e" * 16
ROOT = Path(__file__).parents[4]
PROGRAM = """
import os, sys
from impi.rank.engine.job.fetched_input import VARIABLE, fetch
fetch()
print(repr(sys.stdin.readline()), repr(sys.stdin.read()), sys.stdin is sys.__stdin__, VARIABLE in os.environ)
"""


def start(endpoint: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IMPI_INPUT": f"{endpoint} {TOKEN}"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
    assert said(start("127.0.0.1:1", subprocess.PIPE), "mine\n") == "'mine\\n' '' True False\n"


def test_without_impirun_it_stays_empty() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        nobody = door.getsockname()[1]
    for endpoint in (f"127.0.0.1:{nobody}", "not an address"):
        assert said(start(endpoint)) == "'' '' True False\n"
