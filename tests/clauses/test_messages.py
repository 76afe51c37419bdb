"""Single messages of chapter 3 and ends of chapter 2, in machines and in a whole job."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_packets import feed, job, packet

from impi.base.errors import LocalProtocolError
from impi.protocol.transfer import Arrived, Transfer
from impi.protocol.wire import unpack_header
from impi.rank.api import runtime

PROGRAM = """
from impi import MPI
world = MPI.COMM_WORLD
get = world.Get_attr
assert (get(MPI.IMPI_CLIENT_SIZE), get(MPI.IMPI_HOST_SIZE)) == (2, 3)
assert get(MPI.IMPI_CLIENT_COLOR) == [0, 0, 1][world.rank]
assert get(MPI.IMPI_HOST_COLOR) == world.rank
# Relative to each communicator's own group, and a color for Comm_split.
client = world.Split(get(MPI.IMPI_CLIENT_COLOR), world.rank)
assert client.size == [2, 2, 1][world.rank]
assert (client.Get_attr(MPI.IMPI_CLIENT_SIZE), client.Get_attr(MPI.IMPI_CLIENT_COLOR)) == (1, 0)
assert (client.Get_attr(MPI.IMPI_HOST_SIZE), client.Get_attr(MPI.IMPI_HOST_COLOR)) == (client.size, client.rank)
backwards = world.Split(0, -world.rank)
assert backwards.Get_attr(MPI.IMPI_CLIENT_COLOR) == [0, 0, 1][world.rank]
print("all right")
"""

FAILS = """
import sys
from impi import MPI
MPI.COMM_WORLD.Barrier()
MPI.Finalize()
sys.exit(3 if sys.argv[1] == "fails" else 0)
"""


@pytest.mark.clause("3.3")
def test_the_context_goes_with_every_packet() -> None:
    machine = Transfer(job(maxdatalen=4), 0)
    out = machine.send(
        1, cid=2**64 - 2, tag=32767, lsrank=7, views=[memoryview(b"abcdefgh")]
    )
    (view, _) = machine.data_to_send(1)
    first = unpack_header(view)
    machine.sent(1, 132)
    feed(machine, packet(3, srqid=out.header.srqid, drqid=1))
    (view, _) = machine.data_to_send(1)
    for header in (first, unpack_header(view)):
        assert (header.cid, header.tag, header.lsrank) == (2**64 - 2, 32767, 7)


@pytest.mark.clause("3.4")
def test_tags_up_to_the_agreed_bound() -> None:
    machine = Transfer(job(), 0)
    machine.send(1, cid=0, tag=32767, lsrank=0, views=[])
    for tag in (32768, -1):
        with pytest.raises(LocalProtocolError, match=r"3\.4"):
            machine.send(1, cid=0, tag=tag, lsrank=0, views=[])


@pytest.mark.clause("3.7.3")
@pytest.mark.parametrize("kind", [0, 1])
def test_a_probe_sees_a_message_once_its_first_packet_is_complete(kind: int) -> None:
    machine = Transfer(job(), 0)
    length = 40 if kind else 16
    (event,) = feed(machine, packet(kind, 16, msglen=length))
    assert isinstance(event, Arrived)
    message = event.incoming
    assert not message.available
    feed(machine, bytes(15))
    assert not message.available
    feed(machine, bytes(1))
    # For a long one, the whole length
    assert message.available and message.nbytes == length
    assert not message.done


@pytest.mark.clause("3.7.3")
def test_a_message_of_no_octets_is_available_with_its_header() -> None:
    (event,) = feed(Transfer(job(), 0), packet(0))
    assert isinstance(event, Arrived) and event.incoming.available


@pytest.mark.clause("2.4")
def test_finalize_is_a_barrier_then_fini_then_the_vendors_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    class Vendor:
        def finalize(self) -> None:
            order.append("vendor")

    class Engine:
        vendor = Vendor()

        def shutdown(self) -> None:
            order.append("FINI")

    state = runtime.RuntimeState()
    state.engine = Engine()  # type: ignore[assignment]
    monkeypatch.setattr(runtime, "_state", state)
    monkeypatch.setattr(runtime.hooks, "final_barrier", lambda: order.append("barrier"))
    runtime.finalize()
    assert order == ["barrier", "FINI", "vendor"] and runtime.finalized()
    runtime.finalize()
    assert len(order) == 3


@pytest.mark.clause("2.3.7")
@pytest.mark.clause("2.4")
def test_no_fini_from_a_client_whose_procs_failed(
    run_job: Callable[..., object], tmp_path: Path
) -> None:
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    result = run_job(
        [],
        ["pure:1", "pure:1"],
        argv_of={0: [str(program), "ends"], 1: [str(program), "fails"]},
    )
    server, first, second = result.codes  # type: ignore[attr-defined]
    assert (server, second) == (3, 3), str(result)
    assert first in (0, 3)
    told = r"client 1 \(127.0.0.1:\d+\): rank 0 of this client ended with exit code 3, while the job was running"
    assert re.search(f"Error: {told}", result.server.err)  # type: ignore[attr-defined]


@pytest.mark.clause("2.5")
def test_attributes_of_communicators(
    run_job: Callable[..., object], tmp_path: Path
) -> None:
    program = tmp_path / "attributes.py"
    program.write_text(PROGRAM)
    result = run_job([str(program)], ["pure:2", "pure:1"])
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n" * 3  # type: ignore[attr-defined]
