"""Clients whose hosts connect from another address than they advertise (IMPI 2.3.8)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from namespaces import Namespaces, first_line

pytestmark = [pytest.mark.proof, pytest.mark.clause("2.3.8")]

DEADLINE_S = 60.0
PROGRAM = str(Path(__file__).parent / "programs" / "relayed.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
NONE = {"IMPI_AUTH_NONE": "1"}
ONE, OTHER, OTHERS_SECOND, BEHIND = "10.98.8.1", "10.98.8.2", "10.98.9.2", "10.98.10.2"
STRICT = ["--strict-addresses"]
OLD = ["--impi-version", "0.0"]


@pytest.fixture
def nets() -> Iterator[Namespaces]:
    """``one`` and ``other``, which has a second address, and translates that of ``behind``."""
    with ExitStack() as stack:
        nets = Namespaces(stack, "one", "other", "behind")
        for number, (mine, theirs) in enumerate(
            [(ONE, OTHER), ("10.98.9.1", OTHERS_SECOND)]
        ):
            nets.cable("one", f"net{number}", "other", f"net{number}")
            nets.address("one", f"net{number}", f"{mine}/24")
            nets.address("other", f"net{number}", f"{theirs}/24")
        nets.cable("other", "in", "behind", "eth0")
        nets.address("other", "in", "10.98.10.1/24")
        nets.address("behind", "eth0", f"{BEHIND}/24")
        nets.run("behind", "ip", "route", "add", "default", "via", "10.98.10.1")
        nets.run("other", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        nets.run(
            "other",
            "iptables",
            "-t",
            "nat",
            "-A",
            "POSTROUTING",
            "-s",
            BEHIND,
            "-j",
            "MASQUERADE",
        )
        yield nets


class Job:
    """A job of two clients, the last one at ``where``."""

    def __init__(
        self,
        nets: Namespaces,
        where: str,
        env: dict[str, str],
        first: list[str],
        last: list[str],
    ) -> None:
        self.began = time.monotonic()
        server = nets.impirun("one", "-server", "2", "--interface", ONE, env=env)
        at = first_line(server)
        clients = [
            nets.impirun(
                "one", "-client", "0", at, "-np", "2", *first, PROGRAM, env=env
            ),
            nets.impirun(
                where, "-client", "1", at, "-np", "2", *last, PROGRAM, env=env
            ),
        ]
        self.processes: list[subprocess.Popen[str]] = [server, *clients]
        self.errors = [
            process.communicate(timeout=DEADLINE_S)[1] for process in self.processes
        ]
        self.codes = [process.returncode for process in self.processes]
        self.took_s = time.monotonic() - self.began


@pytest.mark.parametrize(
    "more", [[], OLD, ["--hosts", "client"]], ids=["ours", "0.0", "one host"]
)
def test_a_second_address_is_accepted_with_a_warning_of_each_host(
    nets: Namespaces, more: list[str]
) -> None:
    job = Job(
        nets,
        "other",
        NONE,
        more,
        [*more, "--interface", OTHER, "--source", OTHERS_SECOND],
    )
    assert job.codes == [0, 0, 0], job.errors
    accepting, connecting = (1, 1) if "--hosts" in more else (2, 2)
    said = [line for line in job.errors[1].splitlines() if "connects from" in line]
    assert len(said) == accepting * connecting, job.errors
    assert all(
        f"connects from {OTHERS_SECOND}, while client 1 is known by {OTHER};" in line
        for line in said
    )


def test_with_a_secret_the_proof_decides_and_nobody_warns(nets: Namespaces) -> None:
    job = Job(
        nets,
        "other",
        SECRET,
        STRICT,
        ["--interface", OTHER, "--source", OTHERS_SECOND, *STRICT],
    )
    assert job.codes == [0, 0, 0], job.errors
    assert "connects from" not in job.errors[1]


@pytest.mark.parametrize(
    "more",
    [[], OLD, ["--hosts", "client"], ["--lazy"]],
    ids=["ours", "0.0", "one host", "lazy"],
)
def test_a_refusal_ends_the_job_at_all_ends_with_its_sentence(
    nets: Namespaces, more: list[str]
) -> None:
    last = [*more, "--interface", OTHER, "--source", OTHERS_SECOND]
    job = Job(nets, "other", NONE, [*STRICT, *more], last)
    assert all(job.codes), job.errors
    for said in job.errors:
        assert (
            f", which connected from {OTHERS_SECOND}, while client 1 is known by {OTHER}; give all"
            in said
        )
        assert "without FINI" not in said
    assert job.took_s < DEADLINE_S / 2  # a dance has a minute


@pytest.mark.parametrize("more", [[], STRICT], ids=["", "strict"])
def test_behind_nat_its_start_up_came_from_there_too(
    nets: Namespaces, more: list[str]
) -> None:
    job = Job(nets, "behind", NONE, more, more)
    assert job.codes == [0, 0, 0], job.errors
    assert "connects from" not in job.errors[1]
