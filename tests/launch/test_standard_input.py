"""Standard input on its way: sources of all kinds, and the socket of a reader."""

from __future__ import annotations

import os
import pty
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.remote import processes
from impi.launch.standard_input import Feed, Source, has_input
from impi.protocol.startup.encrypted import Stream

FOREVER = float("inf")


class World:
    """A loop around one source."""

    def __init__(self, descriptor: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.source = Source(self.selector, descriptor)
        self.given: list[bytes] = []

    def turn(self) -> bool:
        """Whether anything happened."""
        self.source.turn()
        ready = self.selector.select(0)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def run(self) -> None:
        while self.turn():
            pass


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass


def test_what_can_have_input(pipe: tuple[int, int], tmp_path: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    zeros = os.open("/dev/zero", os.O_RDONLY)
    assert [has_input(one) for one in (pipe[0], zeros, nothing)] == [True, True, False]
    os.close(nothing)
    os.close(zeros)
    assert not has_input(nothing)


def test_nothing_is_read_before_somebody_asks(pipe: tuple[int, int]) -> None:
    world = World(pipe[0])
    os.write(pipe[1], b"one")
    assert not world.turn()
    world.source.ask(world.given.append)
    assert world.turn()
    os.write(pipe[1], b"two")
    assert not world.turn()
    assert world.given == [b"one"]
    os.close(pipe[1])
    for _ in range(2):
        world.source.ask(world.given.append)
        world.turn()
    assert world.given == [b"one", b"two", b""]


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    for path, expected in ((tmp_path / "file", [b"text", b""]), (tmp_path, [b""])):
        descriptor = os.open(path, os.O_RDONLY)
        world = World(descriptor)
        for _ in expected:
            world.source.ask(world.given.append)
            world.turn()
        os.close(descriptor)
        assert world.given == expected


def test_the_terminal_of_another_job_is_left_alone() -> None:
    """In a process of its own, whose terminal the test's process group does not have."""
    control, terminal = pty.openpty()
    os.write(control, b"words\n")

    def background() -> int:
        # processes.fork has begun a session; to open a terminal then makes it that session's.
        own = os.open(os.ttyname(0), os.O_RDWR)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        ours = os.getpgrp()
        child = os.fork()
        if child == 0:
            signal.pause()
        os.setpgid(child, child)
        os.tcsetpgrp(own, child)
        world = World(own)
        world.source.ask(world.given.append)
        assert 0 < world.source.turn() < FOREVER
        assert not world.turn()
        os.tcsetpgrp(own, ours)
        os.kill(child, signal.SIGKILL)
        assert world.source.turn() == FOREVER
        assert world.turn()
        assert world.given == [b"words\n"]
        return 0

    pid = processes.fork(
        (terminal, sys.__stderr__.fileno() if sys.__stderr__ else 2, 2), background
    )
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    os.close(control)
    assert os.waitstatus_to_exitcode(status) == 0


@given(
    size=st.integers(0, 300_000),
    file=st.booleans(),
    reads=st.lists(st.integers(1000, 200_000), min_size=1, max_size=20),
)
def test_a_reader_of_any_pace_gets_all(size: int, file: bool, reads: list[int]) -> None:
    text = (b"0123456789abcdef!" * (size // 17 + 1))[:size]
    got = b""
    with ExitStack() as stack:
        if file:
            there = stack.enter_context(tempfile.TemporaryFile())
            there.write(text)
            there.seek(0)
            descriptor, writer = there.fileno(), None
        else:
            reader, writer = socket.socketpair()
            stack.enter_context(reader)
            stack.enter_context(writer).setblocking(False)
            descriptor = reader.fileno()
        _feed, theirs, world = attached(descriptor, stack)
        left = text
        for turn in range(10_000):
            if writer is not None:
                left = left[sent(writer, left) :]
                if not left:
                    writer.close()
                    writer = None
            world.turn()
            data = received(theirs, reads[turn % len(reads)])
            if data == b"":
                break
            got += data or b""
    assert got == text


def sent(writer: socket.socket, data: bytes) -> int:
    try:
        return writer.send(data) if data else 0
    except BlockingIOError:
        return 0


def received(reader: socket.socket, most: int) -> bytes | None:
    try:
        return reader.recv(most)
    except BlockingIOError:
        return None


def attached(descriptor: int, stack: ExitStack) -> tuple[Feed, socket.socket, World]:
    """A feed whose reader holds the other end of a pair of sockets."""
    world = World(descriptor)
    stack.callback(world.selector.close)
    feed = Feed(world.selector, world.source)
    stack.callback(feed.close)
    return feed, another(feed, stack), world


def another(
    feed: Feed, stack: ExitStack, stream: Stream | None = None
) -> socket.socket:
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    stack.enter_context(theirs).setblocking(False)
    feed.attach(ours, stream)
    return theirs


def test_a_second_reader_gets_the_rest(pipe: tuple[int, int]) -> None:
    with ExitStack() as stack:
        feed, first, world = attached(pipe[0], stack)
        os.write(pipe[1], b"one")
        world.run()
        assert first.recv(99) == b"one"
        second = another(feed, stack)
        os.write(pipe[1], b"two")
        world.run()
        assert second.recv(99) == b"two"
        assert first.recv(99) == b""
        os.close(pipe[1])
        world.run()
        assert second.recv(99) == b""
        assert another(feed, stack).recv(99) == b""


def test_a_reader_that_has_gone_is_forgotten(pipe: tuple[int, int]) -> None:
    with ExitStack() as stack:
        _feed, theirs, world = attached(pipe[0], stack)
        theirs.close()
        os.write(pipe[1], b"for nobody")
        world.run()
        assert world.selector.get_map() == {}


def sessions() -> tuple[Stream, Stream]:
    """The connecting and the accepting end of a session, after the handshake."""
    near, far = Stream(accepts=False), Stream(accepts=True)
    octets = near.send(b"")
    while octets:
        octets = far.receive(octets)[1]
        octets = near.receive(octets)[1] if octets else b""
    return near, far


def test_inside_a_session_each_reader_gets_the_rest_and_is_told_the_end(
    pipe: tuple[int, int],
) -> None:
    with ExitStack() as stack:
        world = World(pipe[0])
        stack.callback(world.selector.close)
        feed = Feed(world.selector, world.source)
        stack.callback(feed.close)
        near, far = sessions()
        first = another(feed, stack, far)
        os.write(pipe[1], b"one")
        world.run()
        octets = first.recv(9999)
        assert b"one" not in octets
        assert near.receive(octets)[0] == b"one"
        near, far = sessions()
        second = another(feed, stack, far)
        os.write(pipe[1], b"two")
        os.close(pipe[1])
        world.run()
        assert near.receive(second.recv(9999))[0] == b"two"
        assert near.closed
        assert second.recv(99) == b""
        near, far = sessions()
        third = another(feed, stack, far)
        world.run()
        assert near.receive(third.recv(9999))[0] == b""
        assert near.closed
