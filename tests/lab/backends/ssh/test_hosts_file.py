"""The file of existing hosts: what it says, and a sentence for what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.backends import choose_backend
from impi.lab.backends.ssh.backend import SshBackend
from impi.lab.backends.ssh.hosts_file import read_hosts
from impi.lab.nodes.topology import parse_topology

WHOLE = """
folder = "/scratch"
ports = "20000-20100"

[hosts.alpha]
address = "192.0.2.10"
ssh = "alpha.example.org:2222"
user = "ada"
key = "~/.ssh/id_alpha"
host_key = "ssh-ed25519 AAAA"
python = "/opt/python/bin/python3"
vendors = { pure = "", mpich = "/opt/mpich" }
capture = "sudo -n tcpdump"

[hosts.beta]
address = "2001:db8::1"
"""


def test_all_that_a_file_can_say(tmp_path: Path) -> None:
    (path := tmp_path / "hosts.toml").write_text(WHOLE)
    file = read_hosts(path)
    assert (file.folder, file.ports, list(file.hosts)) == (
        "/scratch",
        "20000-20100",
        ["alpha", "beta"],
    )
    alpha, beta = file.hosts.values()
    assert (alpha.ssh, alpha.port, alpha.user) == ("alpha.example.org", 2222, "ada")
    assert alpha.key == str(Path("~/.ssh/id_alpha").expanduser())
    assert alpha.vendors == {"pure": "", "mpich": "/opt/mpich"}
    assert (beta.ssh, beta.port, beta.key, beta.python) == (
        "2001:db8::1",
        22,
        "",
        "python3",
    )
    assert (alpha.capture, beta.capture) == ("sudo -n tcpdump", "")
    assert file.having("mpich") == [alpha]
    assert file.having("pure") == [alpha, beta]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "names no host"),
        ("hosts = 3", "names no host"),
        ("[hosts", "Expected"),
        ("folders = 1", "there is no key 'folders'; there are folder, hosts, ports"),
        ("[hosts]\na = 1", "host a: it is a table such as [hosts.a]"),
        ("[hosts.a]", "host a: address = '' is not a numeric address"),
        (
            "[hosts.a]\naddress = 'alpha'",
            "host a: address = 'alpha' is not a numeric address",
        ),
        ("[hosts.a]\naddress = 7", "host a: address = 7 is not text"),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nssh = 'b:c'",
            "host a: ssh = 'b:c' is not HOST or HOST:PORT",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nport = 3",
            "host a: there is no key 'port'",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nvendors = 3",
            "host a: vendors is a table of folders",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nvendors = {x = ''}",
            "host a: there is no vendor 'x'",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nvendors = {lam = ''}",
            "host a: lam needs a node of its own image",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\nvendors = {mpich = ''}",
            "vendors.mpich = '' is not the folder",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\ncapture = true",
            "host a: capture = True is not text",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\ncapture = ' '",
            "host a: capture = ' ' names no program",
        ),
        (
            "[hosts.a]\naddress = '192.0.2.1'\ncapture = 'sudo \"a'",
            "is not a command, such as 'sudo -n tcpdump': No closing",
        ),
        (
            "ports = '7-6'\n[hosts.a]\naddress = '192.0.2.1'",
            "'7-6' is not a range of ports",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, text: str, what: str
) -> None:
    (path := tmp_path / "hosts.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_hosts(path)
    assert what in caught.value.message
    assert caught.value.message.startswith(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"hosts\.toml cannot be read: No such file"):
        choose_backend(f"ssh:{tmp_path}/hosts.toml")


def backend_of(tmp_path: Path, **vendors: str) -> SshBackend:
    rows = [
        f"[hosts.{name}]\naddress = '192.0.2.1'\nvendors = {{ {has} }}"
        for name, has in vendors.items()
    ]
    (path := tmp_path / "hosts.toml").write_text("\n".join(rows))
    return SshBackend(str(path))


def test_clients_get_hosts_that_have_their_vendors_whatever_the_order(
    tmp_path: Path,
) -> None:
    both = "pure = '', mpich = '/opt/mpich'"
    backend = backend_of(tmp_path, a=both, b=both, c="pure = ''")
    three = parse_topology("1x1+1x1+1x1")
    assert backend.supports(three, ["pure", "mpich", "mpich"]) == ""
    assert backend.supports(three, ["mpich", "pure", "mpich"]) == ""
    assert "needs one more host that has mpich" in backend.supports(
        three, ["mpich", "mpich", "mpich"]
    )
    assert "needs a host for each client" in backend.supports(
        parse_topology("1x1+1x1+1x1+1x1")
    )
    assert "each client has one node" in backend.supports(parse_topology("2x1+1x1"))


def test_what_existing_hosts_are_not_asked_for(tmp_path: Path) -> None:
    backend = backend_of(tmp_path, a="pure = ''")
    with pytest.raises(
        UsageError,
        match=r"no host of .* has openmpi: leave it out with -x '\*openmpi\*'",
    ):
        backend.prepare(["pure", "openmpi"])
    with pytest.raises(UsageError, match="--replace: name the folder"):
        backend.prepare(["pure"], {"pure": "/opt"})
    assert "not the lab's to change" in backend.no_network()
    assert "are not of type s390x" in backend.no_machine("s390x")
    assert backend.inventory.find() == []
