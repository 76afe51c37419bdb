"""``impirun --handles``: programs in Python whose extension modules take handles of C."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import mpi4py
import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import build, compilation, mpi4py_extension
from impi.cli import impicc
from impi.launch.start import compiled

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent.parent / "programs"
PROGRAM = str(PROGRAMS / "handles.py")
LAYOUTS = (
    ("pure:1", "pure:1"),
    ("mpich:1", "openmpi:1"),
    ("openmpi:1", "mpich:2", "pure:1"),
)


@pytest.fixture(scope="session")
def adder(tmp_path_factory):
    """``adder(abi) -> environment``: the extension module, compiled for an ABI, on PYTHONPATH."""
    top = tmp_path_factory.mktemp("adder")

    def make(abi: str) -> dict[str, str]:
        folder = top / abi
        if not folder.exists():
            made = top / f"{abi}.so"
            argv = [
                "-shared",
                "-fPIC",
                "-w",
                f"-I{sysconfig.get_path('include')}",
                f"-I{mpi4py.get_include()}",
            ]
            argv += ["-o", str(made), str(PROGRAMS / "adder.c")]
            try:
                if abi == "standard":
                    command = impicc.command_of(argv, os.environ)
                else:
                    compilation.compiler()
                    prefix = ROOT / ".mpi" / abi
                    if not (prefix / "include" / "mpi.h").exists():
                        pytest.skip(f"{prefix} is missing: 'make test' installs it")
                    # As the vendor's own mpicc does: the vendor's library, by its path.
                    command = [
                        "cc",
                        f"-I{prefix}/include",
                        *argv,
                        f"-L{prefix}/lib",
                        "-lmpi",
                        f"-Wl,-rpath,{prefix}/lib",
                    ]
            except LaunchError as error:
                pytest.skip(str(error))
            subprocess.run(command, check=True)
            folder.mkdir()
            made.rename(folder / f"adder{EXTENSION_SUFFIXES[0]}")
        return {"PYTHONPATH": str(folder)}

    return make


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("layout", LAYOUTS, ids="+".join)
@pytest.mark.parametrize(
    "abi", [pytest.param("standard", marks=pytest.mark.proof), "mpich", "openmpi"]
)
def test_an_extension_module_adds_across_clients(adder, run_job, abi, layout):
    # Compiling it outlasts the deadline of a job
    mpi4py_extension.extension(abi, sys.executable, os.environ, print)
    done = run_job([PROGRAM], layout, environ={**adder(abi), "IMPI_HANDLES": abi})
    assert done.codes == [0] * (1 + len(layout)), done
    size = sum(int(client.partition(":")[2]) for client in layout)
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of {size}: right" for rank in range(size)
    ]
    assert not re.search("Traceback|Warning:(?! localhost)", str(done)), done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("exit", 3, ""),
        ("raise", 1, "AssertionError: by rank 0"),
        ("abort", 7, "MPI_Abort of rank 0"),
        ("finalize", 0, ""),
        ("module", 0, ""),
        (
            "thread",
            1,
            "is not supported with procs of client 1: IMPI 0.0 has no one-sided communication",
        ),
    ],
)
def test_ends_of_programs_with_handles(adder, run_job, how, code, told):
    old = ["--impi-version", "0.0"] if how == "thread" else []  # which lacks something
    options = {rank: ["--handles", "mpich", *old] for rank in (0, 1)}
    done = run_job(
        [PROGRAM, how], ["pure:1", "pure:1"], environ=adder("mpich"), options=options
    )
    assert done.clients[0].code == code, done
    assert told in done.clients[0].err
    assert "rank 0 of 2: right" in done.clients[0].out
    assert bool(done.clients[1].code) == bool(code)
    assert ("ended with 2" in done.clients[0].out) == (how == "module")
    assert "late:" not in done.clients[0].err


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_an_abort_by_mpich_is_told_once(adder, run_job):
    """MPICH's MPI_Abort calls exit(), which is not an end without MPI_Finalize then."""
    environ = {**adder("openmpi"), "IMPI_HANDLES": "openmpi"}
    failing = run_job(
        [PROGRAM, "abort"], ["mpich:1", "pure:1"], environ=environ
    ).clients[0]
    assert failing.code == 7, failing
    assert "without MPI_Finalize" not in failing.err, failing.err


