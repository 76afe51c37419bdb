"""A developer's own build in place of the usual one: its recognition, and nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from container_engine import engine_installed

from impi.base.errors import LabError, UsageError
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.builds import parse_replacements, prefix_archive, prefix_build
from impi.lab.nodes.interface import Backend, Lab
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Mutation
from impi.lab.run.schedule import judge_cell

ROOT = Path(__file__).parents[3]
MPICH = ROOT / ".mpi/mpich"
LIMITS = Limits(server=20, start=90, cell=60, grace=4)
CELL = Cell(CASES["p2p.ring"], ("mpich", "pure"), parse_topology("1x2+1x1"))


def installed(folder: Path, library: str = "libmpi.so.12") -> Path:
    """Make a folder that looks like an installation."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "bin/mpiexec").write_text("#!/bin/sh\n")
    (folder / "lib" / library).write_bytes(b"one")
    (folder / "lib/libmpi.so").symlink_to(library)
    (folder / "lib/libmpi.a").write_bytes(b"not needed")
    (folder / "lib/libother.so").write_bytes(b"two")
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """MPICH, but another build of it than the usual one."""
    if not (MPICH / "bin/mpiexec").exists():
        pytest.skip("mpich is not in .mpi/mpich: run ci/vendors.sh")
    folder = tmp_path / "own"
    shutil.copytree(MPICH, folder, symlinks=True)
    with (folder / "lib/libmpi.so.12").open("ab") as file:
        file.write(b"mine")  # behind the last octet that the loader reads
    return folder


# -- what is a build


