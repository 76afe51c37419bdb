"""Hosts on this machine with networks of their own: network namespaces, joined by cables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Namespaces:
    """Network namespaces by name; the test is skipped where there can be none.

    Args:
        stack: ends them, and all processes there.
        names: of the namespaces.
    """

    def __init__(self, stack: ExitStack, *names: str) -> None:
        if shutil.which("iptables") is None or os.geteuid() != 0:
            pytest.skip("network namespaces need root, and iptables for NAT")
        self._prefix = f"impi-{os.getpid()}-"
        self._stack = stack
        try:
            for name in names:
                self._do("ip", "netns", "add", self._prefix + name)
                stack.callback(self._do, "ip", "netns", "del", self._prefix + name)
                self.run(name, "ip", "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted here: {error.stderr}")

    def cable(self, one: str, its: str, other: str, others: str) -> None:
        """Join two namespaces: the names of each and of its end."""
        there = self._prefix + other
        self.run(
            one,
            "ip",
            "link",
            "add",
            its,
            "type",
            "veth",
            "peer",
            "name",
            others,
            "netns",
            there,
        )
        self.run(one, "ip", "link", "set", its, "up")
        self.run(other, "ip", "link", "set", others, "up")

    def address(self, where: str, link: str, address: str) -> None:
        """Give an end of a cable an address, such as 10.98.7.1/24."""
        self.run(where, "ip", "addr", "add", address, "dev", link)

    def run(self, where: str, *argv: str) -> str:
        """Return the output of a command there."""
        return self._do("ip", "netns", "exec", self._prefix + where, *argv)

    def impirun(
        self, where: str, *arguments: str, env: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start an impirun there, which ends with the test."""
        argv = [
            "ip",
            "netns",
            "exec",
            self._prefix + where,
            sys.executable,
            "-m",
            "impi.cli.impirun",
            *arguments,
        ]
        pipe, all_env = subprocess.PIPE, {**os.environ, **env}
        process = subprocess.Popen(
            argv,
            stdout=pipe,
            stderr=pipe,
            stdin=subprocess.DEVNULL,
            text=True,
            env=all_env,
            cwd=ROOT,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.terminate)
        return process

    def _do(self, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
