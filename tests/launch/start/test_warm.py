"""Commands that become forks of a process that has loaded impi, and its modules."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from impi.launch.start import warm
from impi.launch.start.program import ROOT, base_environment

FORKS = Path(__file__).parent.parent / "programs" / "fork_of_python.py"
MOST_ANEW = 2
"""Modules that a rank loads itself: impi.MPI, and the one that joins."""


def told(
    *words: str, given: object = None, environ: Mapping[str, str] | None = None
) -> Any:
    """Return the output of a warm process, from JSON."""
    env = base_environment({**os.environ, "PYTHONPATH": ROOT, **(environ or {})})
    done = subprocess.run(
        [sys.executable, *words],
        env=env,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def why_not(argv: Sequence[str], cwd: Path, **more: str) -> str:
    [reason] = told(str(FORKS), "--ask", given=[[list(argv), more, str(cwd)]])
    return str(reason)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text("")
    return file


def test_a_file_alone_can_be_a_fork(program: Path) -> None:
    assert why_not([sys.executable, "program.py", "-u", "x"], program.parent) == ""
    assert (
        why_not(
            [sys.executable, str(program)],
            Path("/"),
            IMPI_JOIN="{}",
            MPI4PY_RC_ERRORS="fatal",
            MINE="1",
        )
        == ""
    )


def test_other_commands_need_a_start(program: Path) -> None:
    folder = program.parent
    commands = [
        [sys.executable],
        [sys.executable, "-u", "program.py"],
        [sys.executable, "-m", "program"],
        [sys.executable, "-c", "pass.py"],
        ["/usr/bin/python3", "program.py"],
        ["/bin/true", "program.py"],
        [sys.executable, "missing.py"],
        [sys.executable, "folder.py"],
        [sys.executable, "archive.py"],
        [sys.executable, "compiled.py"],
    ]
    (folder / "folder.py").mkdir()
    with zipfile.ZipFile(folder / "archive.py", "w") as archive:
        archive.writestr("__main__.py", "")
    py_compile.compile(str(folder / "program.py"), str(folder / "compiled.py"))
    reasons = told(
        str(FORKS), "--ask", given=[[argv, {}, str(folder)] for argv in commands]
    )
    assert all(reasons), reasons


@pytest.mark.parametrize(
    "name",
    [
        "PYTHONHASHSEED",
        "PYTHONOPTIMIZE",
        "LD_PRELOAD",
        "LC_ALL",
        "TZ",
        "COVERAGE_PROCESS_START",
        "PYTHONX",
    ],
)
def test_what_python_heeds_at_its_start_must_be_the_same(
    name: str, program: Path
) -> None:
    assert name in why_not(
        [sys.executable, "program.py"], program.parent, **{name: "0"}
    )


def test_the_home_whose_packages_python_has_found(program: Path) -> None:
    assert "HOME" in why_not(
        [sys.executable, "program.py"], program.parent, HOME="/elsewhere"
    )
    assert why_not([sys.executable, "program.py"], program.parent, HOMEBREW="1") == ""


def test_a_folder_that_is_missing(program: Path) -> None:
    assert "folder" in why_not(
        [sys.executable, str(program)], program.parent / "missing"
    )


def test_a_library_of_c_handles_comes_first(program: Path) -> None:
    assert "--handles" in why_not(
        [sys.executable, "program.py"], program.parent, IMPI_HANDLES_FROM="3.11:x"
    )


@pytest.mark.parametrize(
    "name", ["json.py", "selectors", "struct.cpython-311-x86_64-linux-gnu.so"]
)
def test_a_module_of_the_program_that_has_the_name_of_a_loaded_one(
    name: str, program: Path
) -> None:
    if "." in name:
        (program.parent / name).touch()
    else:
        (program.parent / name).mkdir()
    assert name.partition(".")[0] in why_not(
        [sys.executable, "program.py"], program.parent
    )


def test_a_module_that_has_the_name_of_one_that_is_loaded_just_now(
    program: Path,
) -> None:
    (program.parent / "bisect.py").write_text("MINE = 1")
    env = base_environment({"PYTHONPATH": ROOT})
    call = f"warm.forkable({[sys.executable, str(program)]}, {env}, '/')"
    asked = f"from impi.launch.start import warm; print({call} is None)"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def test_other_files_of_the_program_are_no_modules(program: Path) -> None:
    for name in ("stat", "json.txt", "socket.d"):
        (program.parent / name).touch()
    assert why_not([sys.executable, "program.py"], program.parent) == ""


def test_a_module_on_the_path_that_has_the_name_of_a_loaded_one(
    program: Path, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "socket.py").touch()
    argv = [sys.executable, "program.py"]
    assert "socket" in why_not(argv, program.parent, PYTHONPATH=str(tmp_path / "more"))


def test_options_of_impiruns_own_python(program: Path) -> None:
    given = [[[sys.executable, "program.py"], {}, str(program.parent)]]
    assert told("-B", str(FORKS), "--ask", given=given) == [
        "impirun has options of Python"
    ]


def test_a_site_that_customizes_python(program: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "usercustomize.py").touch()
    given = [[[sys.executable, "program.py"], {}, str(program.parent)]]
    path = os.pathsep.join([str(tmp_path / "site"), ROOT])
    if sys.flags.no_user_site or sys.prefix != sys.base_prefix:
        (tmp_path / "site" / "sitecustomize.py").write_text("import usercustomize\n")
    assert told(str(FORKS), "--ask", given=given, environ={"PYTHONPATH": path}) == [
        "this site customizes Python"
    ]


def test_a_process_that_others_look_into_forks_nothing(program: Path) -> None:
    # pytest has exit functions and threads.
    assert (
        warm.forkable(
            [sys.executable, str(program)], dict(os.environ), str(program.parent)
        )
        is None
    )


@pytest.mark.parametrize(
    ("client", "option", "words", "forks"),
    [
        ("pure:2", (), (), True),
        ("pure:2", (), ("-u",), False),
        ("mpich:2", (), (), True),
        ("mpich:2", ("--launcher", "mpiexec"), (), False),
    ],
)
def test_procs_without_an_mpiexec_are_forks(
    run_job: Callable[..., Any],
    client: str,
    option: Sequence[str],
    words: Sequence[str],
    forks: bool,
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\n"
        "sys.stdout.write(f\"{'impi.launch.start.warm' in sys.modules} {MPI.COMM_WORLD.size}\\n\")"
    )
    result = run_job(
        [sys.executable, *words, str(program)],
        [client, "pure:1"],
        options={0: list(option)},
    )
    assert set(result.codes) == {0}, str(result)
    assert sorted(result.clients[0].out.splitlines()) == [f"{forks} 3"] * 2


def test_all_is_loaded_and_nothing_has_joined() -> None:
    loaded, anew = told(str(FORKS), "--loaded")
    assert [name for name in anew if name.startswith("impi")] == [
        "impi.MPI",
        "impi.rank.api.comms.world",
    ]
    assert len(anew) == MOST_ANEW
    assert not {"asyncio", "ssl", "inspect", "numpy", "mpi4py", "dataclasses"} & {
        *loaded
    }


BY_MPIEXEC = ("--vendor", "mpich", "--launcher", "mpiexec")


@pytest.mark.parametrize(
    ("clients", "loads"),
    [
        (
            [
                ["-client", "0", "x", "a.py"],
                ["-client", "1", "x", "--vendor", "pure", "a.py"],
            ],
            True,
        ),
        ([["-client", "0", "x", "a.py"]], False),
        (
            [
                ["-client", "0", "x", "a.py"],
                ["-client", "1", "x", "--vendor", "mpich", "a.py"],
            ],
            True,
        ),
        (
            [
                ["-client", "0", "x", "a.py"],
                ["-client", "1", "x", "--vendor", "openmpi", "a.py"],
            ],
            False,
        ),
        (
            [["-client", "0", "x", "a.py"], ["-client", "1", "x", *BY_MPIEXEC, "a.py"]],
            False,
        ),
        ([["-client", "0", "x", "a.out"], ["-client", "1", "x", "a.out"]], False),
    ],
)
def test_a_server_loads_once_for_several_clients(
    clients: list[list[str]], loads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(warm, "load", lambda: calls.append(1))
    monkeypatch.setattr(warm, "_why_not_process", lambda _: "")
    warm.load_for(clients)
    assert bool(calls) == loads
