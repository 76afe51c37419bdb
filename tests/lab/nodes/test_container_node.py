"""The lab's assumptions about container nodes hold in the text of their image."""

from __future__ import annotations

from pathlib import Path

from impi.lab.nodes.container_node import HOME, SOURCES, SSH_PORT, UID, USER

BASE = Path(__file__).parents[3] / "images/base"


def test_nobody_is_root_behind_ssh() -> None:
    config = (BASE / "sshd_config").read_text("utf-8").splitlines()
    for line in (
        f"Port {SSH_PORT}",
        f"AllowUsers {USER}",
        "PasswordAuthentication no",
        "UsePAM no",
    ):
        assert line in config
    assert f"useradd -m -u {UID} -p '*'" in (BASE / "Dockerfile").read_text("utf-8")


def test_the_user_has_a_home_and_the_sources_a_place() -> None:
    assert f"/home/{USER}" == HOME
    assert SOURCES in (BASE / "Dockerfile").read_text("utf-8")
