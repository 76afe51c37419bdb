"""Programs that end without MPI: their names, and what may have used MPI unseen."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impi.launch.start.without_mpi import title, why_not_loaded, why_unsure

PROGRAMS = Path(__file__).parent.parent / "programs"
HELLO = str(PROGRAMS / "hello.py")
# The words that impirun puts before a command whose processes it watches.
SEEN = [
    "/bin/sh",
    "-c",
    "exec",
    "impi",
    "/cache/libimpi_usher.so",
    "LD_PRELOAD=/cache/libimpi_usher.so",
]


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/bin/hostname"], "hostname"),
        (["/bin/sh", "-c", "true"], "sh"),
        (["/usr/bin/python3", "/a/b.py", "-m", "c"], "b.py"),
        (["python", "-m", "mpi4py", "--version"], "mpi4py"),
        (["python", "-W", "error", "-u", "-m", "mod"], "mod"),
        (["python", "-c", "pass"], "python -c"),
        (["python"], "python"),
        ([*SEEN, "/a/run.sh", "x=1"], "run.sh"),
    ],
)
def test_titles(argv: list[str], name: str) -> None:
    assert title(argv) == name


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (["python", "-I", "a.py"], "-I"),
        (["python", "-uE", "-m", "a"], "-E"),
        (["python", "-X", "dev", "-S", "a.py"], "-S"),
        (["python", "-X", "Importtime", "a.py", "-I"], ""),
        (["python", "-WE", "-c", "-S"], ""),
        (["env", "-S"], ""),
    ],
)
def test_options_that_hide_impi(argv: list[str], option: str) -> None:
    why = why_unsure([*SEEN, *argv])
    assert (
        why.startswith(f"Python's option {option} hides impi") if option else why == ""
    )


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("#!/usr/bin/python3 -I", True),
        ("#!/usr/bin/env -S python3 -E", True),
        ("#!/usr/bin/env python3", False),
        ("#!/bin/sh -e", False),
        ("", False),
    ],
)
def test_the_first_line_of_a_script(line: str, hidden: bool, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"{line}\nrest\n")
    assert bool(why_unsure([*SEEN, str(script)])) is hidden
    assert hidden or "may have started a program with MPI" in why_unsure([str(script)])


def test_words_that_may_be_programs() -> None:
    shell = shutil.which("sh") or ""
    assert why_unsure([shell, "x"]) == ""
    for words in (["-c", "true; ./a.out"], ["./a.out"], [HELLO]):
        assert "install gcc, or set CC" in why_unsure([shell, *words])
        assert why_unsure([*SEEN, shell, *words]) == ""


def test_compiled_programs(tmp_path: Path) -> None:
    program = tmp_path / "a.out"
    program.write_bytes(b"\x7fELF" + bytes(100) + b"libmpi.so.12\0")
    assert "impirun --abi mpich|openmpi|standard" in why_unsure([str(program)])
    assert why_unsure([*SEEN, str(program)]) == ""
    assert why_unsure([sys.executable, HELLO]) == ""


def test_a_static_program_may_start_others_unseen(tmp_path: Path) -> None:
    """The usher does not reach it: without LD_PRELOAD, what it starts is a job of its own."""
    static, shell = tmp_path / "static", shutil.which("sh") or ""
    header = bytearray(b"\x7fELF\x02\x01" + bytes(58))
    static.write_bytes(header)
    static.chmod(0o755)
    for argv in ([str(static), shell], ["env", "A=1", str(static), "-i", shell]):
        assert "static is a static program, so " in why_unsure([*SEEN, *argv])
    for argv in ([str(static), "x", "/tmp"], [shell, shell], [str(static)]):
        assert why_unsure([*SEEN, *argv]) == ""
    loader = static.rename(tmp_path / "ld-linux.so.2")
    assert why_unsure([*SEEN, str(loader), shell]) == ""


RunJob = Callable[..., Any]


@pytest.mark.parametrize("clients", [["mpich:1", "openmpi:2"], ["pure:2", "mpich:1"]])
def test_a_program_without_mpi_ends_well(clients: list[str], run_job: RunJob) -> None:
    result = run_job([sys.executable, "-m", "mpi4py", "--version"], clients)
    assert result.codes == [0, 0, 0], str(result)
    assert result.out.count("mpi4py") == 3
    assert not any(client.err for client in result.clients)


def test_the_path_of_the_library(run_job: RunJob) -> None:
    result = run_job(
        [sys.executable, "-m", "mpi4py", "--mpi-library"], ["mpich:1", "openmpi:1"]
    )
    assert result.codes == [0, 0, 0], str(result)
    assert [Path(client.out.strip()).name[:9] for client in result.clients] == [
        "libmpi.so"
    ] * 2, str(result)
    assert "mpich" in result.clients[0].out


def test_pure_has_no_library(run_job: RunJob) -> None:
    result = run_job([sys.executable, "-m", "mpi4py.run", "-mpi-library"], ["pure:1"])
    assert result.codes == [1, 1], str(result)
    assert "this client has no MPI library: its vendor is pure" in result.clients[0].err


def test_the_version_of_the_library(run_job: RunJob) -> None:
    result = run_job(
        [sys.executable, "-m", "mpi4py", "--mpi-lib-version"], ["mpich:1", "pure:1"]
    )
    assert result.codes == [0, 0, 0], str(result)
    assert "over MPICH" in result.clients[0].out
    assert result.clients[1].out.endswith("over impi pure\n")


def test_its_own_exit_code_is_kept(run_job: RunJob) -> None:
    result = run_job(["sh", "-c", "exit 5"], ["pure:2"])
    assert result.codes == [5, 5], str(result)


def test_a_script_whose_program_finds_no_libmpi(run_job: RunJob) -> None:
    """A pure client has no libmpi: the loader ends the program, before the usher can bring ours."""
    done = run_job(["/bin/sh", "-c", "exit 127"], ["pure:1"])
    assert done.clients[0].code == 127
    assert (
        "or a symbol there, name the ABI (impirun --abi mpich|openmpi|"
        in done.clients[0].err
    )
    done = run_job(["/bin/sh", "-c", "exit 3"], ["pure:1"])
    assert "--abi" not in done.clients[0].err
    assert why_not_loaded(["a.out"], 127) == ""


@pytest.mark.parametrize("absent", [0, 1])
def test_one_client_without_mpi_names_its_program(absent: int, run_job: RunJob) -> None:
    result = run_job([HELLO], ["pure:1", "mpich:1"], argv_of={absent: ["true"]})
    assert result.codes == [1, 1, 1], str(result)
    # The other client may say it first, by the number of this one.
    words = f"true ended without initialising MPI, and |client {absent}: did not contribute .* without initialising MPI"
    assert re.search(words, result.clients[absent].err)
    assert len(result.clients[absent].err.splitlines()) == 1


def test_a_python_that_hides_impi_is_no_success(run_job: RunJob) -> None:
    result = run_job([sys.executable, "-I", "-c", "print(1)"], ["mpich:2"])
    assert result.codes == [1, 1], str(result)
    assert "hides impi from it" in result.clients[0].err
