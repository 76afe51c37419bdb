"""How a compiled program is started: with our library before it, or in place of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from impi.base.errors import LaunchError, UsageError
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
            argv = [
                "cc",
                "-shared",
                "-nostdlib",
                f"-Wl,-soname,{soname}",
                "-x",
                "c",
                "/dev/null",
                "-o",
                str(library),
            ]
            subprocess.run(argv, check=True)
            libraries.append(str(library))
        out = tmp_path / "a.out"
        source = tmp_path / "a.c"
        source.write_text(
            f'const char *text = "{text}"; int main(void) {{ return text[0] > 200; }}\n'
        )
        more = ["-static"] if static else ["-Wl,--no-as-needed", *libraries]
        subprocess.run(["cc", "-o", str(out), str(source), *more], check=True)
        return str(out)

    return make


def test_a_path_that_env_takes_for_a_variable_is_one_sentence(linked, tmp_path):
    program = Path(linked("libmpi.so.12")).rename(tmp_path / "steps=9")
    with pytest.raises(
        UsageError, match=r"must not contain '=', and .*/steps=9 does: give it a link"
    ):
        served((str(program),), os.environ, "")


def variables(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return what follows the look whether the library is there."""
    assert argv[:2] == ("/bin/sh", "-c")
    assert argv[3] == "impi"
    return argv[5:]


@pytest.fixture
def libraries(monkeypatch):
    """Libraries that need no compiler: their paths tell what was asked for."""
    monkeypatch.setattr(
        build,
        "library",
        lambda abi, environ, behind="", tell=None: Path(
            f"/cache/{abi}{'-front' * bool(behind)}"
        ),
    )
    monkeypatch.setattr(
        "impi.cabi.library.usher.usher", lambda environ: Path("/cache/usher")
    )
    monkeypatch.setattr(
        build,
        "preloaded",
        lambda abi, environ, tell=None: (
            Path(f"/cache/{abi}"),
            Path("/cache/libmpi_mpifh.so.40"),
        ),
    )


def test_what_calls_no_mpi_starts_as_it_is(linked, libraries):
    assert served(("python3", "x.py"), os.environ, "") == (
        ("python3", "x.py"),
        "the program is Python's",
    )
    for argv in (("echo", "x"), (linked("libother.so.1"),)):
        served_as, told = served(argv, os.environ, "/own/libmpi.so.12")
        assert variables(served_as) == (
            "LD_PRELOAD=/cache/usher",
            "IMPI_BEHIND=/own/libmpi.so.12",
            *argv,
        )
        assert told.startswith(
            "the program calls no MPI library by itself: programs behind it get impi's"
        )


def test_without_a_compiler_what_is_behind_a_program_is_not_seen(monkeypatch):
    def fail(environ):
        raise LaunchError("there is none: install gcc")

    monkeypatch.setattr("impi.cabi.library.usher.usher", fail)
    argv, told = served(("echo", "x"), os.environ, "")
    assert argv == ("echo", "x")
    assert told.endswith(
        "whether others do for it is not seen: there is none: install gcc"
    )


def test_a_library_that_is_gone_is_one_sentence(linked, libraries):
    argv, _ = served((linked("libmpi.so.12"),), os.environ, "")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"impi: {os.uname().nodename} has no /cache/mpich: start again, with an IMPI_CACHE that "
        "all nodes have\n"
    )


def test_a_client_is_told_what_is_compiled(linked, monkeypatch, tmp_path):
    def library(abi, environ, behind="", tell=None):
        tell(f"compiling {abi}{' before ' * bool(behind)}{behind}")
        return Path("/bin/sh")

    monkeypatch.setattr(build, "library", library)
    told: list[str] = []
    program = linked("libmpi.so.12")
    served((program,), os.environ, "/own/libmpi.so.12", tell=told.append)
    served((program,), os.environ, "", tell=told.append)
    assert told == ["compiling mpich before /own/libmpi.so.12", "compiling mpich"]


def test_an_abi_is_in_all_processes(libraries):
    argv, told = served(("run.sh",), os.environ, "/own/libmpi.so.12", "mpich")
    preload = "LD_PRELOAD=/cache/mpich /cache/libmpi_mpifh.so.40 /cache/usher"
    assert variables(argv) == (
        preload,
        "IMPI_STANDS_IN=mpich",
        "IMPI_BEHIND=/own/libmpi.so.12",
        "run.sh",
    )
    assert told.startswith("stand-in mode")


def test_without_a_library_of_the_client_ours_stands_in(linked, libraries):
    program = linked("libmpi.so.12")
    environ = {**os.environ, "LD_PRELOAD": "mine.so"}
    argv, told = served((program, "--steps"), environ, "")
    expected = (
        "LD_PRELOAD=mine.so /cache/mpich /cache/libmpi_mpifh.so.40",
        "IMPI_STANDS_IN=mpich",
    )
    assert variables(argv) == (*expected, program, "--steps")
    assert told == "stand-in mode: impi's library is the program's libmpi.so.12"


