"""How a compiled program is started: with our library before it, or in place of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.cabi.library import build
from impi.cli import impirun
from impi.launch.start.compiled import handles_environment, served


@pytest.fixture
def linked(tmp_path):
    """``linked(*sonames) -> path``: a program that needs libraries of these names."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")

    def make(*sonames: str, static: bool = False, text: str = "") -> str:
        libraries = []
        for soname in sonames:
            library = tmp_path / soname
            argv = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-x", "c", "/dev/null", "-o", str(library)]
            subprocess.run(argv, check=True)
            libraries.append(str(library))
        out = tmp_path / "a.out"
        source = tmp_path / "a.c"
        source.write_text(f'const char *text = "{text}"; int main(void) {{ return text[0] > 200; }}\n')
        more = ["-static"] if static else ["-Wl,--no-as-needed", *libraries]
        subprocess.run(["cc", "-o", str(out), str(source), *more], check=True)
        return str(out)

    return make


def test_a_path_that_env_takes_for_a_variable_is_one_sentence(linked, tmp_path):
    program = Path(linked("libmpi.so.12")).rename(tmp_path / "steps=9")
    with pytest.raises(UsageError, match=r"must not contain '=', and .*/steps=9 does: give it a link"):
        served((str(program),), os.environ, "")


@pytest.fixture
def libraries(monkeypatch):
    """Libraries that need no compiler: their paths tell what was asked for."""
    monkeypatch.setattr(
        build, "library", lambda abi, environ, behind="": Path(f"/cache/{abi}{'-front' * bool(behind)}")
    )
    monkeypatch.setattr(
        build, "preloaded", lambda abi, environ: (Path(f"/cache/{abi}"), Path("/cache/libmpi_mpifh.so.40"))
    )


def test_what_calls_no_mpi_starts_as_it_is(linked, libraries):
    for argv in (("echo", "x"), (linked("libother.so.1"),), ("python3", "x.py")):
        assert served(argv, os.environ, "") == (argv, "the program calls no MPI library, or is Python's")


def test_without_a_library_of_the_client_ours_stands_in(linked, libraries):
    program = linked("libmpi.so.12")
    environ = {**os.environ, "LD_PRELOAD": "mine.so"}
    argv, told = served((program, "--steps"), environ, "")
    expected = ("env", "LD_PRELOAD=/cache/mpich /cache/libmpi_mpifh.so.40 mine.so", "IMPI_STANDS_IN=mpich")
    assert argv == (*expected, program, "--steps")
    assert told == "stand-in mode: impi's library is the program's libmpi.so.12"


def test_ours_stands_before_the_library_that_the_program_was_compiled_for(linked, libraries, tmp_path):
    program = linked("libmpi.so.12")
    own, other = tmp_path / "libmpi.so.12", tmp_path / "libmpi.so.40"
    other.touch()
    argv, told = served((program,), os.environ, str(own))
    assert argv[1] == f"LD_PRELOAD=/cache/mpich-front {own}"
    assert told.startswith(f"front mode: impi's library stands before {own}")
    assert served((program,), os.environ, str(other))[1].startswith("stand-in mode")


def test_a_tool_may_start_the_program(linked, libraries):
    program = linked("libmpi.so.40")
    argv, _ = served(("nice", "-n", "1", program), os.environ, "")
    assert argv[2:] == ("IMPI_STANDS_IN=openmpi", "nice", "-n", "1", program)


def test_compiled_programs_have_no_use_for_it():
    argv = ("env", "LD_PRELOAD=libmpi.so.12", "IMPI_STANDS_IN=mpich", "/tmp/ring")
    with pytest.raises(UsageError, match="--handles is for programs in Python, and ring is a compiled one"):
        handles_environment("mpich", argv, os.environ, print)
    assert handles_environment("", argv, os.environ, print) == {}


def test_unknown_abis_are_refused(capfd, monkeypatch):
    client = ["-client", "0", "127.0.0.1:1"]
    assert impirun.main([*client, "--handles", "mpich", "nosuch.py"]) == 4
    with pytest.raises(SystemExit):
        impirun.main([*client, "--handles", "lam", "nosuch.py"])
    monkeypatch.setenv("IMPI_HANDLES", "lam")
    with pytest.raises(SystemExit):
        impirun.main([*client, "nosuch.py"])
    assert "IMPI_HANDLES: there is no ABI 'lam'; the choices are standard, mpich, openmpi" in capfd.readouterr().err
