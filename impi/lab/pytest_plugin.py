"""A lab for users' tests: ``pytest_plugins = ["impi.lab.pytest_plugin"]`` in a ``conftest.py``.

::

    def test_my_program(impi_lab):
        lab = impi_lab("1x2+1x2", "mpich+openmpi")
        job = lab.run("my_program.py", "--steps", "10")
        assert job.ok, job
        assert "converged" in job.stdout

The lab runs in containers if an engine is installed, else on loopback addresses, unless
``--impi-backend`` decides. Equal labs are opened once a session and closed at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from impi.lab.backends import choose_backend
from impi.lab.nodes import Backend, Lab, parse_parties, parse_topology
from impi.lab.nodes.job_commands import JobEnded, run_job


class TestLab:
    """A running lab; ``lab`` is the whole of it, with its nodes."""

    __test__ = False  # for pytest it looks like a class of tests

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def run(
        self,
        program: str | Path,
        *arguments: str,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> JobEnded:
        return run_job(
            self.lab, Path(program), *arguments, timeout_s=timeout_s, env=env
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--impi-backend``."""
    parser.addoption(
        "--impi-backend",
        metavar="NAME",
        help="where impi_lab opens its labs, as for impilab run",
    )


@pytest.fixture(scope="session")
def impi_lab(request: pytest.FixtureRequest) -> Iterator[Callable[..., TestLab]]:
    """``impi_lab(topology, parties)``: a lab such as ``impi_lab("2x2+1x4", "mpich+openmpi")``."""

    backends: list[Backend] = []
    labs: dict[tuple[tuple[str, ...], str], Lab] = {}

    def open_lab(topology: str, parties: str) -> TestLab:
        if not backends:
            backends.append(choose_backend(request.config.getoption("--impi-backend")))

        shape, vendors = parse_topology(topology), parse_parties(parties)

        key = (vendors, str(shape))
        if key not in labs:
            backends[0].prepare(sorted(set(vendors)))
            labs[key] = backends[0].open(vendors, shape, run="pytest")

        return TestLab(labs[key])

    yield open_lab
    for lab in labs.values():
        lab.close()
