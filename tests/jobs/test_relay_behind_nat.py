"""Two clients behind NATs of their own, with one private address: in network namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
DEADLINE_S = 90.0
PROGRAM = str(Path(__file__).parent / "programs" / "relayed.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
HUB = "10.98.7.1"
PRIVATE = "192.168.77.2"
Start = Callable[..., subprocess.Popen[str]]


class Nets:
    """A hub with two routers, and a node behind each: ``hub``, ``router0``, ``node0``, ..."""

    def __init__(self, stack: ExitStack) -> None:
        self._prefix = f"impi-relay-{os.getpid()}-"
        self._stack = stack
        for name in ("hub", "router0", "node0", "router1", "node1"):
            self._do("ip", "netns", "add", self._prefix + name)
            stack.callback(self._do, "ip", "netns", "del", self._prefix + name)
            self.run(name, "ip", "link", "set", "lo", "up")
        self.run("hub", "ip", "link", "add", "br0", "type", "bridge")
        self.run("hub", "ip", "addr", "add", f"{HUB}/24", "dev", "br0")
        self.run("hub", "ip", "link", "set", "br0", "up")
        for number in range(2):
            router, node = f"router{number}", f"node{number}"
            self._cable("hub", f"to{number}", router, "out")
            self.run("hub", "ip", "link", "set", f"to{number}", "master", "br0")
            self.run(router, "ip", "addr", "add", f"10.98.7.{10 + number}/24", "dev", "out")
            self._cable(router, "in", node, "eth0")
            self.run(router, "ip", "addr", "add", "192.168.77.1/24", "dev", "in")
            self.run(node, "ip", "addr", "add", f"{PRIVATE}/24", "dev", "eth0")
            self.run(node, "ip", "route", "add", "default", "via", "192.168.77.1")
            self.run(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            self.run(router, "iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "out", "-j", "MASQUERADE")
            self.run(node, "iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "--syn", "-j", "DROP")

    def _cable(self, one: str, its: str, other: str, others: str) -> None:
        there = self._prefix + other
        self.run(one, "ip", "link", "add", its, "type", "veth", "peer", "name", others, "netns", there)
        self.run(one, "ip", "link", "set", its, "up")
        self.run(other, "ip", "link", "set", others, "up")

    def _do(self, *argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def run(self, where: str, *argv: str) -> str:
        """What a command prints there."""
        return self._do("ip", "netns", "exec", self._prefix + where, *argv)

    def impirun(self, where: str, *arguments: str) -> subprocess.Popen[str]:
        """A process there, which ends with the test."""
        argv = ["ip", "netns", "exec", self._prefix + where, sys.executable, "-m", "impi.cli.impirun", *arguments]
        pipe = subprocess.PIPE
        env = {**os.environ, **SECRET}
        process = subprocess.Popen(
            argv, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, text=True, env=env, cwd=ROOT
        )
        self._stack.enter_context(process)
        self._stack.callback(process.terminate)
        return process


@pytest.fixture
def nets() -> Iterator[Nets]:
    if shutil.which("iptables") is None or os.geteuid() != 0:
        pytest.skip("network namespaces with NAT need root and iptables")
    with ExitStack() as stack:
        try:
            nets = Nets(stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted here: {error.stderr}")
        yield nets


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("more", [[], ["--hosts", "client"]], ids=["a host each", "one host for all"])
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("vendors", [("mpich", "openmpi"), ("openmpi", "pure")], ids="+".join)
def test_two_clients_behind_nat_of_their_own(nets: Nets, vendors: tuple[str, str], more: list[str]) -> None:
    server = nets.impirun("hub", "-server", "2", "-auth", "31", "--interface", HUB)
    relay = nets.impirun("hub", "-relay", "-v", "--interface", HUB, "--ports", "20000-20099")
    where, through = first_line(server), first_line(relay)
    clients = [
        nets.impirun(
            *(f"node{number}", "-client", str(number), where, "-np", "2", "--vendor", vendor),
            *("--relay", through, *more, PROGRAM),
        )
        for number, vendor in enumerate(vendors)
    ]
    said = [client.communicate(timeout=DEADLINE_S) for client in clients]
    assert [client.returncode for client in clients] == [0, 0], said
    assert server.wait(DEADLINE_S) == 0
    assert "".join(out for out, _ in said) == "all right\n"
    for number in range(2):
        # Nobody has even tried to connect to a node.
        rules = nets.run(f"node{number}", "iptables", "-L", "INPUT", "-vxn")
        drop = next(line.split() for line in rules.splitlines() if "DROP" in line and "tcp" in line)
        assert drop[0] == "0", rules
    relay.terminate()
    _, err = relay.communicate(timeout=DEADLINE_S)
    assert err.count("has gone") == 2, err
    assert all(f"10.98.7.{10 + number}:" in err for number in range(2)), err
