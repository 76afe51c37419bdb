"""The folders of labs that stay."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from impi.base.errors import LabError, UsageError
from impi.lab.nodes.interface import Access, Build, LabSeen, NodeAccess
from impi.lab.nodes.saved import (
    check_name,
    find_lab,
    forget_lab,
    free_name,
    list_labs,
    save_lab,
    way_in,
)
from impi.lab.nodes.topology import parse_topology

ACCESS = Access(
    backend="docker",
    lab="up-lab-abc",
    run="up-lab",
    vendors=("mpich", "pure"),
    topology=parse_topology("1x2+1x1"),
    expires=4e9,
    nodes={
        name: NodeAccess(
            address=f"10.0.0.{i}",
            host="127.0.0.1",
            port=2000 + i,
            container=f"x-{name}",
            home="/home/mpi",
        )
        for i, name in enumerate(("server", "c0n0", "c1n0"))
    },
    environment={name: {"PATH": "/bin"} for name in ("server", "c0n0", "c1n0")},
    python="python3",
    user="mpi",
    private_key="secret\n",
    host_key="ssh-ed25519 AAAA",
    images={"pure": "sha256:1"},
    builds={
        "mpich": Build(
            vendor="mpich", origin="/x", prefix="/x", libraries=("aa",), digest="d"
        )
    },
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def seen(*labs: str) -> list[LabSeen]:
    return [
        LabSeen(lab=lab, labels={}, parts=(), state="kept", age_s=0, left_s=0)
        for lab in labs
    ]


def test_what_is_saved_is_read_again_and_only_its_owner_can():
    saved = save_lab("mine", ACCESS)
    assert find_lab(None).access == ACCESS
    assert find_lab("mine") == saved
    assert saved.folder.stat().st_mode & 0o077 == 0
    assert (saved.folder / "id_ed25519").stat().st_mode & 0o077 == 0
    assert "secret" not in (saved.folder / "lab.json").read_text()
    forget_lab(saved)
    assert list_labs() == []
    assert not Path(".impilab").exists()


def test_ssh_understands_its_configuration():
    saved = save_lab("mine", ACCESS)
    told = subprocess.run(
        ["ssh", "-G", "-F", str(saved.config), "c1n0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {
        "hostname 127.0.0.1",
        "port 2002",
        "user mpi",
        "stricthostkeychecking true",
    } <= set(told)
    assert f"identityfile {saved.folder.absolute()}/id_ed25519" in told
    assert f"userknownhostsfile {saved.folder.absolute()}/known_hosts" in told
    assert "hostkeyalias up-lab-abc" in told


def test_a_lab_of_the_same_name_takes_the_place_of_one_that_is_gone():
    save_lab("mine", ACCESS)
    assert free_name("mine", seen("another")) == "mine"
    assert free_name("mine", seen("up-lab-abc")) == "mine-2"
    save_lab("mine-2", replace(ACCESS, lab="up-lab-def"))
    assert free_name("mine", seen("up-lab-abc", "up-lab-def")) == "mine-3"
    save_lab("mine", replace(ACCESS, lab="up-lab-new"))
    assert find_lab("mine").access.lab == "up-lab-new"
    assert not [
        path for path in Path(".impilab").iterdir() if path.name.startswith(".")
    ]


def test_which_one_must_be_said_where_there_are_several():
    with pytest.raises(UsageError, match=r"no lab in \.impilab/; 'impilab up"):
        find_lab(None)
    save_lab("one", ACCESS)
    save_lab("two", ACCESS)
    with pytest.raises(UsageError, match=r"several labs \(one, two\)"):
        find_lab(None)
    with pytest.raises(UsageError, match="no lab 'three'"):
        find_lab("three")
    with pytest.raises(UsageError, match="no node 'c9n9'; it has server, c0n0, c1n0"):
        find_lab("one").node("c9n9")


def test_a_folder_that_says_nothing_is_left_out():
    save_lab("one", ACCESS)
    Path(".impilab/two").mkdir()
    Path(".impilab/two/lab.json").write_text("{")
    assert [saved.name for saved in list_labs()] == ["one"]


def test_a_folder_that_cannot_be_written_is_the_labs_fault():
    Path(".impilab").write_text("in the way")
    with pytest.raises(LabError, match="cannot be written"):
        save_lab("one", ACCESS)


@pytest.mark.parametrize("name", ["", "Upper", "-x", "a/b", "..", "a" * 32, "a b"])
def test_names(name):
    with pytest.raises(UsageError, match="--name"):
        check_name(name)


def test_the_way_in_is_told():
    lines = "\n".join(way_in(save_lab("mine", ACCESS), "c1n0"))
    assert "impilab ssh --lab mine c1n0" in lines
    assert "ssh -F .impilab/mine/ssh_config c1n0" in lines
    assert "impilab down mine" in lines
