"""``python -m impi.rank.agent`` before there is a job: its messages, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_proof import prove

ROOT = Path(__file__).parents[3]
WAIT_S = 30.0
TOKEN = "ab" * 16


class Agent:
    """One agent, whose impirun is the test."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(WAIT_S)
            invitation = {
                "control": f"127.0.0.1:{listener.getsockname()[1]}",
                "token": TOKEN,
                "server": "127.0.0.1",
                "interface": "",
                "door": "",
                "number": 3,
                "node": "here",
                "title": "the host agent of node here",
            }
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-m", "impi.rank.agent"],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "IMPI_AGENT": json.dumps(invitation),
                },
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.control = listener.accept()[0]
        self.control.settimeout(WAIT_S)
        prove(self.control, TOKEN)
        with self.control.makefile("rb") as lines:
            self.hello: dict[str, Any] = json.loads(lines.readline())

    def answer(self, reply: dict[str, object]) -> None:
        self.control.sendall(json.dumps(reply).encode() + b"\n")

    def end(self) -> tuple[int, str]:
        err = self.process.communicate(timeout=WAIT_S)[1]
        return self.process.returncode, err


@pytest.fixture
def agent() -> Iterator[Agent]:
    started = Agent()
    yield started
    started.control.close()
    if started.process.poll() is None:
        started.process.terminate()
        started.end()


def test_it_introduces_itself(agent: Agent) -> None:
    hello = agent.hello
    assert (hello["role"], hello["number"], hello["node"]) == ("host", 3, "here")
    assert TOKEN not in str(hello)
    assert bytes.fromhex(hello["address"]) == bytes(12) + bytes([127, 0, 0, 1])
    socket.create_connection(("127.0.0.1", hello["port"]), timeout=WAIT_S).close()
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.connect(hello["door"]["unix"])


def test_an_agent_that_is_not_needed(agent: Agent) -> None:
    agent.answer({"job": {}, "host": None})
    assert agent.end() == (0, "")


def test_an_agent_that_is_ended_while_it_waits_for_the_job(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGTERM)
    code, err = agent.end()
    assert (code, err) == (128 + signal.SIGTERM, "")


def test_an_agent_whose_impirun_is_gone(agent: Agent) -> None:
    agent.control.close()
    code, err = agent.end()
    assert code == 1
    assert (
        err
        == "impi: the host agent of node here: impirun closed the connection during start-up\n"
    )


def test_an_agent_that_is_killed_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    agent = Agent()
    agent.process.kill()
    assert agent.end()[0] == -signal.SIGKILL
    agent.control.close()
    assert list(tmp_path.iterdir()) == []
