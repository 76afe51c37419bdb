"""Files that procs of several clients access together, under every vendor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[3] / "jobs" / "programs"


@pytest.mark.parametrize(
    "clients",
    [["mpich:1", "openmpi:1", "pure:1"], ["mpich:2", "openmpi:1"], ["pure:1"]],
    ids="+".join,
)
def test_every_vendor(
    clients: list[str], run_job: Callable[..., Any], tmp_path: Path
) -> None:
    result = run_job([str(PROGRAMS / "files.py"), str(tmp_path / "file")], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out.count("files") == sum(
        int(client.partition(":")[2]) for client in clients
    )


@pytest.mark.parametrize(
    ("clients", "more"),
    [
        pytest.param(["mpich:1", "openmpi:1", "pure:1"], [], id="three vendors"),
        pytest.param(["pure:1", "mpich:2"], ["1"], id="client 1 for all"),
        pytest.param(["pure:2", "pure:1"], ["1"], id="one proc for all"),
    ],
)
def test_random_accesses(
    clients: list[str], more: list[str], run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = str(PROGRAMS / "files_random.py")
    result = run_job([program, str(tmp_path / "file"), "7", "60", *more], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out.count("random") == 3


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(6))
def test_many_random_accesses(
    seed: int, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = str(PROGRAMS / "files_random.py")
    more = ["0"] if seed % 2 else []
    clients = ["mpich:2", "openmpi:1", "pure:1"]
    result = run_job(
        [program, str(tmp_path / "file"), str(seed), "400", *more],
        clients,
        deadline_s=400,
    )
    assert set(result.codes) == {0}, str(result)


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_files_of_a_library_alone(
    vendor: str,
    run_job: Callable[..., Any],
    run_alone: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """One proc reads the data that the other writes, and both write the same octets."""
    program, ours, theirs = (
        str(PROGRAMS / "files_octets.py"),
        tmp_path / "ours",
        tmp_path / "theirs",
    )
    clients = ["mpich:1", "openmpi:1"]
    for result in (
        run_job([program, "write", str(ours)], clients),
        run_alone([program, "write", str(theirs)], vendor, 2),
    ):
        assert result.out.count("write") == 2, str(result)
    for file in sorted(tmp_path.glob("ours.*")):
        assert (
            file.read_bytes()
            == (tmp_path / file.name.replace("ours", "theirs")).read_bytes()
        ), file.name
    for result in (
        run_job([program, "read", str(theirs)], clients),
        run_alone([program, "read", str(ours)], vendor, 2),
    ):
        assert result.out.count("read") == 2, str(result)
