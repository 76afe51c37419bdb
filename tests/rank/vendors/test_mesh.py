"""Frames over a stream: whole at the other side, in order, complete when the kernel has them."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from random import Random

import pytest
from tls_pair import both

from impi.base.errors import JobError
from impi.rank.vendors.mesh import Completion, Frame, MeshLink


class Taken:
    """A sink with room for every body."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, Frame, bytes | None]] = []

    def body_place(self, rank: int, frame: Frame) -> memoryview | None:
        return memoryview(bytearray(frame.nbytes)) if frame.kind == 1 else None

    def take_frame(self, rank: int, frame: Frame, body: memoryview | None) -> None:
        self.frames.append((rank, frame, None if body is None else bytes(body)))


Ends = tuple[MeshLink, MeshLink, list[bool]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The link at rank 0, that at rank 1, and how the first has waited."""
    waits: list[bool] = []
    low, high = socket.socketpair()
    with low, high:
        yield (
            MeshLink(1, low, lambda link: waits.append(link.waits)),
            MeshLink(0, high, lambda link: None),
            waits,
        )


def test_frames_of_all_sizes_in_order(ends: Ends) -> None:
    near, far, _ = ends
    bodies = [b"", b"a", bytes(range(256)) * 20, b"", b"end"]
    for tag, body in enumerate(bodies):
        near.send(Frame(1, tag, nbytes=len(body), ident=tag), memoryview(body))
    near.send(Frame(2, 9))
    sink = Taken()
    far.read(sink)
    assert [(rank, frame.tag) for rank, frame, _ in sink.frames] == [
        (0, tag) for tag in (*range(5), 9)
    ]
    assert [body for _, _, body in sink.frames] == [*bodies, None]


def test_a_send_is_complete_once_the_kernel_has_it(ends: Ends) -> None:
    near, far, waits = ends
    body = bytes(4 << 20)
    first, last = Completion(lambda: None), Completion(lambda: None)
    near.send(Frame(1, nbytes=len(body)), memoryview(body), first)
    near.send(Frame(2), None, last)
    assert (first.test(), last.done, near.drained, waits) == (
        False,
        False,
        False,
        [True],
    )
    sink = Taken()
    while len(sink.frames) < 2:
        far.read(sink)
        near.write()
    assert (first.done, last.done, near.drained, waits) == (
        True,
        True,
        True,
        [True, False],
    )
    assert sink.frames[0][2] == body


def test_what_is_queued_for_a_lost_proc_is_complete(ends: Ends) -> None:
    near, far, _ = ends
    done = Completion(lambda: None)
    near.send(Frame(1, nbytes=4 << 20), memoryview(bytes(4 << 20)), done)
    far.sock.close()
    with pytest.raises(JobError, match="proc 1 of this client was lost"):
        near.write()
    near.drop()
    assert (done.done, near.drained) == (True, True)


@pytest.mark.parametrize("farewell", [False, True])
def test_an_end_is_a_loss_unless_it_was_announced(ends: Ends, farewell: bool) -> None:
    near, far, _ = ends
    near.bye = farewell
    far.sock.close()
    if farewell:
        near.read(Taken())
    else:
        with pytest.raises(
            JobError, match=r"proc 1 of this client was lost \(its connection ended\)"
        ):
            near.read(Taken())


def test_over_tls_no_octet_is_left_where_no_event_announces_it() -> None:
    """A body that ends inside of a record leaves the rest of that decrypted, and nothing wakes."""
    one, other = both(*socket.socketpair())
    near, far = MeshLink(1, one, lambda _: None), MeshLink(0, other, lambda _: None)
    bodies = [
        Random(size).randbytes(size)
        for size in (*range(1, 4000, 37), 1 << 16, 100_003, *range(16_300, 16_400, 7))
    ]
    for tag, body in enumerate(bodies):
        near.send(Frame(1, tag, nbytes=len(body)), memoryview(body))
    sink = Taken()
    while len(sink.frames) < len(bodies):
        near.write()
        ready = select.select([other], [], [], 0 if near.drained else 0.01)[0]
        assert ready or not near.drained, "octets are there, and nothing says so"
        far.read(sink)
    assert [body for _, _, body in sink.frames] == bodies
    one.close()
    other.close()


def test_a_completion_drives_until_it_is_done() -> None:
    turns: list[int] = []
    completion = Completion(lambda: turns.append(1))
    assert not completion.test()
    completion.done = True
    assert completion.test()
    assert turns == [1]
