"""Whether another machine's programs run here: what the kernel's registration says."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from impi.base.manifests import machine_of
from impi.lab.backends.docker.foreign_machines import why_no_machine

GOOD = "enabled\ninterpreter /usr/libexec/qemu-binfmt/s390x-binfmt-P\nflags: PF\noffset 0\n"


def registered(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder


def test_an_interpreter_that_is_held_open_will_do(tmp_path: Path) -> None:
    assert (
        why_no_machine("s390x", registered=registered(tmp_path, "qemu-s390x", GOOD))
        == ""
    )


def test_debians_names_and_qemus_are_two(tmp_path: Path) -> None:
    folder = registered(tmp_path, "qemu-aarch64", GOOD)
    assert why_no_machine("arm64", registered=folder) == ""
    assert (
        "arm64" in why_no_machine("arm64", registered=tmp_path / "none")
        or platform.machine() == "aarch64"
    )


@pytest.mark.parametrize(
    "text", [GOOD.replace("enabled", "disabled"), GOOD.replace("PF", "P"), ""]
)
def test_an_interpreter_that_is_off_or_not_for_containers(
    text: str, tmp_path: Path
) -> None:
    assert "run ci/machines.sh" in why_no_machine(
        "s390x", registered=registered(tmp_path, "qemu-s390x", text)
    )


def test_without_a_registration_the_cure_is_named(tmp_path: Path) -> None:
    assert "ci/machines.sh, as root" in why_no_machine("s390x", registered=tmp_path)


def test_this_machine_needs_none(tmp_path: Path) -> None:
    assert why_no_machine(platform.machine(), registered=tmp_path) == ""


def test_the_machines_of_the_project_are_versions() -> None:
    assert (
        machine_of("pure@s390x"),
        machine_of("pure@arm64"),
        machine_of("pure"),
        machine_of("mpich@4.3"),
    ) == (
        "s390x",
        "arm64",
        "",
        "",
    )
