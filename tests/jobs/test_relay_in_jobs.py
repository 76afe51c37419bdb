"""Jobs whose clients accept no connection of each other, but fetch them from a relay."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impi.launch.relay.splice import HEAD_SIZE
from impi.rank.vendors.dial import dial

PROGRAM = str(Path(__file__).parent / "programs" / "relayed.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
RunJob = Callable[..., Any]
StartRelay = Callable[..., Any]


def relayed(where: str, clients: int, *more: str) -> dict[int, list[str]]:
    """Options of as many clients."""
    return {client: ["--relay", where, *more] for client in range(clients)}


@pytest.mark.parametrize(
    ("clients", "server", "more"),
    [
        (["pure:2", "pure:2"], [], []),
        (["mpich:2", "openmpi:1", "pure:1"], [], []),
        (["openmpi:2", "mpich:2"], ["--tls"], []),
        (["mpich:2", "openmpi:2"], [], ["--hosts", "client"]),
    ],
)
def test_no_client_accepts(
    clients: list[str],
    server: list[str],
    more: list[str],
    run_job: RunJob,
    start_relay: StartRelay,
) -> None:
    relay = start_relay("-v", environ=SECRET)
    options = relayed(relay.where, len(clients), *more)
    result = run_job(
        [PROGRAM], clients, options=options, environ=SECRET, server_options=server
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"
    ended = relay.end()
    assert ended.err.count("has gone") == len(clients), ended.err
    assert "refused" not in ended.err


def test_one_client_of_two_has_a_relay(
    run_job: RunJob, start_relay: StartRelay
) -> None:
    relay = start_relay(environ=SECRET)
    result = run_job(
        [PROGRAM],
        ["pure:2", "pure:2"],
        environ=SECRET,
        environ_of={0: {"IMPI_RELAY": relay.where}},
    )
    assert set(result.codes) == {0}, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["pure", "mpich"])
@pytest.mark.parametrize(
    ("how", "why"), [("kill", "has ended"), ("stop", "has not been heard of for 5 s")]
)
def test_a_lost_relay_is_named(
    how: str, why: str, vendor: str, run_job: RunJob, start_relay: StartRelay
) -> None:
    relay = start_relay(environ=SECRET)
    options = relayed(relay.where, 1, "--heartbeat-timeout", "5")
    program = [PROGRAM, how, str(relay.process.pid)]
    began = time.monotonic()
    result = run_job(
        program, [f"{vendor}:2", "pure:2"], options=options, environ=SECRET
    )
    assert time.monotonic() - began < 60, "the job ends by itself"
    sentence = f"the relay at {relay.where} {why}"
    for end in (result.server, *result.clients):
        assert end.code == 1
        assert sentence in end.err.splitlines()[-1], str(result)
        assert "while the job was running" in end.err


@pytest.mark.parametrize("vendor", ["pure", "openmpi"])
def test_an_impirun_that_is_killed_leaves_nothing_at_the_relay(
    vendor: str, run_job: RunJob, start_relay: StartRelay
) -> None:
    relay = start_relay("-v", environ=SECRET)
    open_files = Path(f"/proc/{relay.process.pid}/fd")
    with dial(relay.where, 60.0) as stranger:
        stranger.sendall(bytes(HEAD_SIZE))
        # From now on it has all that it has without a job
        assert stranger.recv(1) == b""
    before = len(list(open_files.iterdir()))
    result = run_job(
        [PROGRAM, "kill", "impirun"],
        [f"{vendor}:2", "pure:2"],
        options=relayed(relay.where, 2),
        environ=SECRET,
    )
    assert result.clients[0].code == -9, str(result)
    assert result.clients[1].code == 1
    until = time.monotonic() + 60
    while len(list(open_files.iterdir())) > before and time.monotonic() < until:
        time.sleep(0.1)
    assert len(list(open_files.iterdir())) == before
    assert relay.end().err.count("has gone") == 2


def test_a_resilient_job_behind_a_relay_goes_on(
    run_job: RunJob, start_relay: StartRelay
) -> None:
    relay, clients = start_relay(environ=SECRET), ["mpich:1", "pure:2", "openmpi:2"]
    survivors = str(Path(__file__).parent / "programs" / "survive_steps.py")
    options = relayed(relay.where, len(clients), "--resilient")
    result = run_job([survivors, "0@5,3@9"], clients, options=options, environ=SECRET)
    assert sorted(
        line for line in result.out.splitlines() if line.startswith("left ")
    ) == ["left 1 2 5", "left 2 2 5"]
    assert result.server.code == 0, str(result)


@pytest.mark.parametrize("other", [["--impi-version", "0.0"], []])
def test_without_a_proof_of_all_there_is_no_job(
    other: list[str], run_job: RunJob, start_relay: StartRelay
) -> None:
    relay = start_relay(environ=SECRET)
    none = {} if other else {"IMPI_AUTH_SECRET": ""}
    options = {0: ["--relay", relay.where], 1: other}
    result = run_job(
        [PROGRAM],
        ["pure:1", "pure:1"],
        options=options,
        environ=SECRET,
        environ_of={1: none},
    )
    assert result.codes == [1, 1, 1], str(result)
    who = "none here proves one" if other else "client 1 cannot prove one"
    assert (
        f"hosts behind the relay at {relay.where} are known by a secret alone, and {who}"
        in result.clients[0].err
    )


def test_no_relay_is_there(run_job: RunJob) -> None:
    result = run_job(
        [PROGRAM],
        ["pure:1", "pure:1"],
        options=relayed("127.0.0.1:1", 1),
        environ=SECRET,
    )
    assert result.codes == [1, 1, 1], str(result)
    sentence = (
        "no relay answers at 127.0.0.1:1 (Connection refused): start 'impirun -relay'"
    )
    for end in (result.server, result.clients[0]):
        assert sentence in end.err
