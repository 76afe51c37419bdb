"""Programs in C as jobs of several clients: every impi.cabi module has its part in them."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.machinery import SourceFileLoader

import pytest
from _pytest.mark.structures import ParameterSet
from cabi_programs import HEADERS, PROGRAMS, ROOT
from pairs import pairs

from impi.cabi import build
from impi.cli import impicc

HELLO = ROOT / "examples" / "hello"
VENDORS = (("pure", "pure"), ("mpich", "openmpi"), ("pure", "mpich"), ("openmpi", "pure"))


def rings() -> list[ParameterSet]:
    """Each ABI with each pair of vendors: a diagonal is tested, all others are proofs.

    Where a client has front mode, stand-in mode is an option: tested on an ABI's first such pair.
    """
    found = pairs(sorted(HEADERS), [pytest.param(vendors, id="+".join(vendors)) for vendors in VENDORS])
    modes = [pytest.param(*each.values, "", marks=each.marks, id=each.id) for each in found]
    for abi in ("mpich", "openmpi"):
        with_front = [vendors for vendors in VENDORS if abi in vendors]
        for number, vendors in enumerate(with_front):
            marks = [pytest.mark.proof] if number else []
            name = f"{abi}-{'+'.join(vendors)}-stand-in"
            modes.append(pytest.param(abi, vendors, "--stand-in", marks=marks, id=name))
    return modes


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(("abi", "vendors", "mode"), rings())
def test_ring(compiled, run_job, abi, vendors, mode):
    program = compiled("ring", abi)
    done = run_job([program], [f"{vendor}:2" for vendor in vendors], options={0: mode.split(), 1: mode.split()})
    assert done.codes == [0, 0, 0], done
    lines = sorted(done.out.splitlines())
    assert lines == [f"rank {rank} of 4: right, sum 10" for rank in range(4)]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
@pytest.mark.parametrize("mode", ["", "--stand-in"])
def test_several_threads(compiled, run_job, abi, mode):
    program = compiled("threads", abi)
    done = run_job([program], [f"{abi}:2", "pure:2"], options={0: mode.split(), 1: mode.split()})
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank} of 4: 0 wrong" for rank in range(4)]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("second", ["mpich", "openmpi"])
@pytest.mark.parametrize("mode", ["--explain", "--stand-in"])
def test_both_libraries_in_one_program(compiled, run_job, second, mode):
    """Each client runs the program that was compiled for its own library."""
    argv_of = {client: [compiled("front", vendor)] for client, vendor in enumerate(("mpich", second))}
    done = run_job([], ["mpich:2", f"{second}:2"], argv_of=argv_of, options={0: [mode], 1: [mode]})
    assert done.codes == [0, 0, 0], done
    lines = sorted(done.out.splitlines())
    assert [line.partition(",")[0] for line in lines] == [f"rank {rank}: right" for rank in range(4)]
    assert any(line.endswith("operation called") for line in lines)
    assert ("front mode: impi's library stands before" in done.clients[0].err) == (mode == "--explain")


def test_the_python_side_of_a_library_is_compiled_with_it(compiled, monkeypatch):
    """Or each rank would: where PYTHONDONTWRITEBYTECODE is set, or the cache is read-only."""
    (side,) = build.library("standard", os.environ).parent.glob("impi_side_*.py")
    monkeypatch.setattr(SourceFileLoader, "source_to_code", None)
    code = SourceFileLoader("side", str(side)).get_code("side")
    assert code is not None and code.co_filename == str(side)


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["pure", pytest.param("mpich", marks=pytest.mark.vendor("mpich"))])
def test_a_rank_loads_nothing_that_makes_libraries(compiled, run_job, vendor):
    """Each of these costs milliseconds of every start."""
    program = compiled("corners", "impicc")
    run_job([program], [f"{vendor}:1", "pure:1"])  # makes what the cache has not
    argv_of = {0: ["env", "PYTHONPROFILEIMPORTTIME=1", program], 1: [program]}
    done = run_job([], [f"{vendor}:1", "pure:1"], argv_of=argv_of)
    loaded = set(re.findall(r"^import time:.*\| +([\w.]+)$", done.clients[0].err, re.MULTILINE))
    assert "impi.cabi.connection" in loaded, done
    dear = {"hashlib", "pathlib", "subprocess", "tempfile", "tomllib"}
    assert not loaded & {*dear, *(f"impi.cabi.{name}" for name in ("abi_tables", "compilation", "emit", "marshal"))}


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("abi", sorted(HEADERS))
def test_corners(compiled, run_job, abi):
    done = run_job([compiled("corners", abi)], ["mpich:1", "pure:2"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank} of 3: right" for rank in range(3)]


@pytest.mark.slow
def test_second_name(run_job, tmp_path):
    """Debian's MPICH has another name; there is no library of that name here but ours."""
    header = ROOT / ".mpi" / HEADERS["mpich"]
    if not header.exists():
        pytest.skip(f"{header} is missing: 'make test' installs it")
    source, stand_in, program = PROGRAMS / "corners.c", tmp_path / "stand_in.so", tmp_path / "corners"
    names = set(re.findall(r"\b(MPI_\w+)\(", source.read_text()))
    (tmp_path / "empty.c").write_text("".join(f"void {name}(void) {{}}\n" for name in names))
    argv = ["cc", "-shared", "-Wl,-soname,libmpich.so.12", "-o", str(stand_in), str(tmp_path / "empty.c")]
    subprocess.run(argv, check=True)
    subprocess.run(["cc", f"-I{header.parent}", "-o", str(program), str(source), str(stand_in)], check=True)
    done = run_job([str(program)], ["pure:1", "pure:1"])
    assert done.codes == [0, 0, 0], done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("abort", 7, "MPI_Abort of rank 0"),
        ("exit", 3, "rank 0 ended with 3 without MPI_Finalize"),
        ("return", 1, "rank 0 ended with 0 without MPI_Finalize"),
        ("fatal", None, "rank 0 ends the job: Send failed: MPI_ERR_"),
        ("lacking", None, "impi has no MPI_Abi_set_fortran_info yet"),
        ("after", 4, ""),
        ("well", 0, ""),
    ],
)
def test_ends(compiled, run_job, how, code, told):
    program = compiled("ends", "impicc")
    done = run_job([program], ["pure:1", "pure:1"], argv_of={0: [program, how]})
    failing = done.clients[0]
    assert (failing.code == code) if code is not None else failing.code, done
    assert told in failing.err
    assert "Traceback" not in failing.err
    assert "printed by rank 0" in failing.out


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_errors_of_the_library_behind_are_fatal(compiled, run_job):
    program = compiled("ends", "mpich")
    done = run_job([program], ["mpich:1", "pure:1"], argv_of={0: [program, "fatal-self"]})
    assert done.clients[0].code
    assert "printed by rank 0" in done.clients[0].out
    assert "Fatal error in internal_Send" in done.clients[0].err


