"""Two clients behind NATs of their own, with one private address: in network namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from namespaces import Namespaces, first_line

pytestmark = pytest.mark.proof

DEADLINE_S = 90.0
PROGRAM = str(Path(__file__).parent / "programs" / "relayed.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
HUB = "10.98.7.1"
PRIVATE = "192.168.77.2"


@pytest.fixture
def nets() -> Iterator[Namespaces]:
    """A hub with two routers, and a node behind each: ``hub``, ``router0``, ``node0``, ..."""
    with ExitStack() as stack:
        nets = Namespaces(stack, "hub", "router0", "node0", "router1", "node1")
        nets.run("hub", "ip", "link", "add", "br0", "type", "bridge")
        nets.address("hub", "br0", f"{HUB}/24")
        nets.run("hub", "ip", "link", "set", "br0", "up")
        for number in range(2):
            router, node = f"router{number}", f"node{number}"
            nets.cable("hub", f"to{number}", router, "out")
            nets.run("hub", "ip", "link", "set", f"to{number}", "master", "br0")
            nets.address(router, "out", f"10.98.7.{10 + number}/24")
            nets.cable(router, "in", node, "eth0")
            nets.address(router, "in", "192.168.77.1/24")
            nets.address(node, "eth0", f"{PRIVATE}/24")
            nets.run(node, "ip", "route", "add", "default", "via", "192.168.77.1")
            nets.run(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            nets.run(
                router,
                "iptables",
                "-t",
                "nat",
                "-A",
                "POSTROUTING",
                "-o",
                "out",
                "-j",
                "MASQUERADE",
            )
            nets.run(
                node,
                "iptables",
                "-A",
                "INPUT",
                "-i",
                "eth0",
                "-p",
                "tcp",
                "--syn",
                "-j",
                "DROP",
            )
        yield nets


@pytest.mark.parametrize(
    "more", [[], ["--hosts", "client"]], ids=["a host each", "one host for all"]
)
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    "vendors", [("mpich", "openmpi"), ("openmpi", "pure")], ids="+".join
)
def test_two_clients_behind_nat_of_their_own(
    nets: Namespaces, vendors: tuple[str, str], more: list[str]
) -> None:
    server = nets.impirun(
        "hub", "-server", "2", "-auth", "31", "--interface", HUB, env=SECRET
    )
    relay = nets.impirun(
        "hub", "-relay", "-v", "--interface", HUB, "--ports", "20000-20099", env=SECRET
    )
    where, through = first_line(server), first_line(relay)
    clients = [
        nets.impirun(
            *(
                f"node{number}",
                "-client",
                str(number),
                where,
                "-np",
                "2",
                "--vendor",
                vendor,
            ),
            *("--relay", through, *more, PROGRAM),
            env=SECRET,
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
        drop = next(
            line.split()
            for line in rules.splitlines()
            if "DROP" in line and "tcp" in line
        )
        assert drop[0] == "0", rules
    relay.terminate()
    _, err = relay.communicate(timeout=DEADLINE_S)
    assert err.count("has gone") == 2, err
    assert all(f"10.98.7.{10 + number}:" in err for number in range(2)), err
