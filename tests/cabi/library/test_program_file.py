"""The kinds of executables, and the sentences about those that cannot be served."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from impi.base.errors import LaunchError, UsageError
from impi.cabi.library import build
from impi.cabi.library.program_file import is_elf, is_privileged, program_file
from impi.launch.start.compiled import served


@pytest.fixture
def linked(tmp_path):
    """``linked(*sonames) -> path``: a program that needs libraries of these names."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")

    def make(
        *sonames: str, static: bool = False, text: str = "", body: str = ""
    ) -> str:
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
            "#include <stdio.h>\n"
            f'const char *text = "{text}"; int main(void) {{ {body} return text[0] > 200; }}\n'
        )
        more = ["-static"] if static else ["-Wl,--no-as-needed", *libraries]
        subprocess.run(["cc", "-o", str(out), str(source), *more], check=True)
        return str(out)

    return make


@pytest.mark.parametrize(
    ("soname", "abi"),
    [
        ("libmpi_abi.so.1", "standard"),
        ("libmpi.so.12", "mpich"),
        ("libmpich.so.12", "mpich"),
        ("libmpi.so.40", "openmpi"),
        ("libother.so.1", ""),
    ],
)
def test_the_abi_follows_from_the_libraries_that_a_program_needs(linked, soname, abi):
    found = program_file(linked(soname), os.environ)
    assert (found.abi if found else "") == abi


def test_what_cannot_be_served_is_one_sentence(linked):
    with pytest.raises(
        UsageError,
        match=r"needs libmpi.so.99, and impi stands in for libmpi.so.12, libmpi.so.40",
    ):
        program_file(linked("libmpi.so.99"), os.environ)
    with pytest.raises(UsageError, match="needs libraries of two MPI families"):
        program_file(linked("libmpi.so.12", "libmpi.so.40"), os.environ)
    with pytest.raises(UsageError, match=r"has its MPI library inside \(static\)"):
        program_file(linked(static=True, text="MPI_Init"), os.environ)
    assert program_file(linked(static=True), os.environ) is None


@pytest.mark.parametrize("static", [True, False])
def test_a_look_at_a_program_does_not_run_it(linked, tmp_path, static):
    """A static one ran once more for each look: its loader is in it, and lists nothing."""
    ran = tmp_path / "ran"
    path = linked(static=static, body=f'fclose(fopen("{ran}", "a"));')
    assert program_file(path, os.environ) is None
    assert not ran.exists()
    subprocess.run([path], check=True)
    assert ran.exists()


def test_what_is_no_program_is_one_sentence(linked, tmp_path):
    path = Path(linked("libmpi.so.12"))
    path.chmod(0o644)
    with pytest.raises(UsageError, match="cannot be started: Permission denied"):
        program_file(str(path), os.environ)
    path.chmod(0o755)
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    with pytest.raises(UsageError, match="ends within its header; copy or link it"):
        program_file(str(path), os.environ)
    path.write_bytes(whole.replace(b"/lib64/ld-linux", b"/lib64/no-linux"))
    with pytest.raises(UsageError, match=r"its loader /lib64/no-linux.*: No such file"):
        program_file(str(path), os.environ)


def test_another_machines_program(linked, tmp_path):
    path = Path(linked("libmpi.so.12"))
    octets = bytearray(path.read_bytes())
    octets[18:20] = struct.pack("<H", 0x1234)
    path.write_bytes(octets)
    with pytest.raises(
        UsageError, match="was compiled for another processor than this machine's"
    ):
        program_file(str(path), os.environ)
    assert is_elf(str(path))
    assert not is_elf(str(tmp_path / "none"))
    assert not is_elf(__file__)


def test_no_compiler_is_one_sentence_and_only_for_compiled_programs(
    linked, tmp_path, monkeypatch
):
    program = linked("libmpi_abi.so.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    environ = {
        **os.environ,
        "IMPI_CACHE": str(tmp_path / "cache"),
        "LD_LIBRARY_PATH": str(tmp_path),
    }
    with pytest.raises(
        LaunchError,
        match="need a C compiler on this machine: install gcc",
    ):
        served((program,), environ, "")
    assert served(("/bin/sh", "x.sh"), environ, "")[0] == ("/bin/sh", "x.sh")