def test_impicc_shows_its_command(capsys):
    assert impicc.main(["-show", "-c", "x.c"]) == 0
    words = capsys.readouterr().out.split()
    assert words[-2:] == ["-c", "x.c"]
    assert any(word.startswith("-I") for word in words)
    assert impicc.main([]) == 4
    assert "usage: impicc" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    ("abi", "vendors"),
    [("openmpi", VENDORS[0]), ("mpich", VENDORS[1]), ("standard", VENDORS[0]), ("standard", VENDORS[1])],
)
def test_edges(compiled, run_job, abi, vendors):
    done = run_job([compiled("edges", abi)], [f"{vendor}:2" for vendor in vendors])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: 0 errors" for rank in range(4)]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(("abi", "vendors"), [("impicc", VENDORS[1]), ("mpich", VENDORS[0]), ("openmpi", VENDORS[2])])
def test_what_others_found(compiled, run_job, abi, vendors):
    done = run_job([compiled("found", abi)], [f"{vendor}:1" for vendor in vendors])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: 0 errors" for rank in range(2)]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("vendors", VENDORS[:2], ids="+".join)
def test_sessions_without_init(compiled, run_job, vendors):
    program = compiled("sessions", "standard")
    done = run_job([program], [f"{vendors[0]}:2", f"{vendors[1]}:1"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank} of 3: sum 6" for rank in range(3)]
    failing = run_job([program, "open"], ["pure:1"]).clients[0]
    assert failing.code == 1
    assert "rank 0 ended with 0 without MPI_Finalize" in failing.err


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_programs_in_c_and_in_python_are_one_world(run_job, tmp_path):
    program = str(tmp_path / "hello")
    subprocess.run(impicc.command_of(["-o", program, str(HELLO / "hello.c")], os.environ), check=True)
    done = run_job([program], ["mpich:2", "openmpi:2"])
    assert done.codes == [0, 0, 0], done
    assert "rank 0: impi" in done.out and "rank 3: impi" in done.out
    assert "the ranks of all libraries add up to 6" in done.out
    script = tmp_path / "sum.py"
    script.write_text(
        "from array import array\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "mine, total = array('i', [world.rank]), array('i', [0])\n"
        "world.Allreduce([mine, MPI.INT], [total, MPI.INT])\nprint('python', world.rank, total[0])\n"
    )
    mixed = run_job([program], ["mpich:2", "pure:2"], argv_of={1: [str(script)]})
    assert mixed.codes == [0, 0, 0], mixed
    assert "add up to 6" in mixed.clients[0].out
    assert sorted(mixed.clients[1].out.splitlines()) == ["python 2 6", "python 3 6"]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_programs_that_are_not_position_independent(compiled, run_job):
    """UCX reads the environment when MPICH starts, and Open MPI does so at its end."""
    done = run_job([compiled("environ", "openmpi", "-no-pie")], ["mpich:1", "pure:1"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(2)]
    done = run_job([compiled("environ", "mpich", "-no-pie")], ["openmpi:1", "pure:1"])
    assert done.codes == [0, 0, 0], done
