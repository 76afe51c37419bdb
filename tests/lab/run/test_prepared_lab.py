"""A lab made ready: programs and a nonce on every node, and the libraries that it should have."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import pytest
from forge import LIBRARY, FakeBackend, FakeLab

from impi.base.errors import LabError
from impi.base.remote.supervised import Completed
from impi.lab.nodes import interface
from impi.lab.nodes.interface import Build, Node
from impi.lab.nodes.topology import parse_topology
from impi.lab.run import prepared_lab
from impi.lab.run.prepared_lab import prepare


def opened(backend: FakeBackend, *vendors: str) -> FakeLab:
    return backend.open(
        vendors, parse_topology("+".join(["1x2"] * len(vendors))), run="r"
    )


def test_each_node_has_the_programs_and_a_nonce_of_its_own() -> None:
    lab = opened(FakeBackend(), "mpich", "pure")
    prepared = prepare(lab, "run")
    assert prepared.roots == {"c0n0": "/tmp/impilab-run", "c1n0": "/tmp/impilab-run"}
    nonces = []
    for nodes in lab.clients:
        archive = zipfile.ZipFile(
            io.BytesIO(nodes[0].read("/tmp/impilab-run/bundle.zip") or b"")
        )
        assert {"programs/witness.py", "programs/p2p_ring.py", "node.json"} <= set(
            archive.namelist()
        )
        nonces.append(json.loads(archive.read("node.json"))["nonce"])
    assert nonces == list(prepared.node_nonces.values())
    assert len(set(nonces)) == 2
    assert prepared.libraries == {"c0n0": (LIBRARY["mpich"],), "c1n0": ()}


def test_a_remote_party_has_no_node_to_prepare() -> None:
    assert list(prepare(opened(FakeBackend(), "pure", "remote"), "run").roots) == [
        "c0n0"
    ]


def test_a_build_of_ones_own_must_be_what_a_node_has() -> None:
    build = Build(
        vendor="mpich",
        origin="/mine",
        prefix="/opt/mine",
        libraries=(LIBRARY["mpich"],),
        digest="d",
    )
    backend = FakeBackend()
    backend.builds = {"mpich": build}
    assert prepare(opened(backend, "mpich", "pure"), "run").prefixes == {
        "c0n0": "/opt/mine"
    }
    backend.builds = {"mpich": replace(build, libraries=("another",))}
    with pytest.raises(
        LabError, match="node c0n0 has other libraries in /opt/mine than /mine has"
    ):
        prepare(opened(backend, "mpich", "pure"), "run")


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        (
            b'{"value": {}}',
            b"",
            "node c0n0 has no libmpi of mpich in /opt/mpi/mpich or ",
        ),
        (b"", b"no space left", "node c0n0 cannot unpack the programs: no space left"),
        (b'{"other": 1}', b"", "node c0n0 cannot unpack the programs: it said nothing"),
    ],
)
def test_a_node_that_is_not_ready_is_the_labs_fault(
    stdout: bytes, stderr: bytes, said: str
) -> None:
    backend = FakeBackend()
    backend.commands["python3"] = Completed(
        argv=(), code=0, stdout=stdout, stderr=stderr
    )
    with pytest.raises(LabError, match=said):
        prepare(opened(backend, "mpich", "pure"), "run")


@pytest.mark.parametrize("octets", [b"ELF", None])
def test_a_run_compiles_the_usher_once(
    octets: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_lab, "_USHERS", {})
    path = "/home/mpi/.cache/impi/usher-1/libimpi_usher.so"
    compiled: list[str] = []
    run_on = interface.run_on

    def run(node: Node, argv: list[str], **more: Any) -> Completed:
        if prepared_lab._COMPILE_USHER not in argv:
            return run_on(node, argv, **more)
        compiled.append(node.name)
        if octets is not None:
            node.write(path, octets)
        code, stdout = (1, b"") if octets is None else (0, f"{path}\n".encode())
        return Completed(argv=(), code=code, stdout=stdout, stderr=b"")

    monkeypatch.setattr(prepared_lab, "run_on", run)
    for _ in range(2):
        lab = opened(FakeBackend(), "mpich", "pure")
        lab.access = replace(lab.access, images={"mpich": "1"})
        prepare(lab, "run")
        assert [nodes[0].read(path) for nodes in lab.clients] == [octets, octets]
    assert compiled == ["c0n0"]
    prepare(opened(FakeBackend(), "mpich", "pure"), "run")  # not in containers
    assert compiled == ["c0n0"]
