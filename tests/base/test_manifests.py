"""Manifests of vendors: those of the project, and what is wrong with others."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from impi.base import manifests, variables
from impi.base.errors import UsageError
from impi.base.manifests import (
    in_order,
    installed_version,
    manifest,
    named_in,
    names,
    outer_variables,
    read,
    vendors,
)

GOOD = 'title = "My MPI"\nkind = "backed"\nlauncher = "hydra"\nlibraries = ["libmpi.so.12"]\n'


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / name / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_default_matrix_begins_with_what_needs_no_library() -> None:
    first, *others = vendors("core")
    assert (first.name, first.has_library) == ("pure", False)
    assert all(each.has_library for each in others)
    assert [each.name for each in vendors("core")] == list(names())[: len(others) + 1]


def test_a_version_is_the_name_after_the_at() -> None:
    assert manifest("mpich@4.3") is manifest("mpich")
    assert installed_version("mpich@4.3") == manifest("mpich").versions["4.3"]
    assert installed_version("mpich") == manifest("mpich").version
    assert sorted(["openmpi", "mpich@4.3", "mpich", "pure"], key=in_order) == [
        "pure",
        "mpich",
        "mpich@4.3",
        "openmpi",
    ]


@pytest.mark.parametrize(
    ("vendor", "said"),
    [
        ("lamb", "there is no vendor 'lamb'; the vendors are pure, mpich"),
        ("mpich@9", "mpich has no version '9'"),
    ],
)
def test_what_does_not_exist_is_named(vendor: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        manifest(vendor)


def test_a_folder_elsewhere_has_its_own_vendors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, "not read", "other").rename(tmp_path / "other" / "else.toml")
    monkeypatch.setenv(variables.VENDORS, str(tmp_path))
    manifests._all_manifests.cache_clear()
    try:
        assert names() == ("mine",)
        assert manifest("mine").prefix_variable == "IMPI_PREFIX_MINE"
    finally:
        monkeypatch.undo()
        manifests._all_manifests.cache_clear()


def test_settings_of_later_conditions_win(tmp_path: Path) -> None:
    text = '[settings.always]\nA = "{prefix}/a"\nB = "1"\n[settings.several]\nB = "2"\n'
    text += '[settings.interface]\nC = "{interface}"\n'
    mine = read(write(tmp_path, GOOD + text))
    assert mine.settings_of(["always"], prefix="/m") == {"A": "/m/a", "B": "1"}
    several = mine.settings_of(
        ["always", "several", "interface", "crowded"], prefix="/m", interface="eth0"
    )
    assert several == {"A": "/m/a", "B": "2", "C": "eth0"}


def test_variables_of_any_outer_mpiexec_are_known_without_reading_whole_manifests() -> (
    None
):
    outer, kept = outer_variables()
    assert {"PMI_", "PMIX_", "OMPI_COMM_"} <= set(outer)
    assert all(name.startswith(outer) for name in kept)
    whole = [
        tomllib.loads((each.folder / f"{each.name}.toml").read_text())
        for each in vendors()
    ]
    assert sorted(outer) == sorted(
        name for one in whole for name in one.get("outer", ())
    )
    assert sorted(kept) == sorted(
        name for one in whole for name in one.get("outer_kept", ())
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = 3", "title is 3; it is a str"),
        ("=", "is not TOML"),
        ('kind = "backed"', "has no title"),
        ('title = "x"', "has no kind"),
        (GOOD + 'colour = "red"', "there is no key 'colour'"),
        (
            GOOD.replace("backed", "own"),
            "kind is 'own'; it is one of backed, native, remote",
        ),
        (
            GOOD.replace("hydra", "mpd"),
            "launcher is 'mpd'; it is one of none, hydra, prte",
        ),
        (GOOD.replace('libraries = ["libmpi.so.12"]', ""), "libraries is missing"),
        (
            GOOD + '[settings.sometimes]\nA = "1"',
            r"\[settings.sometimes\] is not one of always",
        ),
        (
            GOOD + '[leaves]\npipes = ["a"]',
            r"\[leaves\] has no key 'pipes'; it has segments, files",
        ),
        (
            GOOD + '[leaves]\nsegments = [""]',
            r"segments of \[leaves\] is \[''\]; it is a list of names",
        ),
        (
            GOOD + '[leaves]\nsegments = ["{node}"]',
            r"segments of \[leaves\] is .*; it is a list of names",
        ),
        (
            GOOD + '[leaves]\ndaemons = "prted"',
            r"daemons of \[leaves\] is 'prted'; it is a list of names",
        ),
        (
            GOOD + '[leaves]\nproxies = ["p"]',
            r"proxies of \[leaves\] are daemons, too: add p there",
        ),
        (
            GOOD + '[[unsupported]]\ncells = "p2p.cancel"',
            "has the keys cells and reason",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_file(
    text: str, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(f"manifest {path}")


def test_every_library_with_an_mpiexec_says_what_it_leaves() -> None:
    for each in vendors():
        assert each.library.launcher == "none" or each.leaves["daemons"], each.name
        assert all(len(name) <= 15 for name in each.leaves.get("daemons", ())), (
            "the kernel knows no more of a name"
        )


def test_vendors_are_found_in_the_words_of_a_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "-np",
        "2",
        "--vendor=mpich",
        "--vendor",
        "openmpi",
        "mpich",
        "../mpich",
        "x" * 5000,
        "\0",
        "",
    ]
    assert [each.name for each in named_in(words)] == ["mpich", "openmpi"]
    write(tmp_path, "=")
    monkeypatch.setenv(variables.VENDORS, str(tmp_path))
    assert named_in(["mine", "mpich"]) == []


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.toml")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make impi one that was installed; the folder of its user's own data."""
    share = tmp_path / "site-packages" / "impi" / "share"
    write(share / "images", GOOD)
    monkeypatch.setattr(manifests, "SHARED", share)
    monkeypatch.setattr(manifests, "_INSTALLED", share)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(variables.VENDORS, raising=False)
    return tmp_path / "data" / "impilab"


def test_an_installed_impi_has_its_vendors_and_those_of_its_user(
    installed: Path,
) -> None:
    assert manifests.new_vendors() == installed / "images"
    write(manifests.new_vendors(), GOOD, "acme")
    write(manifests.new_vendors(), GOOD.replace("My", "Another"))  # the project's stays
    manifests._all_manifests.cache_clear()
    try:
        assert names() == ("acme", "mine")
        assert (manifest("mine").title, manifests.backed("acme").folder.parent) == (
            "My MPI",
            installed / "images",
        )
        assert [each.name for each in named_in(["acme", "other"])] == ["acme"]
    finally:
        manifests._all_manifests.cache_clear()
    assert manifests.library_folder("mine@2") == installed / "mpi" / "mine@2"


def test_the_users_folder_of_an_installed_impi_is_the_usual_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert manifests.user_folder() == tmp_path / ".local/share/impilab"


def test_a_file_here_comes_before_the_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert manifests.project_file("clusters") == manifests.SHARED / "clusters"
    Path("clusters").mkdir()
    assert manifests.project_file("clusters") == Path("clusters")


def test_a_checkout_keeps_everything_in_itself() -> None:
    assert (manifests.user_folder(), manifests.new_vendors()) == (
        manifests.SHARED,
        manifests.SHARED / "images",
    )
    assert manifests.library_folder("mpich") == manifests.SHARED / ".mpi/mpich"
