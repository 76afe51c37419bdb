"""Frames between procs of one client over stream sockets: octets without ranks or matching.

How it works: a frame is a header of 32 octets and perhaps a body. :class:`MeshLink` cuts one stream
into frames; small ones are read ahead, long bodies are read straight to the place that the
:class:`Sink` names. :class:`Mesh` has one link for each other proc, and one epoll descriptor that
the engine can wait for.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count, islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from impi.base.errors import JobError, LocalProtocolError

if TYPE_CHECKING:
    from impi.rank.vendors.secure_socket import SecureSocket

_LAYOUT: Final = struct.Struct("<IiQQQ")
_SIZE: Final = _LAYOUT.size
_READ_AHEAD: Final = 64 * 1024
_READS: Final = 8
"""Most reads of one link before the next link has its turn."""
_MOST_FRAMES: Final = 32
"""Most frames in one write. Each is a header and at most one body, so 64 pieces at most."""


class Frame(NamedTuple):
    """The header before the octets of a body; the caller defines its meaning."""

    kind: int
    tag: int = 0
    cid: int = 0
    nbytes: int = 0
    ident: int = 0


class Completion:
    """An activity that ends."""

    __slots__ = ("_drive", "done")

    def __init__(self, drive: Callable[[], object], *, done: bool = False) -> None:
        self._drive = drive
        self.done = done

    def test(self) -> bool:
        """Return whether it is done; if not, first drive it once."""
        if not self.done:
            self._drive()

        return self.done


class Sink(Protocol):
    """The receiver of the frames that a link reads."""

    def body_place(self, rank: int, frame: Frame) -> memoryview | None:
        """Return memory of exactly the size of the body that follows a frame; None: no body."""

    def take_frame(self, rank: int, frame: Frame, body: memoryview | None) -> None: ...


class MeshLink:
    """One connected stream to the proc ``rank``; set to non-blocking.

    Args:
        rank: of the other proc in the client.
        sock: connected and authenticated.
        changed: called when ``waits`` has changed.
    """

    __slots__ = (
        "_ahead",
        "_body",
        "_changed",
        "_end",
        "_frame",
        "_left",
        "_out",
        "_pending",
        "_start",
        "bye",
        "rank",
        "sock",
        "waits",
    )

    def __init__(
        self,
        rank: int,
        sock: socket.socket | SecureSocket,
        changed: Callable[[MeshLink], None],
    ) -> None:
        sock.setblocking(False)
        self.rank = rank
        self.sock = sock
        self.bye = False
        """The other side has announced its end: nothing more follows."""
        self._changed = changed
        # Octets inside TLS that no event announces
        self._pending: Callable[[], int] = getattr(sock, "pending", int)
        self.waits = False
        """Writing waits until the socket is writable."""
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = 0
        self._end = 0
        self._frame: Frame | None = None
        self._body: memoryview | None = None
        self._left = 0
        self._out: deque[tuple[list[memoryview], Completion | None]] = deque()

    @property
    def drained(self) -> bool:
        return not self._out

    def send(
        self,
        frame: Frame,
        body: memoryview | None = None,
        completion: Completion | None = None,
    ) -> None:
        """Queue a frame without copying; ``completion`` is done when the kernel has all of it."""

        views = [memoryview(_LAYOUT.pack(*frame))]
        if body is not None and body.nbytes:
            views.append(body)

        # Written at once, not in the next turn: the other proc may be waiting for it. While the
        # socket is full, epoll says when to go on.
        self._out.append((views, completion))
        if not self.waits:
            self.write()

    def drop(self) -> None:
        """Complete the queued sends as if they were written: the other proc is gone."""
        for _, completion in self._out:
            if completion is not None:
                completion.done = True

        self._out.clear()

    def write(self) -> int:
        """Write as much as the kernel takes; return the number of completions that became done.

        Raises:
            JobError: the other proc is gone.
        """

        completed = 0
        while self._out:
            # Many small frames leave by one system call.
            views = [
                view for entry, _ in islice(self._out, _MOST_FRAMES) for view in entry
            ]
            try:
                sent = self.sock.sendmsg(views, (), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._wait(True)
                return completed
            except OSError as error:
                raise self.lost(error.strerror) from None

            completed += self._consume(sent)

        self._wait(False)

        return completed

    def _consume(self, nbytes: int) -> int:
        completed = 0
        while nbytes:
            views, completion = self._out[0]
            while views and nbytes >= views[0].nbytes:
                nbytes -= views[0].nbytes
                del views[0]

            if views:
                views[0] = views[0][nbytes:]
                return completed

            self._out.popleft()
            if completion is not None:
                completion.done = True
                completed += 1

        return completed

    def _wait(self, waits: bool) -> None:
        if waits != self.waits:
            self.waits = waits
            self._changed(self)

    def read(self, sink: Sink) -> None:
        """Read the octets that are here, within limits: the other links have their turn, too.

        Raises:
            JobError: the other proc is gone.
        """
        for turn in count():
            if turn >= _READS and not self._pending():
                return

            # The rest of a body goes straight to its place; headers and short bodies come by the
            # read-ahead buffer, several in one read.
            room = (
                self._body[-self._left :] if self._body is not None else self._space()
            )
            try:
                nbytes = self.sock.recv_into(room)
            except BlockingIOError:
                return
            except OSError as error:
                raise self.lost(error.strerror) from None

            if nbytes == 0:
                if self.bye:  # announced, so it is not a loss
                    return

                raise self.lost("its connection ended")

            # The rest of a body is read alone, straight to its place, without the frames behind it.
            if self._body is not None:
                self._left -= nbytes
                if not self._left:
                    self._complete(sink)
            else:
                self._end += nbytes
                self._cut(sink)

            # The socket had no more: another call would only say so.
            if nbytes < len(room):
                return

    def _space(self) -> memoryview:
        # A frame is far shorter than the buffer, so moving its beginning to the front is cheap, and
        # there is always room behind it.
        part = self._end - self._start
        self._ahead[:part] = self._ahead[self._start : self._end]
        self._start, self._end = 0, part

        return self._ahead[part:]

    def _cut(self, sink: Sink) -> None:
        while self._end - self._start >= _SIZE:
            frame = Frame._make(_LAYOUT.unpack_from(self._ahead, self._start))
            self._start += _SIZE
            self._frame = frame

            body = sink.body_place(self.rank, frame)
            if body is None or not body.nbytes:
                self._complete(sink, body)
                continue

            self._body = body
            # The beginning of the body was read together with its header.
            nbytes = min(body.nbytes, self._end - self._start)
            body[:nbytes] = self._ahead[self._start : self._start + nbytes]
            self._start += nbytes

            self._left = body.nbytes - nbytes
            if self._left:
                return

            self._complete(sink)

    def _complete(self, sink: Sink, body: memoryview | None = None) -> None:
        frame, body = self._frame, body if self._body is None else self._body

        self._frame = self._body = None
        if frame is None:
            raise LocalProtocolError("octets of a body were read without a frame")

        sink.take_frame(self.rank, frame, body)

    def lost(self, reason: str | None) -> JobError:
        return JobError(
            f"proc {self.rank} of this client was lost ({reason}); see what it reported"
        )


class Mesh:
    """The links of a proc to all others of its client, and what wakes it.

    Args:
        links: connected, authenticated sockets, by rank.
    """

    def __init__(self, links: Mapping[int, socket.socket | SecureSocket]) -> None:
        self.survives = False
        """Whether procs may be lost: frames to them are dropped."""
        self.news = 0
        """Completed writes and received frames of the last turn; the sink counts the frames."""
        self._epoll = select.epoll()
        # Rung when progress was made outside of the owner's progress(): it could else sleep on
        # fileno() although a message waits.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung = False
        self._epoll.register(self._bell, select.EPOLLIN)
        self._masks: dict[int, int] = {}
        self._links = {
            other: MeshLink(other, sock, self._watch) for other, sock in links.items()
        }

        self._by_fd = {link.sock.fileno(): link for link in self._links.values()}
        for link in self._links.values():
            self._watch(link)

    @property
    def ranks(self) -> list[int]:
        """The procs that are not lost."""
        return list(self._links)

    @property
    def ended(self) -> bool:
        """Whether all others have said farewell, and have all that was for them."""
        return all(link.bye and link.drained for link in self._links.values())

    def fileno(self) -> int:
        return self._epoll.fileno()

    def ring(self) -> None:
        """Make ``fileno()`` readable until the next turn that hushes the bell."""
        if not self._rung:
            os.eventfd_write(self._bell, 1)
            self._rung = True

    def turn(self, sink: Sink, *, hush: bool = False) -> bool:
        """Read and write as much as possible now; return whether there was any news.

        Raises:
            JobError: another proc of this client was lost.
        """

        # The owner looks at all queues after this turn, so the bell has done its work.
        if hush and self._rung:
            os.eventfd_read(self._bell)
            self._rung = False

        self.news = 0
        for fd, mask in self._epoll.poll(0):
            # None: the bell, or a link that an earlier event of this turn has given up.
            link = self._by_fd.get(fd)
            if link is None:
                continue

            try:
                if mask & select.EPOLLOUT:
                    self.news += link.write()

                # Hang-ups and errors, too: octets may lie before them, and a read tells the reason.
                if mask & ~select.EPOLLOUT:
                    link.read(sink)
            except JobError as error:
                self._give_up(link, error)

        return self.news > 0

    def tell(
        self,
        rank: int,
        frame: Frame,
        body: memoryview | None = None,
        done: Completion | None = None,
    ) -> None:
        # A proc that is lost takes everything: its loss is news of its own, and a send that hung
        # would hide it.
        link = self._links.get(rank)
        if link is None:
            if done is not None:
                done.done = True

            return

        try:
            link.send(frame, body, done)
        except JobError as error:
            self._give_up(link, error)

    def farewell(self, rank: int) -> None:
        """Note that a proc sends nothing more, and that its end is not a loss."""
        self._links[rank].bye = True
        self._watch(self._links[rank])

    def has_left(self, rank: int) -> bool:
        """Return whether a proc has said farewell, or is lost."""
        link = self._links.get(rank)
        return link is None or link.bye

    def sleep(self) -> None:
        """Sleep until an event, after all known work."""
        if self._rung:
            os.eventfd_read(self._bell)
            self._rung = False

        self._epoll.poll()

    def close(self) -> None:
        if self._epoll.closed:
            return

        for link in self._links.values():
            link.sock.close()

        self._links.clear()
        self._epoll.close()
        os.close(self._bell)

    def _give_up(self, link: MeshLink, error: JobError) -> None:
        """Drop the link to a proc that is lost; raise the error where the job does not survive."""

        if not self.survives:
            raise error

        if self._masks.pop(link.sock.fileno(), 0):
            self._epoll.unregister(link.sock.fileno())

        self._by_fd.pop(link.sock.fileno(), None)
        self._links.pop(link.rank, None)
        link.sock.close()
        link.drop()

    def _watch(self, link: MeshLink) -> None:
        fd = link.sock.fileno()
        mask = (0 if link.bye else select.EPOLLIN) | (
            select.EPOLLOUT if link.waits else 0
        )
        before = self._masks.get(fd, 0)

        self._masks[fd] = mask
        if mask and before:
            self._epoll.modify(fd, mask)
        elif mask:
            self._epoll.register(fd, mask)
        elif before:
            # A farewell is followed by a hang-up, which cannot be masked and would wake us forever.
            self._epoll.unregister(fd)
