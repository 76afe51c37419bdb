"""Programs behind scripts, interpreters and wrappers: each is in the job, or it says why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cabi_programs import PROGRAMS, ROOT, compile_program

from impi.base.errors import LaunchError
from impi.cabi.library.usher import usher
from impi.launch.start.ushered import FOREIGN

PAIRS = (
    ["mpich:2", "openmpi:1"],
    ["mpich:1", "pure:2"],
    ["pure:1", "openmpi:1"],
    ["mpich:1", "openmpi:1", "pure:1"],
)
OWN = {"mpich": "mpich/lib/libmpi.so.12", "openmpi": "openmpi/lib/libmpi.so.40"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vendor("mpich"),
    pytest.mark.vendor("openmpi"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    try:
        usher(os.environ)
    except LaunchError as error:
        pytest.skip(str(error))

    def compiled(name: str, abi: str, *flags: str) -> str:
        if abi not in OWN:
            return compile_program(folder, name, abi, *flags)
        # As the vendor's mpicc does
        found = f"-Wl,-rpath,{(ROOT / '.mpi' / OWN[abi]).parent}"
        return compile_program(folder, name, abi, found, *flags)

    return compiled


@pytest.fixture
def opened(compiled, tmp_path):
    """``opened(abi) -> path``: a program that is linked with no libmpi."""

    def make(abi: str) -> str:
        out, include = tmp_path / f"opened-{abi}", ROOT / ".mpi" / abi / "include"
        subprocess.run(
            ["cc", f"-I{include}", "-o", str(out), str(PROGRAMS / "opened.c"), "-ldl"],
            check=True,
        )
        return str(out)

    return make


@pytest.fixture
def script(tmp_path):
    def write(text: str, shell: str = "/bin/sh") -> str:
        path = tmp_path / "run.sh"
        path.write_text(f"#!{shell}\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return write


def whole(done) -> str:
    return "".join(client.err for client in done.clients)


def right(done, count):
    assert done.codes == [0] * len(done.codes), done
    total = count * (count - 1) // 2
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of {count}: sum {total}" for rank in range(count)
    ], done


WAYS = {
    "exec": 'exec {program} "$@"',
    "call": "{program}; code=$?; true; exit $code",
    "env -i": "env -i {program}",
    "a cleared environment, and a shell": "exec env -i /bin/sh -c 'exec {program}'",
    "another LD_PRELOAD": "export LD_PRELOAD=; export PYTHONPATH=/nowhere; exec {program}",
    "a subshell's child": "( {program} & wait $! )",
}


PYTHONS = {
    "a child": "import subprocess, sys; sys.exit(subprocess.run([sys.argv[1]]).returncode)",
    "in its place": "import os, sys; os.execv(sys.argv[1], sys.argv[1:2])",
    "a shell": "import os, sys; sys.exit(os.waitstatus_to_exitcode(os.system('true; exec ' + sys.argv[1])))",
    "another Python": "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', "
    "'import os, sys; os.execv(sys.argv[1], sys.argv[1:])', sys.argv[1]]))",
}
ITSELF = """
import os, subprocess, sys
from mpi4py import MPI

left = [name for name in ("LD_PRELOAD", "IMPI_USHER") if name in os.environ]
subprocess.run(["true"], check=True)
comm = MPI.COMM_WORLD
print(f"rank {comm.rank} of {comm.size}: sum {comm.allreduce(comm.rank)}", *left)
"""


@pytest.mark.parametrize("way", sorted(PYTHONS))
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_a_program_behind_python_is_in_the_job(way, abi, compiled, run_job, tmp_path):
    path = tmp_path / "starts.py"
    path.write_text(PYTHONS[way])
    clients = PAIRS[1] if abi == "mpich" else PAIRS[0]
    right(run_job([sys.executable, str(path), compiled("world", abi)], clients), 3)


def test_a_rank_in_python_may_have_a_program_as_its_argument(
    compiled, run_job, tmp_path
):
    path = tmp_path / "itself.py"
    path.write_text(ITSELF)
    right(run_job([sys.executable, str(path), compiled("world", "mpich")], PAIRS[1]), 3)


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_a_program_behind_a_script_is_in_the_job(way, abi, compiled, run_job, script):
    clients = PAIRS[1] if abi == "mpich" else PAIRS[0]
    right(
        run_job([script(WAYS[way].format(program=compiled("world", abi)))], clients), 3
    )


@pytest.mark.parametrize("clients", PAIRS, ids="+".join)
def test_on_all_clients(clients, compiled, run_job, script):
    count = sum(int(client.partition(":")[2]) for client in clients)
    right(run_job([script(f"exec {compiled('world', 'mpich')}")], clients), count)


def test_a_program_of_impicc(compiled, run_job, script):
    """It has impi's library by itself, which must stay apart from the client's own."""
    right(run_job([script(f"exec {compiled('world', 'impicc')}")], PAIRS[3]), 3)


def test_the_exit_code_is_the_programs(compiled, run_job, script):
    done = run_job(
        [script(f"exec {compiled('world', 'mpich')} 7")], ["mpich:1", "pure:1"]
    )
    assert done.codes[1:] == [7, 7], done


def test_wrappers_that_are_no_scripts(compiled, run_job):
    program = compiled("world", "openmpi")
    right(run_job(["/usr/bin/env", "-i", program], PAIRS[3]), 3)
    right(run_job(["nice", "-n", "1", "sh", "-c", f"true; {program}"], PAIRS[1]), 3)


def test_an_interpreter_that_is_not_python(compiled, run_job, tmp_path):
    if (perl := shutil.which("perl")) is None:
        pytest.skip("there is no perl")
    (tmp_path / "run.pl").write_text(
        f"%ENV = (); system('{compiled('world', 'mpich')}'); exit($? >> 8);\n"
    )
    right(run_job([perl, str(tmp_path / "run.pl")], PAIRS[1]), 3)


def test_python_behind_a_script_that_clears_the_environment(run_job, script):
    text = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(f'rank {w.rank} of {w.size}: sum {w.allreduce(w.rank)}')"
    right(run_job([script(f'exec env -i {sys.executable} -c "{text}"')], PAIRS[0]), 3)


CLEARS = """
import os, sys