HOLDS = """
import ctypes, errno, sys, time
from mpi4py import MPI
held = ctypes.PyDLL(sys.argv[1])
begin = time.process_time()
while time.process_time() < begin + 0.2:
    pass
assert held.hold(int(sys.argv[2])) == errno.ETIMEDOUT
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize(("seconds", "is_told"), [(14, True), (3, False)])
def test_an_extension_that_waits_with_pythons_lock_is_told(
    run_job, tmp_path, seconds, is_told
):
    """Its thread waits in MPI for the lock: nothing but this sentence would ever be seen."""
    prefix, made = ROOT / ".mpi" / "mpich", tmp_path / "held.so"
    command = ["cc", "-shared", "-fPIC", f"-I{prefix}/include", "-o", str(made)]
    command += [str(PROGRAMS / "held.c"), f"-L{prefix}/lib", "-lmpi"]
    subprocess.run(command, check=True)
    build.library("mpich", os.environ)  # outlasts the deadline of a job
    (tmp_path / "holds.py").write_text(HOLDS)
    done = run_job(
        [str(tmp_path / "holds.py"), str(made), str(seconds)],
        ["pure:1", "pure:1"],
        environ={"IMPI_HANDLES": "mpich"},
    )
    assert done.codes == [0, 0, 0], done
    for client in done.clients:
        assert (
            "a thread holds Python's lock and has waited for 10 s" in client.err
        ) == is_told
        assert client.err.count("SCOTCH_PTHREAD_NUMBER") == is_told


def test_without_the_switch_the_error_names_it(adder, run_job):
    done = run_job([PROGRAM], ["pure:1"], environ=adder("mpich"))
    assert done.clients[0].code == 1
    assert "impirun --handles" in done.clients[0].err, done


@pytest.mark.slow
def test_options_of_mpi4py_are_heeded(run_job, tmp_path):
    program = tmp_path / "options.py"
    program.write_text(
        "import mpi4py\nmpi4py.rc.initialize = False\nmpi4py.rc.errors = 'fatal'\nfrom mpi4py import MPI\n"
        "assert not MPI.Is_initialized()\nMPI.Init()\nworld = MPI.COMM_WORLD\n"
        "assert world.Get_errhandler() == MPI.ERRORS_ARE_FATAL\nassert world.allreduce(1) == 2\nMPI.Finalize()\n"
    )
    options = {rank: ["--handles", "openmpi"] for rank in (0, 1)}
    done = run_job([str(program)], ["pure:1", "pure:1"], options=options)
    assert done.codes == [0, 0, 0], done
    program.write_text(
        "import mpi4py\nmpi4py.rc.finalize = False\nfrom mpi4py import MPI\n"
    )
    done = run_job([str(program)], ["pure:1"], options=options)
    assert done.clients[0].code == 1
    assert (
        "ended without MPI.Finalize(), which the options in mpi4py.rc leave to the program"
        in done.clients[0].err
    )


def test_what_is_missing_is_one_sentence(tmp_path, monkeypatch):
    ready = build.library("standard", os.environ).parent
    (tmp_path / ready.name).symlink_to(ready)
    environ = {**os.environ, "IMPI_CACHE": str(tmp_path), "PIP_NO_INDEX": "1"}
    empty = mpi4py_extension._Mpi4py(
        sys.executable, sys.version, "4.1.2", (tmp_path,), EXTENSION_SUFFIXES[0]
    )
    monkeypatch.setattr(mpi4py_extension, "_installed", lambda *_: empty)
    with pytest.raises(
        LaunchError,
        match=r"has no extension for MPICH's ABI: install mpi4py from its wheel with",
    ):
        mpi4py_extension.extension("mpich", sys.executable, environ, print)
    told: list[str] = []
    with pytest.raises(
        LaunchError,
        match=r"cannot be compiled .* pip says: .*mpi4py.*must reach a package index",
    ):
        mpi4py_extension.extension("standard", sys.executable, environ, told.append)
    assert told == [
        "compiling mpi4py 4.1.2 for the standard ABI, once for this Python; it takes minutes"
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(LaunchError, match="need a C compiler on this machine"):
        mpi4py_extension.extension(
            "standard",
            sys.executable,
            {**environ, "IMPI_CACHE": str(tmp_path / "other")},
            print,
        )


@pytest.mark.slow
def test_every_name_of_a_library_has_its_functions():
    """numba-mpi looks for a file of such a name among those that are mapped, and asks it alone."""
    for path in build.preloaded("mpich", os.environ):
        assert ctypes.CDLL(str(path)).MPI_Send


@pytest.fixture
def python_of_a_site(tmp_path):
    """``python_of_a_site(needed) -> path``: a Python with a mpi4py of a site, or with none."""

    def make(needed: str) -> Path:
        site = tmp_path / "site"
        if needed:
            (site / "mpi4py").mkdir(parents=True)
            (site / "mpi4py" / "__init__.py").touch()
            info = site / "mpi4py-3.1.4.egg-info"
            info.write_text("Metadata-Version: 1.1\nName: mpi4py\nVersion: 3.1.4\n")
            extension = site / "mpi4py" / f"MPI{EXTENSION_SUFFIXES[0]}"
            extension.write_bytes(f"\0{needed}\0".encode())
        python = tmp_path / "python3"
        # -S: without the packages of this Python
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n'
        )
        python.chmod(0o755)
        return python

    return make


def test_the_python_of_the_program_is_asked(python_of_a_site, tmp_path):
    """Debian's mpi4py, conda's, and a site's own build are found by what their MPI module needs."""
    python = python_of_a_site("libmpi.so.40")
    argv = ("numactl", str(python), "program.py")
    made = compiled.handles_environment("openmpi", argv, os.environ, print)
    mine = tmp_path / "site" / "mpi4py" / f"MPI{EXTENSION_SUFFIXES[0]}"
    assert made["IMPI_HANDLES_FROM"].split(os.pathsep)[1] == str(mine)
    wheel = str(Path(mpi4py.__file__).parent)
    assert wheel in made["IMPI_MPI4PY_FROM"].split(os.pathsep)
    with pytest.raises(
        LaunchError, match=r"has no extension for MPICH's ABI: .*--handles openmpi"
    ):
        compiled.handles_environment("mpich", argv, os.environ, print)
    script = tmp_path / "script"
    script.write_text(f"#!{python}\n")
    made = compiled.handles_environment("openmpi", (str(script),), os.environ, print)
    assert made["IMPI_HANDLES_FROM"].split(os.pathsep)[1] == str(mine)


