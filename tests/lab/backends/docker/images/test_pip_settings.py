"""This machine's own pip settings become a layer; the project's files stay free of them."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from impi.lab.backends.docker.images.pip_settings import machine_files


@pytest.fixture
def nothing(tmp_path: Path) -> dict[str, Path]:
    """Paths of a machine without settings."""
    return {
        "system": tmp_path / "pip.conf",
        "own_certificates": tmp_path / "own",
        "bundle": tmp_path / "bundle",
    }


def settings(files: dict[str, bytes]) -> dict[str, str]:
    config = configparser.RawConfigParser()
    config.read_string(files["etc!pip.conf"].decode())
    return dict(config["global"])


def test_a_plain_machine_has_none(nothing: dict[str, Path], tmp_path: Path) -> None:
    assert machine_files({"HOME": str(tmp_path)}, **nothing) == {}


def test_its_certificates_come_along(nothing: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "ours.crt").write_text("x")
    (tmp_path / "bundle").write_bytes(b"all of them")
    files = machine_files({"HOME": str(tmp_path)}, **nothing)
    assert files["etc!impilab!certificates.pem"] == b"all of them"
    assert settings(files) == {"cert": "/etc/impilab/certificates.pem"}


def test_variables_win_over_files(nothing: dict[str, Path], tmp_path: Path) -> None:
    nothing["system"].write_text(
        "[global]\nindex-url = https://files.example/simple\ntimeout = 3\nunknown = 1\n"
    )
    (tmp_path / "ca").write_bytes(b"certificate")
    environ = {
        "PIP_INDEX_URL": "https://variable.example/simple",
        "PIP_CERT": str(tmp_path / "ca"),
        "HOME": "/nowhere",
    }
    files = machine_files(environ, **nothing)
    assert files["etc!impilab!certificates.pem"] == b"certificate"
    assert settings(files) == {
        "index-url": "https://variable.example/simple",
        "timeout": "3",
        "cert": "/etc/impilab/certificates.pem",
    }


def test_wheels_of_a_folder_come_along(
    nothing: dict[str, Path], tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    environ = {"PIP_FIND_LINKS": str(wheels), "HOME": "/nowhere"}
    assert machine_files(environ, **nothing) == {}
    (wheels / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    files = machine_files(environ, **nothing)
    assert files["etc!impilab!wheels!a-1-py3-none-any.whl"] == b"wheel"
    assert settings(files) == {"find-links": "/etc/impilab/wheels"}


def test_no_user_and_no_password_gets_into_an_image(
    nothing: dict[str, Path], tmp_path: Path
) -> None:
    nothing["system"].write_text(
        "[global]\nindex-url = https://me:secret@files.example/simple/@scope\n"
        "extra-index-url = https://token@one.example/simple\n    https://two.example/simple\n"
        "proxy = me:secret@proxy.example:3128\n"
    )
    environ = {
        "PIP_FIND_LINKS": "https://me:p%40ss@wheels.example/",
        "HOME": "/nowhere",
    }
    files = machine_files(environ, **nothing)
    assert settings(files) == {
        "index-url": "https://files.example/simple/@scope",
        "extra-index-url": "https://one.example/simple\nhttps://two.example/simple",
        "proxy": "proxy.example:3128",
        "find-links": "https://wheels.example/",
    }
    assert not any(
        word in files["etc!pip.conf"] for word in (b"secret", b"token", b"p%40ss")
    )