if "after" not in sys.argv:
    os.environ.clear()
from mpi4py import MPI

comm = MPI.COMM_WORLD
print(f"rank {comm.rank} of {comm.size}: sum {comm.allreduce(comm.rank)}")
os.environ.clear()
"""


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "behind a script"])
@pytest.mark.parametrize("when", ["at once", "after"])
@pytest.mark.parametrize(
    "clients", [PAIRS[0], PAIRS[1], ["pure:1", "pure:2"]], ids="+".join
)
def test_a_program_may_clear_its_own_environment(
    when, clients, behind, compiled, run_job, script, tmp_path
):
    """No variable of the job is there when it uses MPI, or when it ends."""
    path = tmp_path / "clears.py"
    path.write_text(CLEARS)
    words = [["after"], []][when == "at once"]
    for argv in (
        [sys.executable, str(path), *words],
        [compiled("clears", "mpich"), *words],
    ):
        right(run_job([*[script('"$@"')] * behind, *argv], clients), 3)


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    """The words that start a program as a user who may not read impi's libraries."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() or setpriv is None:
        pytest.skip("another user takes root, and setpriv")
    monkeypatch.setenv("IMPI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    return [setpriv, "--reuid", "65534", "--clear-groups"]


@pytest.mark.parametrize("way", ["direct", "script", "shell"])
@pytest.mark.parametrize(
    "clients", [["mpich:2", "mpich:1"], ["pure:1", "pure:1"]], ids="+".join
)
def test_another_user_is_no_job_of_its_own(
    way, clients, compiled, nobody, run_job, script
):
    """impi's library is in a folder of the first user, and the loader only warns."""
    program = compiled("world", "mpich")
    argv = {
        "direct": [*nobody, program],
        "script": [script('"$@" || true'), *nobody, program],
        "shell": [*nobody, "/bin/sh", "-c", f"{program}; true"],
    }[way]
    failed = run_job(argv, clients)
    assert 0 not in failed.codes[1:], failed
    assert "cannot be read, by another user" in whole(failed), failed


def setuid(program: Path) -> list[str]:
    os.chown(program, 65534, -1)
    program.chmod(0o4755)
    return []


def capable(program: Path) -> list[str]:
    """A file's capabilities add something for another user than root."""
    tools = [shutil.which(name) for name in ("setcap", "setpriv")]
    if None in tools:
        pytest.skip("a file with capabilities takes setcap, and setpriv")
    subprocess.run([str(tools[0]), "cap_net_raw+ep", str(program)], check=True)
    return [str(tools[1]), "--reuid", "65534", "--clear-groups"]


@pytest.fixture(scope="module")
def readable():
    """Return a folder that other users may read; libraries are compiled in it once."""
    # Not below pytest's own: that one is for its user alone.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "cache").mkdir()  # impi's own would be for its user alone
        yield Path(folder)


@pytest.fixture
def rights(compiled, readable, monkeypatch):
    """``rights(kind) -> (user, program)``: one that runs with more rights than who starts it."""
    if os.geteuid():
        pytest.skip("a file of another user takes root")
    monkeypatch.setenv("IMPI_CACHE", str(readable / "cache"))

    def make(kind) -> tuple[list[str], str]:
        program = Path(shutil.copy(compiled("world", "mpich"), readable / "rights"))
        return kind(program), str(program)

    return make


STARTS = {
    "exec": "exec {}",
    "by its name": 'PATH="$(dirname {}):$PATH" exec env rights',
    "as its shell": "{} && true",
}


@pytest.mark.parametrize(
    ("kind", "way"),
    [(setuid, ""), *((kind, way) for kind in (setuid, capable) for way in STARTS)],
)
def test_more_rights_are_no_job_of_their_own(kind, way, rights, run_job):
    user, program = rights(kind)
    shell = ["/bin/sh", "-c", STARTS[way].format(program)] if way else [program]
    argv = [*user, *shell]
    failed = run_job(argv, ["mpich:2", "mpich:1"])
    assert 0 not in failed.codes[1:], failed
    assert "start a copy without that bit" in whole(failed), failed


@pytest.mark.parametrize("way", ["", *STARTS])
def test_a_mount_that_grants_no_rights(way, compiled, run_job, script, tmp_path):
    """With nosuid the loader takes impi's library, and the program is in the job."""
    place = tmp_path / "nosuid"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "nosuid", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("a mount with nosuid takes root")
    try:
        program = Path(shutil.copy(compiled("world", "mpich"), place / "rights"))
        setuid(program)
        argv = [script(STARTS[way].format(program)) if way else str(program)]
        right(run_job(argv, ["mpich:2", "mpich:1"]), 3)
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("vendors", [("mpich", "openmpi"), ("mpich", "pure")])
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_a_program_that_opens_libmpi(vendors, abi, opened, run_job):
    program = opened(abi)
    library = str(ROOT / ".mpi" / OWN[abi])
    clients = [f"{vendor}:1" for vendor in vendors]
    abis = {0: ["--abi", abi], 1: ["--abi", abi]}
    for name in (Path(library).name, "libmpi.so", library):
        done = run_job([program, name], clients, options=abis)
        assert done.codes == [0, 0, 0], done
        assert sorted(done.out.splitlines()) == [
            f"rank {rank} of 2" for rank in range(2)
        ]
    other = {"mpich": "openmpi", "openmpi": "mpich"}[abi]
    for options in ({}, {0: ["--abi", other], 1: ["--abi", other]}):
        failed = run_job([program, library], clients, options=options)
        assert 0 not in failed.codes, failed
        assert FOREIGN.format(title=f"opened-{abi}") in whole(failed), failed


def test_an_end_that_a_script_hides(opened, run_job, script):
    program = opened("mpich")
    failed = run_job(
        [script(f"{program} {ROOT / '.mpi' / OWN['mpich']} || true; exit 0")],
        ["pure:1", "mpich:1"],
    )
    assert 0 not in failed.codes[1:], failed
    assert FOREIGN.format(title="opened-mpich") in whole(failed), failed


def test_a_python_that_hides_impi_behind_a_script(run_job, script):
    failed = run_job(
        [script(f"{sys.executable} -I -c 'from mpi4py import MPI'")],
        ["mpich:1", "mpich:1"],
    )
    assert 0 not in failed.codes[1:], failed
    assert "leave out options -I, -E and -S" in whole(failed), failed


def test_scripts_without_mpi_end_as_they_do(run_job, script):
    done = run_job([script("ls / >/dev/null; env -i true; echo well")], PAIRS[0])
    assert done.codes == [0, 0, 0], done
    assert done.out.split() == ["well"] * 3, done


def test_a_library_that_is_purged_is_made_again(compiled, run_job, tmp_path):
    """Temporary files are cleaned: the folder stays, and what is in it goes."""
    environ = {"IMPI_CACHE": str(tmp_path / "my cache: two")}
    program = compiled("world", "openmpi")
    for _ in range(2):
        right(run_job([program], ["pure:2", "pure:1"], environ=environ), 3)
        [library] = tmp_path.glob("my*/openmpi-*/libmpi.so.40")
        library.unlink()


def test_a_cache_that_is_purged_under_a_script(compiled, run_job, script, tmp_path):
    """Its programs without MPI go on; one with MPI is not a job of its own."""
    environ = {"IMPI_CACHE": str(tmp_path / "cache")}
    starts = script(f"rm -rf $IMPI_CACHE; ls / >&2; {compiled('world', 'mpich')}; true")
    failed = run_job([starts], ["mpich:1", "mpich:1"], environ=environ)
    assert 0 not in failed.codes[1:], failed
    assert "or was purged: set IMPI_CACHE" in whole(failed), failed
    assert "proc\n" in whole(failed), failed


def test_a_tool_that_needs_libmpi_does_not_come_into_the_compiler(
    compiled, run_job, script, tmp_path
):
    """A cache without our library: it is compiled below the process that has the tool."""
    prefix, tool = ROOT / ".mpi" / "mpich", tmp_path / "libtool.so"
    argv = ["cc", "-shared", "-fPIC", '-DTITLE="tool"', f"-I{prefix}/include", "-o"]
    argv += [str(tool), str(PROGRAMS / "tool.c"), f"-L{prefix}/lib", "-lmpi", "-ldl"]
    subprocess.run([*argv, f"-Wl,-rpath,{prefix}/lib"], check=True)
    environ = {"IMPI_CACHE": str(tmp_path / "cache")}
    starts = script(f"export LD_PRELOAD={tool}; exec {compiled('world', 'mpich')}")
    done = run_job([starts], ["pure:1", "mpich:1"], environ=environ)
    assert done.codes == [0, 0, 0], done
    assert "tool: 2 ranks, 2 inits" in done.out, done


def test_a_home_that_cannot_be_written(compiled, run_job, tmp_path):
    (tmp_path / "home").touch()
    environ = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    right(
        run_job([compiled("world", "mpich")], ["pure:2", "mpich:1"], environ=environ), 3
    )