PREFIX = """
from mpi4py import MPI
maps = open("/proc/self/maps").read()
of_prefix = sum("/conda/lib/libmpi" in line for line in maps.splitlines())
world = MPI.COMM_WORLD
print(world.allreduce(1), MPI._sizeof(world), of_prefix, "/conda/" in MPI.__file__, flush=True)
"""


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.vendor("mpich")
def test_a_prefix_like_condas_has_its_own_mpi4py(run_job, tmp_path):
    """One MPI module without a name of an ABI, and its library in the same prefix."""
    prefix, wheel = tmp_path / "conda", Path(mpi4py.__file__).parent
    venv = [sys.executable, "-m", "venv", "--without-pip", str(prefix)]
    subprocess.run(venv, check=True)
    site = prefix / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    modules = shutil.ignore_patterns("MPI.*.so", "__pycache__")
    shutil.copytree(wheel, site / "mpi4py", ignore=modules)
    for path in wheel.parent.iterdir():
        if path.name.startswith(("cffi", "_cffi", "pycparser", "mpi4py-")):
            (site / path.name).symlink_to(path)
    of_mpich = [
        path
        for path in wheel.glob("MPI.*.so")
        if b"\0libmpi.so.12\0" in path.read_bytes()
    ]
    if not of_mpich:
        pytest.skip("this mpi4py has no extension for MPICH: install its wheel")
    own = site / "mpi4py" / f"MPI{EXTENSION_SUFFIXES[0]}"
    shutil.copy(of_mpich[0], own)
    for path in (ROOT / ".mpi" / "mpich" / "lib").glob("lib*.so*"):
        (prefix / "lib" / path.name).symlink_to(path)
    python = str(prefix / "bin" / "python")
    build.library("mpich", os.environ)  # outlasts the deadline of a job
    (tmp_path / "sums.py").write_text(PREFIX)
    done = run_job(
        [python, str(tmp_path / "sums.py")],
        ["openmpi:1", "pure:1"],
        options={rank: ["--handles", "mpich"] for rank in (0, 1)},
    )
    assert done.codes == [0, 0, 0], done
    assert done.out.splitlines() == ["2 4 0 True"] * 2, done


def test_no_mpi4py_is_one_sentence(python_of_a_site, tmp_path):
    python = python_of_a_site("")
    with pytest.raises(
        LaunchError,
        match=rf"--handles gives programs mpi4py itself, which {python} does not have: install it",
    ):
        mpi4py_extension.extension("mpich", str(python), os.environ, print)
    with pytest.raises(LaunchError, match="asks /bin/false for its mpi4py, and has no"):
        mpi4py_extension.extension("mpich", "/bin/false", os.environ, print)
