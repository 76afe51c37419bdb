"""Manifests of vendors: those of the project, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi import manifests, variables
from impi.errors import UsageError
from impi.manifests import in_order, installed_version, manifest, names, read, vendors

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
    assert sorted(["openmpi", "mpich@4.3", "mpich", "pure"], key=in_order) == ["pure", "mpich", "mpich@4.3", "openmpi"]


@pytest.mark.parametrize(
    ("vendor", "said"),
    [("lamb", "there is no vendor 'lamb'; the vendors are pure, mpich"), ("mpich@9", "mpich has no version '9'")],
)
def test_what_does_not_exist_is_named(vendor: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        manifest(vendor)


def test_a_folder_elsewhere_has_its_own_vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, "not read", "other").rename(tmp_path / "other" / "else.toml")
    monkeypatch.setenv(variables.VENDORS, str(tmp_path))
    manifests._all.cache_clear()
    try:
        assert names() == ("mine",)
        assert manifest("mine").prefix_variable == "IMPI_PREFIX_MINE"
    finally:
        monkeypatch.undo()
        manifests._all.cache_clear()


def test_settings_of_later_conditions_win(tmp_path: Path) -> None:
    text = '[settings.always]\nA = "{prefix}/a"\nB = "1"\n[settings.several]\nB = "2"\n'
    text += '[settings.interface]\nC = "{interface}"\n'
    mine = read(write(tmp_path, GOOD + text))
    assert mine.settings_of(["always"], prefix="/m") == {"A": "/m/a", "B": "1"}
    several = mine.settings_of(["always", "several", "interface", "crowded"], prefix="/m", interface="eth0")
    assert several == {"A": "/m/a", "B": "2", "C": "eth0"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = 3", "title is 3; it is a str"),
        ("=", "is not TOML"),
        ('kind = "backed"', "has no title"),
        ('title = "x"', "has no kind"),
        (GOOD + 'colour = "red"', "there is no key 'colour'"),
        (GOOD.replace("backed", "own"), "kind is 'own'; it is one of backed, native, remote"),
        (GOOD.replace("hydra", "mpd"), "launcher is 'mpd'; it is one of none, hydra, prte"),
        (GOOD.replace('libraries = ["libmpi.so.12"]', ""), "libraries is missing"),
        (GOOD + '[settings.sometimes]\nA = "1"', r"\[settings.sometimes\] is none of always"),
        (GOOD + '[[unsupported]]\ncells = "p2p.cancel"', "has the keys cells and reason"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_file(text: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(f"manifest {path}")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.toml")
