"""Programs in C as jobs of several clients: every impi.cabi module has its part in them."""

from __future__ import annotations

import re
import subprocess

import pytest
from _pytest.mark.structures import ParameterSet
from cabi_programs import HEADERS, PROGRAMS, ROOT
from pairs import pairs

HELLO = ROOT / "examples" / "hello"
VENDORS = (
    ("pure", "pure"),
    ("mpich", "openmpi"),
    ("pure", "mpich"),
    ("openmpi", "pure"),
)


def rings() -> list[ParameterSet]:
    """Each ABI with each pair of vendors: a diagonal is tested, all others are proofs.

    Where a client has front mode, stand-in mode is an option: tested on an ABI's first such pair.
    """
    found = pairs(
        sorted(HEADERS),
        [pytest.param(vendors, id="+".join(vendors)) for vendors in VENDORS],
    )
    modes = [
        pytest.param(*each.values, "", marks=each.marks, id=each.id) for each in found
    ]
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
    done = run_job(
        [program],
        [f"{vendor}:2" for vendor in vendors],
        options={0: mode.split(), 1: mode.split()},
    )
    assert done.codes == [0, 0, 0], done
    lines = sorted(done.out.splitlines())
    assert lines == [f"rank {rank} of 4: right, sum 10" for rank in range(4)]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("abi", sorted(HEADERS))
def test_corners(compiled, run_job, abi):
    done = run_job([compiled("corners", abi)], ["mpich:1", "pure:2"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of 3: right" for rank in range(3)
    ]


@pytest.mark.slow
def test_second_name(run_job, tmp_path):
    """Debian's MPICH has another name; there is no library of that name here but ours."""
    header = ROOT / ".mpi" / HEADERS["mpich"]
    if not header.exists():
        pytest.skip(f"{header} is missing: 'make test' installs it")
    source, stand_in, program = (
        PROGRAMS / "corners.c",
        tmp_path / "stand_in.so",
        tmp_path / "corners",
    )
    names = set(re.findall(r"\b(MPI_\w+)\(", source.read_text()))
    (tmp_path / "empty.c").write_text(
        "".join(f"void {name}(void) {{}}\n" for name in names)
    )
    argv = [
        "cc",
        "-shared",
        "-Wl,-soname,libmpich.so.12",
        "-o",
        str(stand_in),
        str(tmp_path / "empty.c"),
    ]
    subprocess.run(argv, check=True)
    subprocess.run(
        ["cc", f"-I{header.parent}", "-o", str(program), str(source), str(stand_in)],
        check=True,
    )
    done = run_job([str(program)], ["pure:1", "pure:1"])
    assert done.codes == [0, 0, 0], done


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    ("abi", "vendors"),
    [
        ("openmpi", VENDORS[0]),
        ("mpich", VENDORS[1]),
        ("standard", VENDORS[0]),
        ("standard", VENDORS[1]),
    ],
)
def test_edges(compiled, run_job, abi, vendors):
    done = run_job([compiled("edges", abi)], [f"{vendor}:2" for vendor in vendors])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: 0 errors" for rank in range(4)
    ]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    ("abi", "vendors"),
    [("impicc", VENDORS[1]), ("mpich", VENDORS[0]), ("openmpi", VENDORS[2])],
)
def test_what_others_found(compiled, run_job, abi, vendors):
    done = run_job([compiled("found", abi)], [f"{vendor}:1" for vendor in vendors])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: 0 errors" for rank in range(2)
    ]
