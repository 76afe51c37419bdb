"""The bill of materials: all that a lock file installs, with its hashes, and no more."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[2]
LOCK = (TOP / "ci/locks/lab.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", TOP / "ci/sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_packages_and_all_hashes_are_in_it(sbom: ModuleType) -> None:
    value = sbom.bill(LOCK)
    components = value["components"]
    assert len(components) == len(re.findall(r"^\S+==", LOCK, flags=re.M)) > 20
    hashes = [
        each for one in components for each in one["externalReferences"][0]["hashes"]
    ]
    assert len(hashes) == LOCK.count("--hash=")
    assert len({one["bom-ref"] for one in components}) == len(components)
    assert set(value["dependencies"][0]["dependsOn"]) == {
        one["bom-ref"] for one in components
    }


def test_what_is_not_installed_everywhere_is_optional(sbom: ModuleType) -> None:
    [pin] = sbom.pins(
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:"
        + "ab" * 32
        + "\n"
    )
    assert pin == ("numpy", "2.4.6", "python_full_version < '3.12'", ["ab" * 32])
    assert sbom.component(*pin)["scope"] == "optional"


def test_equal_locks_have_equal_bills(sbom: ModuleType) -> None:
    assert (
        sbom.bill(LOCK)
        == sbom.bill(LOCK)
        != sbom.bill(LOCK.replace("rich==", "rick=="))
    )


def test_what_is_no_lock_is_no_bill(sbom: ModuleType) -> None:
    with pytest.raises(ValueError, match="no line of a lock file: rich>=13"):
        sbom.bill("rich>=13\n")


def test_the_file_is_written(
    sbom: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["sbom.py", str(tmp_path / "dist")])
    assert sbom.main() == 0
    [path] = (tmp_path / "dist").iterdir()
    assert path.name.endswith("-lab.cdx.json")
