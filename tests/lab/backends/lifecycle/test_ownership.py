"""Whether the owner of a lab lives."""

from __future__ import annotations

import subprocess
import sys

import pytest

from impi.lab.backends.lifecycle import ownership


def test_we_live() -> None:
    assert ownership.is_live(ownership.myself())


def test_a_process_that_has_ended_does_not() -> None:
    program = "from impi.lab.backends.lifecycle import ownership; print(ownership.myself(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        label = process.stdout.readline().strip()
        assert ownership.is_live(label)
        process.kill()
        process.wait(30)
        assert not ownership.is_live(label)


def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    boot, namespace, pid, started = ownership.myself().split("/")
    assert not ownership.is_live(f"{boot}/{namespace}/{pid}/{int(started) - 1}")


def test_after_a_reboot_nobody_lives() -> None:
    _, namespace, pid, started = ownership.myself().split("/")
    assert not ownership.is_live(
        f"00000000-0000-0000-0000-000000000000/{namespace}/{pid}/{started}"
    )


def test_where_we_cannot_look_it_is_spared() -> None:
    boot, _, _, _ = ownership.myself().split("/")
    assert ownership.is_live(f"{boot}/1/99999999/1")


@pytest.mark.parametrize("label", ["", "nonsense", "a/b/c/d", "1/2/3"])
def test_nonsense_does_not_live(label: str) -> None:
    assert not ownership.is_live(label)
