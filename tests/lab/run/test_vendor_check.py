"""``impilab check``: the order of requirements, and what a missing one keeps from being tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forge import FakeBackend

from impi.base import manifests
from impi.base.errors import LabError, UsageError
from impi.lab.nodes.new_vendor import new_vendor
from impi.lab.run import vendor_check
from impi.lab.run.vendor_check import Requirement, check


@pytest.fixture
def acme(tmp_path: Path, know_vendors: Callable[..., None]) -> Path:
    """A vendor of its own folder, as ``impilab new vendor`` writes it."""
    new_vendor(tmp_path, "acme")
    mine = manifests.read(tmp_path / "acme" / "acme.toml")
    know_vendors(*manifests.vendors("core"), mine)
    return tmp_path / "acme"


class Unbuildable(FakeBackend):
    """An engine whose build fails."""

    def prepare(self, vendors, builds=None, *, compiled=False) -> None:
        if "acme" in vendors:
            raise LabError("the image acme cannot be built:\nno such package")


def found(backend: FakeBackend) -> dict[str, Requirement]:
    return {each.number: each for each in check("acme", backend)}


def test_an_image_that_cannot_be_built_is_told_with_its_cure(acme: Path) -> None:
    seen = found(Unbuildable())
    assert [seen[number].ok for number in ("R01", "R02", "R03")] == [True, True, True]
    assert (seen["R04"].ok, seen["R04"].cure) == (
        False,
        "mend the script install, or what the last lines of the build say",
    )
    assert "no such package" in seen["R04"].evidence
    assert {each.ok for number, each in seen.items() if number > "R04"} == {None}
    assert seen["R05"].evidence == "not tried: R04 is not fulfilled"


@pytest.mark.parametrize(
    ("name", "text", "number", "said"),
    [
        (
            "Dockerfile",
            "FROM debian\n",
            "R02",
            "the first instructions are ['FROM debian']",
        ),
        ("install", "if\n", "R03", "install is not a shell script"),
    ],
)
def test_a_file_that_is_wrong_is_named(
    name: str, text: str, number: str, said: str, acme: Path
) -> None:
    (acme / name).write_text(text)
    seen = found(Unbuildable())[number]
    assert seen.ok is False
    assert said in seen.evidence


def test_a_script_that_is_missing_is_named(acme: Path) -> None:
    (acme / "version").unlink()
    assert found(Unbuildable())["R03"].evidence == f"there is no {acme / 'version'}"


def test_a_vendor_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no vendor 'lamb'"):
        list(check("lamb", FakeBackend()))


def test_what_a_backend_cannot_examine_is_not_tried(
    acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback has no images, and one machine: neither is the vendor's mistake."""
    lab: Any = SimpleNamespace(access=SimpleNamespace(images={}), close=lambda: None)
    backend: Any = SimpleNamespace(
        name="local",
        open=lambda *_, **__: lab,
        prepare=lambda names: None,
        supports=lambda *_: "one machine",
    )
    rows = {
        number: vendor_check._REQUIREMENTS[number] for number in ("R04", "R05", "R11")
    }
    monkeypatch.setattr(vendor_check, "_REQUIREMENTS", rows)
    seen = found(backend)
    assert seen["R04"].evidence == "the prefix of acme exists, and a node of it answers"
    assert (seen["R05"].ok, seen["R05"].evidence) == (
        None,
        "not tried: backend local has no images",
    )
    assert seen["R11"].ok is None
    assert seen["R11"].evidence.endswith("cannot be run: one machine")