def test_ours_stands_before_the_library_that_the_program_was_compiled_for(
    linked, libraries, tmp_path
):
    program = linked("libmpi.so.12")
    own, other = tmp_path / "libmpi.so.12", tmp_path / "libmpi.so.40"
    other.touch()
    argv, told = served((program,), os.environ, str(own))
    assert variables(argv)[0] == f"LD_PRELOAD=/cache/mpich-front {own}"
    assert told.startswith(f"front mode: impi's library stands before {own}")
    assert served((program,), os.environ, str(other))[1].startswith("stand-in mode")


def made(tmp_path, name: str, text: str, *more: str) -> str:
    """Return the path of a shared library, or a program, of a C text."""
    (tmp_path / "more.c").write_text(text)
    kind = (
        ["-shared", "-fPIC", "-Wl,--allow-shlib-undefined"]
        if ".so" in name
        else ["-Wl,--allow-shlib-undefined"]
    )
    out = str(tmp_path / name)
    subprocess.run(
        ["cc", *kind, "-o", out, str(tmp_path / "more.c"), "-Wl,--no-as-needed", *more],
        check=True,
    )
    return out


def test_a_library_that_lacks_what_the_program_needs_has_no_front(
    linked, libraries, tmp_path
):
    """As C++ programs for Open MPI 4 under Open MPI 5."""
    linked("libmpi.so.40")
    own = str(tmp_path / "libmpi.so.40")
    bindings = made(
        tmp_path,
        "libbindings.so",
        "extern int ompi_gone; int *at(void) { return &ompi_gone; }",
        own,
    )
    program = made(
        tmp_path,
        "cxx",
        "extern int *at(void); int main(void) { return !at(); }",
        bindings,
        own,
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    argv, told = served((program,), environ, own)
    assert variables(argv)[0].startswith("LD_PRELOAD=/cache/openmpi")
    assert told == (
        "stand-in mode: impi's library is the program's libmpi.so.40, "
        f"because {own} lacks ompi_gone, which the program needs"
    )


PROFILERS = {
    "calls": "int PMPI_Send(void); int go(void) { return PMPI_Send(); }",
    "asks": 'const char *name = "PMPI_Send"; int go(void) { return 0; }',
    "has": "int MPI_Send(void) { return 0; } int go(void) { return MPI_Send(); }",
}


@pytest.mark.clause("2.2.2")
@pytest.mark.parametrize("kind", sorted(PROFILERS))
def test_a_profiler_has_no_front_and_comes_first(linked, libraries, tmp_path, kind):
    linked("libmpi.so.12")
    own = str(tmp_path / "libmpi.so.12")
    tool = made(tmp_path, "libtool.so", PROFILERS[kind], own)
    program = made(
        tmp_path, "tooled", "int go(void); int main(void) { return go(); }", tool, own
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    argv, told = served((program,), environ, own)
    first = f"{tool} " if kind == "has" else ""
    assert (
        variables(argv)[0]
        == f"LD_PRELOAD={first}/cache/mpich /cache/libmpi_mpifh.so.40"
    )
    assert told.endswith(
        "because libtool.so calls MPI by PMPI_ names, or has MPI functions of its own"
    )
    plain = made(
        tmp_path,
        "plain",
        "int MPI_Init(void); int main(void) { return MPI_Init == 0; }",
        own,
    )
    assert served((plain,), environ, own)[1].startswith("front mode")
    assert served((plain,), {**environ, "LD_PRELOAD": tool}, own)[1] == told
    argv, again = served(("env", f"LD_PRELOAD={tool}", plain), environ, own)
    assert again == told
    assert variables(argv)[0].startswith(f"LD_PRELOAD={tool} ")


def test_a_sanitizer_comes_before_all(linked, libraries, tmp_path):
    program = linked("libasan.so.8", "libmpi.so.12", "libmsanity.so")
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": "/tool.so"}
    argv, _ = served((program,), environ, "")
    first = f"LD_PRELOAD={tmp_path}/libasan.so.8 /tool.so /cache/mpich "
    assert variables(argv)[0].startswith(first)


def test_a_tool_may_start_the_program(linked, libraries):
    program = linked("libmpi.so.40")
    argv, _ = served(("nice", "-n", "1", program), os.environ, "")
    assert variables(argv)[0] == "LD_PRELOAD=/cache/openmpi /cache/usher"
    assert variables(argv)[1:] == (
        "IMPI_STANDS_IN=openmpi",
        "IMPI_BEHIND=",
        "nice",
        "-n",
        "1",
        program,
    )


def test_compiled_programs_have_no_use_for_it():
    argv = (
        "/bin/sh",
        "-c",
        "",
        "impi",
        "lib",
        "LD_PRELOAD=libmpi.so.12",
        "IMPI_STANDS_IN=mpich",
        "/tmp/ring",
    )
    with pytest.raises(
        UsageError,
        match="--handles is for programs in Python, and ring is a compiled one",
    ):
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
    assert (
        "IMPI_HANDLES: there is no ABI 'lam'; the choices are standard, mpich, openmpi"
        in capfd.readouterr().err
    )
