"""Lengths that no 32-bit number holds (IMPI 3.5, 3.7.2): the arithmetic, without moving the octets.

The user data is a mapping that nobody touches, so that it takes no memory.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from raw_packets import feed, job, packet

from impi.base.errors import LocalProtocolError
from impi.protocol.transfer import Arrived, Incoming, Transfer
from impi.protocol.wire.packets import HEADER_SIZE, unpack_header

MAP_NORESERVE = 0x4000
LONG = (5 << 30) + 3
MOST = 2**32 - 1


@contextmanager
def untouched(nbytes: int) -> Iterator[memoryview]:
    """Writable octets without memory behind them."""
    room = mmap.mmap(
        -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    )
    view = memoryview(room)
    try:
        yield view
    finally:
        view.release()
        room.close()


def arrive(machine: Transfer, octets: bytes) -> Incoming:
    (event,) = feed(machine, octets)
    assert isinstance(event, Arrived)
    return event.incoming


@pytest.mark.clause("3.5")
@pytest.mark.parametrize("maxdatalen", [MOST, 1 << 31])
def test_sending(maxdatalen: int) -> None:
    machine = Transfer(job(maxdatalen), 0)
    with untouched(LONG) as view:
        out = machine.send(1, cid=0, tag=0, lsrank=0, views=[view])
        assert out.nbytes == LONG
        lengths: list[int] = []
        while machine.wants_write(1):
            views = machine.data_to_send(1)
            header = unpack_header(views[0])
            assert (header.msglen, header.drqid) == (LONG, 9 if lengths else 0)
            assert sum(len(v) for v in views[1:]) == header.pk_len
            lengths.append(header.pk_len)
            machine.sent(1, HEADER_SIZE + header.pk_len)
            del views
            if len(lengths) == 1:
                assert out.taken == maxdatalen and not out.done
                feed(machine, packet(3, srqid=out.header.srqid, drqid=9))
        assert (
            sum(lengths) == LONG
            and max(lengths) == maxdatalen
            and len(lengths) == -(-LONG // maxdatalen)
        )
        assert out.done


@pytest.mark.clause("3.7.2")
def test_receiving() -> None:
    machine = Transfer(job(MOST), 0)
    incoming = arrive(machine, packet(1, 100, msglen=LONG, srqid=5) + bytes(100))
    with untouched(LONG) as view:
        machine.accept(incoming, view)
        filled = 100
        for size in (MOST, LONG - 100 - MOST):
            assert not incoming.done
            feed(machine, packet(0, size, msglen=LONG, srqid=5, drqid=1))
            while filled < 100 + size if size == MOST else filled < LONG:
                room = machine.get_buffer(1)
                filled += len(room)
                machine.received(1, len(room))
                room.release()
            assert incoming.filled == filled
        assert incoming.done and filled == LONG
        del incoming


@pytest.mark.clause("3.5")
@pytest.mark.parametrize("nbytes", [2**32, 2**32 + 1, 2**63 - 1])
def test_lengths_that_a_message_may_have(nbytes: int) -> None:
    machine = Transfer(job(), 0)
    incoming = arrive(machine, packet(1, 16, msglen=nbytes) + bytes(16))
    assert (incoming.nbytes, incoming.filled, incoming.available) == (nbytes, 16, True)
    with pytest.raises(
        LocalProtocolError, match=f"of {nbytes} octets> cannot go into 16 octets"
    ):
        machine.accept(incoming, memoryview(bytearray(16)))


def test_the_longest_message_into_too_small_a_receive_costs_nothing() -> None:
    """Without a place its octets are dropped as they come: lent buffers stay small."""
    machine = Transfer(job(MOST), 0)
    incoming = arrive(machine, packet(1, MOST, msglen=2**63 - 1))
    machine.accept(incoming, None)
    sizes = {len(machine.get_buffer(1))}
    for _ in range(100):
        room = machine.get_buffer(1)
        sizes.add(len(room))
        machine.received(1, len(room))
    assert sizes == {1 << 16} and incoming.filled == 100 << 16
