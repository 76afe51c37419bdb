"""The choice of a backend; an engine that the user names is never passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import LabError, UsageError
from impi.lab.backends import choose_backend


@pytest.fixture
def broken_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


def test_without_an_engine_it_is_local_and_says_so(
    broken_engine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choose_backend(None).name == "local"
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "nobody.sock: No such file or directory, so this runs ON LOOPBACK" in err
    assert "for containers start it" in err
    assert "--backend local" in err


def test_local_by_name_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose_backend("local").name == "local"
    assert capsys.readouterr().err == ""


def test_an_engine_that_is_named_and_does_not_answer_is_an_error_with_a_cure(
    broken_engine: None,
) -> None:
    with pytest.raises(LabError, match=r"does not answer.*--backend local"):
        choose_backend("docker")


def test_an_unknown_name_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match="podman"):
        choose_backend("podman")