def test_folders_and_images_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    installed(tmp_path / "mine")
    assert parse_replacements(["mpich=mine", "openmpi=registry/name:tag"]) == {
        "mpich": str(tmp_path / "mine"),
        "openmpi": "registry/name:tag",
    }
    assert parse_replacements([]) == {}


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["mpich"], "VENDOR=PREFIX"),
        (["mpich="], "VENDOR=PREFIX"),
        (["pure=/opt"], "with a vendor of mpich, openmpi"),
        (["lamb=/opt"], "with a vendor of mpich, openmpi"),
        (["mpich=./nowhere"], "no folder ./nowhere"),
        (["mpich=a", "mpich=b"], "replaced already"),
    ],
)
def test_what_is_no_replacement(texts, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_replacements(texts)


def test_a_build_is_known_by_its_libraries(tmp_path):
    folder = installed(tmp_path / "mine")
    build = prefix_build("mpich", str(folder))
    assert build.libraries == (hashlib.sha256(b"one").hexdigest(),)
    assert (build.prefix, build.origin) == (str(folder), str(folder))
    (folder / "lib/libmpi.so.12").write_bytes(b"another")
    assert prefix_build("mpich", str(folder)).digest != build.digest


@pytest.mark.parametrize(
    ("remove", "complaint"),
    [("bin/mpiexec", "no bin/mpiexec"), ("lib/libmpi.so.12", "shared libraries")],
)
def test_half_a_build_is_none(tmp_path, remove, complaint):
    folder = installed(tmp_path / "mine")
    (folder / remove).unlink()
    with pytest.raises(UsageError, match=complaint):
        prefix_build("mpich", str(folder))


def test_another_vendors_build_is_none(tmp_path):
    with pytest.raises(UsageError, match=r"no lib/libmpi\.so\.40; is it openmpi"):
        prefix_build("openmpi", str(installed(tmp_path / "mine")))


def test_a_folder_that_holds_more_is_refused():
    with pytest.raises(UsageError, match="holds more than mpich"):
        prefix_build("mpich", "/usr")


def test_the_archive_is_the_same_for_the_same_build_and_readable_for_all(tmp_path):
    folder = installed(tmp_path / "mine")
    (folder / "lib/libother.so").chmod(0o600)
    data = prefix_archive(folder)
    assert prefix_archive(folder) == data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        entries = {f"/{entry.name}": entry for entry in tar.getmembers()}
    assert f"{folder}/lib/libmpi.a" not in entries
    assert entries[f"{folder}/lib/libother.so"].mode & 0o444 == 0o444
    assert entries[f"{folder}/lib/libmpi.so"].linkname == "libmpi.so.12"
    assert {entry.uid for entry in entries.values()} == {0}


# -- in a lab


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def backend(request) -> Backend:
    try:
        found = choose_backend(request.param)
        sick = [f for f in found.doctor() if f.fatal and not f.ok]
    except LabError as error:
        pytest.skip(
            f"the backend {request.param} needs an engine that answers: {error}"
        )
    if sick:
        pytest.skip(
            f"the backend {request.param} lacks {sick[0].subject}: {sick[0].detail}"
        )
    return found


def run(lab: Lab, mutation: Mutation | None = None) -> tuple[Verdict, dict[str, str]]:
    """The verdict, and the libraries that the ranks under MPICH had mapped."""
    seen = run_cell(prepare(lab, "builds"), CELL, LIMITS, threading.Event(), mutation)
    ranks = [rank for rank in seen.evidence.ranks if rank.client == 0]
    return judge_cell(CELL, seen), {
        path: digest
        for rank in ranks
        for path, digest in (rank.process.libraries or {}).items()
    }


def usual_library(backend: Backend) -> Mutation:
    """A client that takes MPICH from where it usually is."""
    usual = "/opt/mpi/mpich" if backend.name == "docker" else str(MPICH)

    def change(
        client: int, argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        return argv, {**env, "IMPI_PREFIX_MPICH": usual} if client == 0 else env

    return change


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_a_build_of_ones_own_is_what_runs(backend, own):
    backend.prepare(["mpich"], {"mpich": str(own)})
    backend.prepare(["mpich", "pure"])
    lab = backend.open(CELL.vendors, CELL.topology, run="builds")
    try:
        assert lab.software["build.mpich"].startswith(f"{own} ")
        verdict, mapped = run(lab)
        assert (verdict.outcome, verdict.reason) == ("pass", "")
        digest = hashlib.sha256((own / "lib/libmpi.so.12").read_bytes()).hexdigest()
        assert mapped == {f"{own}/lib/libmpi.so.12": digest}
        # The twin's mutant: the usual library is not the one under test, however good it is.
        verdict, mapped = run(lab, usual_library(backend))
        assert mapped
        assert (verdict.outcome, verdict.phase) == ("fail", "init")
        assert verdict.culprit is not None
        assert verdict.culprit.name == "identity.library"
        assert str(own) in verdict.culprit.expected
    finally:
        lab.close()


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_the_same_octets_from_elsewhere_are_not_the_build(tmp_path):
    """A copy that does not differ: only the path tells it from the usual one."""
    if not (MPICH / "bin/mpiexec").exists():
        pytest.skip("mpich is not in .mpi/mpich: run ci/vendors.sh")
    shutil.copytree(MPICH, tmp_path / "copy", symlinks=True)
    backend = choose_backend("local")
    backend.prepare(["mpich"], {"mpich": str(tmp_path / "copy")})
    lab = backend.open(CELL.vendors, CELL.topology, run="builds")
    try:
        assert run(lab)[0].outcome == "pass"
        verdict, _ = run(lab, usual_library(backend))
        assert verdict.culprit is not None
        assert verdict.culprit.name == "identity.library"
    finally:
        lab.close()


@pytest.mark.slow
def test_a_node_that_has_other_libraries_than_the_build_is_the_labs_fault(own):
    backend = choose_backend("local")
    backend.prepare(["mpich"], {"mpich": str(own)})
    lab = backend.open(CELL.vendors, CELL.topology, run="builds")
    try:
        other = replace(lab.access.builds["mpich"], libraries=("00" * 32,))
        lab.access = replace(lab.access, builds={"mpich": other})
        with pytest.raises(LabError, match="other libraries"):
            prepare(lab, "builds")
    finally:
        lab.close()


def test_an_image_is_nothing_for_loopback():
    with pytest.raises(UsageError, match="needs --backend docker"):
        choose_backend("local").prepare(["mpich"], {"mpich": "some/image:1"})


@pytest.fixture
def engine():

    if not engine_installed():
        pytest.skip(
            "no container engine is installed: this test needs one that answers"
        )
    try:
        return choose_backend("docker")
    except LabError as error:
        pytest.skip(f"this test needs an engine that answers: {error}")


@pytest.mark.slow
@pytest.mark.docker
def test_an_image_of_ones_own_is_what_runs(engine):
    engine.prepare(["mpich", "pure"])
    client, usual = engine._client, engine._built["mpich"]
    tag = "impilab-test/own-mpich:1"
    text = f"FROM {usual}\nRUN printf mine >> /opt/mpi/mpich/lib/libmpi.so.12\n"
    image, _ = client.images.build(fileobj=io.BytesIO(text.encode()), tag=tag, rm=True)
    try:
        engine.prepare(["mpich"], {"mpich": tag})
        engine.prepare(["mpich", "pure"])
        assert engine.builds["mpich"].digest == image.id
        lab = engine.open(CELL.vendors, CELL.topology, run="builds")
        try:
            assert lab.software["image.mpich"] == image.id
            verdict, mapped = run(lab)
            assert (verdict.outcome, verdict.reason) == ("pass", "")
            assert set(mapped.values()) <= set(engine.builds["mpich"].libraries)
            assert json.dumps(mapped).count("/opt/mpi/mpich/lib/libmpi.so.12") == 1
        finally:
            lab.close()
    finally:
        client.images.remove(tag, force=True)


@pytest.mark.slow
@pytest.mark.docker
def test_what_is_no_image_for_a_node(engine):
    engine.prepare(["mpich", "pure"])
    with pytest.raises(
        UsageError, match="the engine has no image impilab-test/nothing:1"
    ):
        engine.prepare(["mpich"], {"mpich": "impilab-test/nothing:1"})
    with pytest.raises(
        UsageError, match="the image has no /opt/mpi/mpich/bin/mpiexec; make it FROM"
    ):
        engine.prepare(["mpich"], {"mpich": engine._built["pure"]})


@pytest.mark.slow
@pytest.mark.docker
def test_a_library_that_a_node_cannot_load_is_told_before_any_cell(engine, tmp_path):
    engine.prepare(["mpich", "pure"])
    folder = installed(tmp_path / "mine")
    with pytest.raises(
        LabError, match=r"cannot load .*/lib/libmpi\.so\.12: .*too short|invalid ELF"
    ):
        engine.prepare(["mpich"], {"mpich": str(folder)})