def test_an_argument_may_be_any_file_and_a_wrapper_may_start_the_program(
    linked, tmp_path
):
    foreign = bytearray(Path(linked("libother.so.1")).read_bytes())
    foreign[18:20] = struct.pack("<H", 0x1234)
    (tmp_path / "firmware").write_bytes(foreign)
    argv = ("/usr/bin/python3", "look.py", str(tmp_path / "firmware"))
    assert served(argv, os.environ, "")[0] == argv
    program = linked("libmpi_abi.so.1")
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command, way = served(("/bin/sh", str(tmp_path / "firmware"), program), environ, "")
    assert way == "stand-in mode: impi's library is the program's libmpi_abi.so.1"
    assert command[5].startswith("LD_PRELOAD=") and command[-1] == program


@pytest.mark.parametrize(
    ("needs", "library", "front"),
    [
        (("libmpi.so.12",), "libmpi.so.12", True),
        (("libmpi.so.12",), "libmpi.so.40", False),
        (("libmpich.so.12",), "libmpi.so.12", False),
        (("libmpi.so.12", "libmpifort.so.12"), "libmpi.so.12", False),
        (("libmpi.so.40",), "", False),
    ],
)
def test_the_mode_follows_from_program_and_client(
    linked, tmp_path, needs, library, front
):
    program = linked(*needs)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    if front:
        # A library before one of this folder is of no use to anybody later.
        environ["IMPI_CACHE"] = str(tmp_path / "cache")
    if library:
        (tmp_path / library).exists() or shutil.copy(
            tmp_path / needs[0], tmp_path / library
        )
    command, way = served((program,), environ, library and str(tmp_path / library))
    assert way.startswith(
        "front mode: impi's library stands before" if front else "stand-in mode"
    )
    assert (
        str(tmp_path / library) in command[5].removeprefix("LD_PRELOAD=").split()
    ) == front


def test_a_cffi_of_another_version_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cffi.py").write_text(
        "raise Exception('Version mismatch:\\n the backend is 1.0')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cffi", raising=False)
    with pytest.raises(
        LaunchError,
        match=r"finds one that is broken.*Version mismatch: the backend is 1\.0",
    ):
        build.library("standard", os.environ)


def test_folders_and_libraries_may_have_any_names(linked, tmp_path):
    """The loader prints these names as they are, in whatever encoding."""
    folder = tmp_path / os.fsdecode(b"l\xe9git-gr\xf6\xdfe \xff")
    folder.mkdir()
    soname = os.fsdecode(b"libgr\xf6\xdfe.so.1")
    path = linked(soname, "libmpi.so.40")
    moved = folder / "a.out"
    shutil.move(path, moved)
    shutil.move(tmp_path / "libmpi.so.40", folder)
    for environ in ({}, {"LD_LIBRARY_PATH": str(folder)}):
        assert program_file(str(moved), environ) is not None


def test_rights_of_a_file(monkeypatch, tmp_path):
    """The usher's C agrees with it: tests/launch/start/test_ushered.py."""
    if os.geteuid() or (setcap := shutil.which("setcap")) is None:
        pytest.skip("files with rights take root, and setcap")
    plain, capable, owned = (tmp_path / name for name in ("plain", "capable", "owned"))
    for path in (plain, capable, owned):
        shutil.copy("/bin/true", path)
    subprocess.run([setcap, "cap_net_raw+ep", str(capable)], check=True)
    os.chown(owned, 65534, 65534)
    owned.chmod(0o6755)
    assert [is_privileged(str(path)) for path in (plain, capable, owned)] == [
        *(False, False, True)
    ], "root gets nothing from capabilities"
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(os, "getegid", lambda: 65534)
    assert [is_privileged(str(path)) for path in (plain, capable, owned)] == [
        *(False, True, False)
    ], "it is that user already"
