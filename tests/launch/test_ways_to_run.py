"""Options of a client that users of mpiexec know: -l, -x, --timeout, --hostfile."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "told.py")
PORTS = str(Path(__file__).parent / "programs" / "ports.py")
RunJob = Callable[..., Any]
BY_MPIEXEC = ["--launcher", "mpiexec"]


@pytest.mark.parametrize(
    ("vendor", "more"),
    [
        ("mpich", []),
        ("mpich", BY_MPIEXEC),
        ("openmpi", []),
        ("pure", ["--hosts", "client"]),
    ],
)
def test_labels_and_variables(vendor: str, more: list[str], run_job: RunJob) -> None:
    options = ["-l", "-x", "MINE=a b", "-x", "THEIRS", *more]
    result = run_job(
        [PROGRAM],
        [f"{vendor}:2", "pure:1"],
        options={0: options, 1: ["-l"]},
        environ_of={0: {"THEIRS": "c"}},
    )
    assert result.codes == [0, 0, 0], str(result)
    first, second = result.clients
    assert sorted(first.out.splitlines()) == [
        "[0:0] 0 has a b",
        "[0:0] and c",
        "[0:1] 1 has a b",
        "[0:1] and c",
    ]
    assert sorted(first.err.splitlines()) == ["[0:0] to stderr", "[0:1] to stderr"]
    assert second.out.splitlines() == ["[1:0] 2 has None", "[1:0] and None"]


@pytest.mark.parametrize("clients", [["mpich:2", "pure:1"], ["pure:1", "openmpi:1"]])
def test_a_timeout_ends_the_job_everywhere(clients: list[str], run_job: RunJob) -> None:
    result = run_job([PROGRAM, "stay"], clients, options={0: ["--timeout", "3"]})
    assert [end.code for end in result.clients] == [124, 124], str(result)
    for end in result.clients:
        assert "the job had not ended within 3 s (--timeout)" in end.err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (
            ["-x", "NOT_THERE_AT_ALL"],
            "-x NOT_THERE_AT_ALL: there is no such variable here",
        ),
        (
            ["-x", "PMI_RANK=1"],
            "-x PMI_RANK: impirun and the MPI library set this variable themselves",
        ),
        (
            ["-x", "IMPI_AUTH_SECRET=1"],
            "-x IMPI_AUTH_SECRET: impirun and the MPI library",
        ),
        (["-x", "a-b=1"], "-x: 'a-b=1' is not a variable: write NAME or NAME=VALUE"),
        (
            ["--ports", "20100-20000"],
            "--ports: '20100-20000' is not a range of ports, such as 20000-20100",
        ),
        (["--ports", "a"], "--ports: 'a' is not a range of ports"),
        (["--timeout", "0"], "--timeout: '0' is not a number of seconds above 0"),
        (
            ["--hostfile", "/none"],
            "--hostfile /none cannot be read: No such file or directory",
        ),
        (
            ["--hostfile", "/none", "--nodes", "a"],
            "--hostfile and --nodes both name nodes",
        ),
    ],
)
def test_what_is_asked_wrongly_gets_a_sentence(
    options: list[str], what: str, run_job: RunJob
) -> None:
    result = run_job([PROGRAM], ["pure:1"], options={0: options}, joins=False)
    assert result.clients[0].code == 4, str(result)
    assert what in result.clients[0].err


def own_ports() -> range:
    """A range below the kernel's own ports, which other workers do not use."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return range(20_000 + 100 * worker, 20_040 + 100 * worker)


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ("pure:2", []),
        ("mpich:2", []),
        ("mpich:2", BY_MPIEXEC),
        ("openmpi:2", ["--hosts", "client"]),
    ],
)
def test_all_that_others_reach_listens_in_the_range(
    client: str, options: list[str], run_job: RunJob
) -> None:
    ports = own_ports()
    asked = ["--ports", f"{ports[0]}-{ports[-1]}"]
    result = run_job(
        [PORTS], [client, "pure:1"], options={0: [*asked, *options], 1: asked}
    )
    assert result.codes == [0, 0, 0], str(result)
    for line in result.clients[0].out.splitlines():
        found = [int(word) for word in line.split()]
        assert len(found) >= 3
        assert all(port in ports for port in found), line


def test_a_range_without_a_free_port_is_told(run_job: RunJob) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        result = run_job(
            [PROGRAM], ["pure:1", "pure:1"], options={0: ["--ports", port]}
        )
    assert result.clients[0].code != 0
    assert (
        "cannot listen on 127.0.0.1: Address already in use; let more ports through with --ports"
        in str(result)
    )


def test_nodes_come_from_a_file(tmp_path: Path, run_job: RunJob) -> None:
    (tmp_path / "nodes").write_text("localhost slots=1\n127.0.0.1:2\n")
    result = run_job(
        [PROGRAM],
        ["pure:3", "pure:1"],
        options={0: ["-l", "--hostfile", str(tmp_path / "nodes")]},
    )
    assert result.codes == [0, 0, 0], str(result)
    assert {line[:5] for line in result.clients[0].out.splitlines()} == {
        "[0:0]",
        "[0:1]",
        "[0:2]",
    }
