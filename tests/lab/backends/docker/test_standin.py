"""The script that makes the stand-in image, as far as it goes without making one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "ci/standin.sh"
TOOLS = ("dirname", "id", "mktemp", "rm", "chmod", "mkdir")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script and a PATH with next to nothing."""
    (tmp_path / "ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / "ci")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return tmp_path


def program(checkout: Path, name: str, text: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(checkout: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(checkout / "bin"), "TMPDIR": str(checkout), **environ}
    argv = ["/bin/sh", str(checkout / "ci/standin.sh"), "impilab/os:test"]
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_packages_it_says_what_to_do(checkout: Path) -> None:
    done = run(checkout)
    assert done.returncode == 3
    assert "load debian:bookworm-slim into the engine" in done.stderr


def test_the_image_gets_the_tag_that_was_asked_for_and_the_sources_that_were_named(
    checkout: Path,
) -> None:
    program(checkout, "newuidmap", "exit 0")
    program(checkout, "mmdebstrap", 'for word; do echo "mm $word" >&2; done')
    program(checkout, "docker", 'echo "docker $*"')
    done = run(
        checkout, IMPILAB_APT_SOURCES="deb http://mirror.example/debian bookworm main"
    )
    assert done.returncode == 0, done.stderr
    words = done.stderr.splitlines()
    assert words[-1] == "mm deb http://mirror.example/debian bookworm main"
    assert words[-3] == "mm bookworm"
    assert done.stdout.startswith("docker import ")
    assert done.stdout.split()[-1] == "impilab/os:test"
    # Nothing of the work stays.
    assert {path.name for path in checkout.iterdir()} == {"ci", "bin"}


def test_a_failing_mmdebstrap_fails(checkout: Path) -> None:
    program(checkout, "newuidmap", "exit 0")
    program(checkout, "mmdebstrap", "echo broken >&2; exit 9")
    program(checkout, "docker", "echo imported")
    done = run(checkout, IMPILAB_APT_SOURCES="deb x")
    assert done.returncode == 9
    assert "imported" not in done.stdout


def test_an_ordinary_user_is_told_what_is_missing(checkout: Path) -> None:
    program(checkout, "mmdebstrap", "exit 0")
    (checkout / "bin/id").unlink()
    program(checkout, "id", "echo 1000")
    done = run(checkout)
    assert done.returncode == 3
    assert "newuidmap" in done.stderr
