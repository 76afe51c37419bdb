"""impi as its users install it: the wheel of the sdist, in an environment and a folder of its own.

Packages that impi needs are those of this environment; ``python -m pip install`` would get them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import run_page

ROOT = Path(__file__).parents[2]
SHARED = {
    "images/base/Dockerfile",
    "images/mpich/install",
    "images/README.md",
    "clusters/pair.toml",
    "examples/hello/hello.py",
    "ci/expectations.toml",
    "ci/standin.sh",
}
CELL = "p2p.ring/pure+pure/1x2+1x2"
JOB = ("impirun", "-n", "1", "--vendor", "pure", ":", "-n", "1", "--vendor", "pure")
Run = Callable[..., str]


def ran(
    *argv: object, cwd: Path, env: dict[str, str] | None = None, code: int = 0
) -> str:
    """Return the output of a command, stderr as well."""
    done = subprocess.run(
        [*map(str, argv)],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist."""
    folder = tmp_path_factory.mktemp("sdist")
    ran(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "sdist",
        "-d",
        folder,
        cwd=ROOT,
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        # Python 3.11.4 and later
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ran(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
        cwd=source,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def user(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, str]]:
    """An empty folder, and the variables, of a user who has the installed impi and nothing else."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "v", with_pip=False)
    python = place / "v/bin/python"
    install = (
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
    )
    ran(sys.executable, "-m", "pip", "--python", python, *install, wheel, cwd=place)
    packages = next((place / "v/lib").glob("python3*/site-packages"))
    # A folder that a .pth names has its own .pth left unread: this checkout is not among them.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    home, empty = place / "home", place / "empty"
    home.mkdir()
    empty.mkdir()
    env = {"HOME": str(home), "PATH": f"{place}/v/bin:{os.defpath}", "LANG": "C.UTF-8"}
    where = ("python", "-c", "import impi; print(impi.__file__)")
    assert str(packages) in ran(*where, cwd=empty, env=env)
    return empty, env


@pytest.fixture(scope="module")
def run(user: tuple[Path, dict[str, str]]) -> Run:
    """Run a command of the installed impi in that folder."""
    empty, env = user

    def run(*argv: object, code: int = 0) -> str:
        return ran(*argv, cwd=empty, env=env, code=code)

    return run


def hello(run: Run) -> str:
    """Return the path of the first example, without the end of its name."""
    share = run(
        "python", "-c", "from impi.base.manifests import SHARED; print(SHARED)"
    ).strip()
    return f"{share}/examples/hello/hello"


def test_the_sdist_has_what_tests_and_verbs_need(source: Path) -> None:
    for name in (
        "Makefile",
        "ci/venv.sh",
        "ci/locks/dev.txt",
        "docs/README.md",
        "tests/conftest.py",
        "README.md",
    ):
        assert (source / name).is_file(), name
    ran(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/base/test_manifests.py",
        cwd=source,
    )


def test_the_wheel_has_what_the_verbs_read(wheel: Path) -> None:
    names = {
        name.removeprefix("impi/share/") for name in zipfile.ZipFile(wheel).namelist()
    }
    assert names >= SHARED
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


@pytest.mark.proof
def test_versions_of_all_commands(run: Run) -> None:
    for command in ("impilab", "impi", "impirun"):
        assert "0.1.0" in run(command, "--version")
    assert run("python", "-m", "impi", "--version") == run("impi", "--version")


def test_the_first_verdict(run: Run) -> None:
    printed = run("impilab", "demo")
    assert f"~ {CELL}" in printed
    assert "impilab doctor" in printed


@pytest.mark.proof
def test_files_of_the_project_are_found(run: Run) -> None:
    assert "two-nodes" in run("impilab", "ls", "topologies")
    assert "mpich" in run("impilab", "ls", "vendors")
    assert "0 problems" in run("impilab", "expect", "lint")
    assert CELL in run("impilab", "plan", "--backend", "local")


@pytest.mark.proof
def test_a_new_vendor_is_found_again(run: Run) -> None:
    printed = run("impilab", "new", "vendor", "acme")
    assert "home/.local/share/impilab/images/acme/acme.toml" in printed
    assert "R01 ✓" in run("impilab", "check", "acme", "--backend", "local", code=1)


@pytest.mark.proof
def test_a_job(run: Run) -> None:
    assert "rank 1: impi" in run(*JOB, f"{hello(run)}.py")


@pytest.mark.proof
def test_a_compiled_program_and_the_tester(run: Run) -> None:
    run("impicc", f"{hello(run)}.c", "-o", "hello")
    assert "rank 1: impi" in run(*JOB, "./hello")
    client = "impirun -client {client} {server} -np {np} --vendor pure {interpreter}"
    assert "1 holds" in run("impi", "conform", "1.2.2/type-long", "--client", client)


@pytest.mark.proof
def test_the_tutorial(user: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    assert run_page(ROOT / "docs/guides/tutorial.md", tmp_path, user[1]) >= 7
