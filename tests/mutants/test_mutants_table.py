"""The table of mutants fits the code; what counts as caught rightly; and one mutant for real."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mutants_run import Bench, Ran, compiled_anew, cool
from mutants_table import ROOT, Mutant, blames, read_tables

from impi.base.errors import LabError
from impi.lab.backends import choose_backend
from impi.lab.backends.nodes import SshNode
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import NodeAccess

TABLES = read_tables()
BY_NAME = {mutant.name: mutant for mutant in TABLES.mutants}


def pick(name: str) -> Mutant:
    return BY_NAME[name]


def test_every_mutant_applies():
    for mutant in TABLES.mutants:
        for path, text in mutant.broken().items():
            assert (ROOT / path).read_bytes() != text


def test_every_cell_belongs_to_core_or_pairs():
    assert {mutant.tier for mutant in TABLES.mutants} <= {"core", "pairs"}


@pytest.mark.parametrize(
    ("blame", "wanted", "right"),
    [
        ("client 1 (mpich) rank 2 on c1n0", "client 1", True),
        ("client 1 (mpich) rank 2 on c1n0", "client 0", False),
        ("c1n0", "client 1", True),
        ("host 2 (client 1) to host 0 (client 0)", "client 1", False),
        ("wire", "client 1", False),
        ("wire", "anybody", True),
        ("server", "server", True),
        ("client 1 (mpich)", "server", False),
    ],
)
def test_blame(blame: str, wanted: str, right: bool):
    assert blames(blame, wanted) is right


def test_a_library_with_a_fault_takes_the_place_of_ours():
    """The fault must show by what it does, and not by the digest of its source."""
    vendors, front = "/opt/mpi/lib/libmpi.so.12", "/c/mpich-front-{}/libimpi_front.so"
    ours, other = front.format("24e7cf98b8e6"), front.format("a000e040d506")
    assert compiled_anew(ours, [vendors, other]) == other
    assert compiled_anew(ours, [vendors, ours]) == ours
    stands_in = "/c/mpich-24e7cf98b8e6/libmpi.so.12"
    assert compiled_anew(ours, [vendors, stands_in]) == ours
    assert compiled_anew("", [vendors]) == ""


def ran(mutant: Mutant | None, **verdict: str) -> Ran:
    cell = mutant.cell if mutant is not None else TABLES.mutants[0].cell
    return Ran(cell=cell, mutant=mutant, verdict=Verdict(**verdict), seconds=1.0)  # type: ignore[arg-type]


def test_what_is_right():
    mutant = pick("no PROTOACK is sent")
    assert (
        ran(mutant, outcome="fail", phase="case", blame="client 1 (mpich)").fault == ""
    )
    assert ran(mutant, outcome="pass").fault == "survives"
    assert (
        ran(mutant, outcome="error", phase="case", blame="client 1 (mpich)").fault
        == "ends with error"
    )
    assert ran(mutant, outcome="fail", phase="coll", blame="wire").fault == (
        "phase coll, not case; blame wire, not client 1"
    )
    assert ran(None, outcome="fail").fault == "the twin ends with fail"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('name = "a"\nclause = "3.6"', "lacks 'cell'"),
        (
            'name = "a"\ncell = "p2p.ring/pure+pure/1x3+1x2"\nphase = "case"',
            "neither core nor pairs",
        ),
        (
            'name = "a"\ncell = "p2p.ring/pure+pure/1x2+1x2"\nculprit = "client 2"\nphase = "case"',
            "no party",
        ),
        (
            'name = "a"\ncell = "p2p.ring/pure+pure/1x2+1x2"\nphase = "later"',
            "no phase",
        ),
    ],
)
def test_wrong_rows(tmp_path, row: str, why: str):
    (tmp_path / "wrong.toml").write_text(f"[[mutant]]\n{row}\n")
    with pytest.raises(ValueError, match=why):
        read_tables(tmp_path)


def test_a_text_that_is_gone(tmp_path):
    (tmp_path / "wrong.toml").write_text(
        '[[mutant]]\nname = "a"\nclause = "3.6"\ncell = "p2p.ring/pure+pure/1x2+1x2"\nphase = "case"\n'
        'file = "impi/protocol/job.py"\nold = "nowhere to be found"\nnew = ""\n'
    )
    [mutant] = read_tables(tmp_path).mutants
    with pytest.raises(ValueError, match="0 times, not once"):
        mutant.broken()


def test_no_impirun_is_a_fork_of_what_has_loaded_sound_modules():
    def node(name: str) -> SshNode:
        made = SshNode(
            name,
            NodeAccess(address=""),
            None,  # type: ignore[arg-type]
        )
        made.warm = {}
        return made

    lab = SimpleNamespace(server=node("server"), clients=[[node("c0n0")]])
    cool(lab)
    assert [lab.server.warm, lab.clients[0][0].warm] == [None, None]


@pytest.mark.proof
@pytest.mark.docker
@pytest.mark.vendor("mpich")
def test_one_for_real():
    """The twin passes, the mutant is caught, and the lab is as it was after it."""
    mutant = pick("no PROTOACK is sent")
    try:
        backend = choose_backend("docker")
        backend.prepare(mutant.cell.vendors)
    except LabError as error:
        pytest.skip(f"captures need a container engine that answers: {error}")
    bench = Bench(backend, factor=2.0)
    try:
        assert bench.run(mutant.cell, None).fault == ""
        caught = bench.run(mutant.cell, mutant)
        assert (caught.fault, caught.loaded) == ("", True)
        assert bench.run(mutant.cell, None).fault == ""
    finally:
        bench.close()
