"""The contract of every backend (:mod:`impi.lab.nodes.interface`), the fake one included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forge import FakeBackend

from impi.base.errors import LabError, UsageError
from impi.base.remote.supervised import Completed
from impi.lab.backends import choose_backend
from impi.lab.backends.lifecycle.cleanup import Choice, clean, remove_lab
from impi.lab.nodes.interface import Backend, Lab, Node, run_on
from impi.lab.nodes.topology import parse_topology

DEADLINE_S = 30.0
SHAPE = parse_topology("1x1+1x1")
SPEAKS = ["sh", "-c", "echo said; echo worse >&2; exit 3"]
SLEEPS = ["sleep", "600"]


def fake() -> Backend:
    backend = FakeBackend()
    backend.commands["sh"] = Completed(
        argv=tuple(SPEAKS), code=3, stdout=b"said\n", stderr=b"worse\n"
    )
    backend.commands["sleep"] = Completed(
        argv=tuple(SLEEPS), code=None, stdout=b"", stderr=b""
    )
    return backend


@pytest.fixture(
    scope="module",
    params=["fake", "loopback", pytest.param("docker", marks=pytest.mark.docker)],
)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "fake":
        yield fake()
        return
    if request.param == "loopback":
        yield choose_backend("local")
        return
    try:
        found = choose_backend("docker")
    except LabError as error:
        pytest.skip(f"no container engine answers: {error}")
    found.prepare(["pure"])
    yield found


@pytest.fixture(scope="module")
def lab(backend: Backend) -> Iterator[Lab]:
    lab = backend.open(["pure", "pure"], SHAPE, run="contract")
    yield lab
    lab.close()


def nodes_of(lab: Lab) -> list[Node]:
    return [lab.server, *(node for nodes in lab.clients for node in nodes)]


def there(backend: Backend, lab: str) -> bool:
    return lab in {seen.lab for seen in backend.inventory.find()}


# -- what a lab says of itself


def test_nodes_are_named_by_client_and_have_addresses_of_their_own(lab: Lab) -> None:
    nodes = nodes_of(lab)
    assert [node.name for node in nodes] == ["server", "c0n0", "c1n0"]
    assert len({node.address for node in nodes}) == 3


def test_access_says_all_that_another_process_needs(backend: Backend, lab: Lab) -> None:
    access = lab.access
    assert (access.backend, access.run, access.vendors) == (
        backend.name,
        "contract",
        ("pure", "pure"),
    )
    assert access.topology == SHAPE
    assert {name: node.address for name, node in access.nodes.items()} == {
        n.name: n.address for n in nodes_of(lab)
    }
    assert access.environment.keys() == access.nodes.keys()
    assert all("PATH" in env for env in access.environment.values())
    assert access.python
    assert lab.software


def test_labs_have_names_of_their_own(backend: Backend, lab: Lab) -> None:
    other = backend.open(["pure", "pure"], SHAPE, run="contract")
    try:
        assert other.access.lab != lab.access.lab
        assert there(backend, other.access.lab)
        assert there(backend, lab.access.lab)
    finally:
        other.close()
    other.close()
    assert not there(backend, other.access.lab)
    assert there(backend, lab.access.lab)


# -- nodes and commands


def test_a_file_is_read_as_it_was_written(lab: Lab) -> None:
    for i, node in enumerate(nodes_of(lab)):
        node.write("folder/file", b"first")
        node.write("folder/file", bytes([i, 0, 255]))
    assert [node.read("folder/file") for node in nodes_of(lab)] == [
        bytes([i, 0, 255]) for i in range(3)
    ]
    home = lab.access.nodes["c0n0"].home
    assert lab.clients[0][0].read(f"{home}/folder/file") == bytes([1, 0, 255])
    assert lab.server.read("folder/nothing") is None


def test_a_command_tells_its_status_and_both_streams(lab: Lab) -> None:
    for node in nodes_of(lab):
        done = run_on(node, SPEAKS, timeout_s=DEADLINE_S)
        assert (done.argv, done.code, done.stdout, done.stderr) == (
            tuple(SPEAKS),
            3,
            b"said\n",
            b"worse\n",
        )
    command = lab.server.start(SPEAKS)
    done = command.wait(DEADLINE_S)
    assert (command.poll(), command.stop(), command.stdout()) == (done, done, b"said\n")


def test_the_deadline_ends_a_command(lab: Lab) -> None:
    command = lab.clients[1][0].start(SLEEPS)
    assert command.poll() is None
    assert command.wait(0.2).code is None
    assert command.poll() is not None


def test_a_command_can_be_stopped(lab: Lab) -> None:
    command = lab.clients[1][0].start(SLEEPS)
    assert command.poll() is None
    done = command.stop()
    assert done.code != 0
    assert command.stop() == done
    assert command.poll() == done


# -- what is seen from outside


def test_captures_lie_between_their_canaries(lab: Lab) -> None:
    lab.begin_capture()
    captures = lab.end_capture()
    assert [capture.node for capture in captures] == (
        [node.name for node in nodes_of(lab)] if lab.captures else []
    )
    for capture in captures:
        first, last = capture.canaries
        assert first != last
        assert 0 < capture.pcap.find(first) < capture.pcap.find(last)
        assert capture.dropped == 0


def test_stacks_of_a_process_that_is_not_there_are_a_note(lab: Lab) -> None:
    stacks = lab.stacks({"c0n0": [4_000_000]})
    assert stacks.notes
    assert not any(stacks.frames.values())


def test_a_quiet_lab_has_no_residue(lab: Lab) -> None:
    assert lab.residue() == []


# -- the life of a lab


def test_a_lab_that_is_held_outlives_its_end_and_is_taken_up_again(
    backend: Backend,
) -> None:
    lab = backend.open(["pure", "pure"], SHAPE, run="held")
    name = lab.access.lab
    lab.hold()
    lab.close()
    assert there(backend, name)
    again = backend.attach(lab.access)
    try:
        assert again.access.nodes == lab.access.nodes
        assert run_on(again.server, SPEAKS, timeout_s=DEADLINE_S).code == 3
        again.hold()
    finally:
        again.close()
    assert there(backend, name)
    assert remove_lab(backend.inventory, name)
    assert not there(backend, name)
    assert remove_lab(backend.inventory, name) == []
    with pytest.raises(LabError):
        backend.attach(lab.access)


def test_clean_spares_what_lives(backend: Backend, lab: Lab) -> None:
    clean(backend.inventory, Choice(labels={"run": "contract"}))
    assert there(backend, lab.access.lab)


# -- the backend


def test_vendors_must_fit_the_clients(backend: Backend) -> None:
    assert backend.supports(SHAPE) == ""
    with pytest.raises(UsageError, match="1 vendors do not fit"):
        backend.open(["pure"], SHAPE, run="contract")


def test_a_finding_that_is_not_right_has_a_cure(backend: Backend) -> None:
    findings = backend.doctor()
    assert findings
    assert all(finding.ok or finding.cure for finding in findings)
