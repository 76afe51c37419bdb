"""``impirun -server``: the sockets around :class:`~impi.startup.ServerMachine`.

stdout gets one line, ``a.b.c.d:port``, before any client comes (IMPI 2.2.1). Everything else goes
to stderr, because a script may close stdout after that line.

How it works: :func:`run_server` makes the machine, which knows the protocol and no socket, then
listens and prints the address. :class:`_Loop` turns until there is an exit code. A turn hands what
came on each connection to the machine, acts on the events that this gives (close a connection, end
the job), and writes what the machine has for each connection. Octets that a full socket does not
take wait in ``_unsent``. Connections have numbers of their own, since descriptors are used again.
With ``-file`` the loop also reads the starters of clients (:mod:`impi.launch.children`). At the
end :meth:`_Loop._see_off` closes all connections first: that tells clients that the job is over.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Final, TextIO

from impi.doors.strangers import Guesses, Refusals, Strangers
from impi.errors import LaunchError, UsageError
from impi.exit_codes import ExitCode
from impi.launch.appfile import make_commands, read_appfile
from impi.launch.children import Children, exit_code
from impi.launch.front import ANY, listen, print_endpoint, reachable, say
from impi.launch.interrupts import Interrupts
from impi.launch.net import Names, set_options
from impi.launch.program import Command
from impi.launch.pulse import BEAT_S, Pulse, is_silent, silence
from impi.launch.standard_input import Source
from impi.options import ServerOptions
from impi.settings import AUTH_KEY, AUTH_NONE, AUTH_SECRET
from impi.startup.auth import Method, find_credentials, names_key, none_warning, parse_preference
from impi.startup.names import NameTold
from impi.startup.server import (
    AuthenticatedByNone,
    ClientFinished,
    ClientJoined,
    ClientLost,
    ConnectionRefused,
    JobFailed,
    JobOver,
    JobStarted,
    ServerEvent,
    ServerMachine,
)
from impi.vendors.dial import quick_ack, show_endpoint

_CHUNK: Final = 1 << 16
_SOON_S: Final = 0.05
# Shortest wait while a client is silent whose octets are still to be read.

_TURN_S: Final = 10.0
# Longest time between two looks at what is waited for.

_FAREWELL_S: Final = 1.0
# Time for all clients to read why the job fails.

_CLIENTS_END_S: Final = 20.0
# Time for clients of this server to end after the job, before they are ended.

_OTHERS_END_S: Final = 3.0
# The same if one of them is stopped, which does not end by itself.


def run_server(
    options: ServerOptions,
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    clients: Callable[[str, Mapping[str, str]], list[Command]] | None = None,
) -> int:
    """Serve one job to its end.

    ``clients``: makes the commands of own clients, from the server's address and the variables.

    SIGINT and SIGTERM end it, too, in the main thread. With own clients this process must have no
    other children: at the end everything below it is ended.

    Returns:
        0: every client has sent FINI; the code of the client that failed first, 1 if it told none;
            4: the job could not begin (each with one sentence on stderr); 130 or 143:
            signal.
    """
    try:
        environ = _with_secret(environ) if options.file or clients else environ
        preference = _preference(options)
        machine = ServerMachine(
            options.count,
            find_credentials(environ, preference),
            os.urandom,
            resilient=options.resilient,
            names_key=names_key(environ),
        )
        lines = read_appfile(options.file, options.count) if options.file else ()
        listener = listen(options)
    except UsageError as error:
        say(stderr, f"Error: {error}")
        return ExitCode.USAGE
    with ExitStack() as stack:
        stack.enter_context(listener)
        interrupts = stack.enter_context(Interrupts())
        loop = stack.enter_context(_Loop(machine, listener, interrupts, stderr, options))
        address, port = listener.getsockname()[:2]
        shown = reachable(address) if address in ANY else address
        print_endpoint("server", show_endpoint(shown, port), stdout, stderr)
        try:
            where = show_endpoint(shown, port)
            commands = clients(where, environ) if clients else make_commands(lines, where, environ)
            if any(command.here for command in commands):
                # Forks of this process are its clients: load their modules once.
                import impi.launch.client  # noqa: F401
            loop.start(commands)
            return loop.run()
        except LaunchError as error:
            say(stderr, f"Error: {error}")
            return 1


def _with_secret(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables for clients of ``-file``: with a secret of their own if none is set.

    A secret in a file of this machine goes to them as it is.

    Raises:
        UsageError: that file cannot be read.
    """
    if any(option.variable in environ for option in (AUTH_SECRET, AUTH_KEY, AUTH_NONE)):
        return {**environ, AUTH_SECRET.variable: AUTH_SECRET.of(environ)}
    return {**environ, AUTH_SECRET.variable: os.urandom(16).hex()}


def _preference(options: ServerOptions) -> tuple[Method, ...] | None:
    if options.tls and options.auth is not None:
        raise UsageError("--tls sets -auth 30 itself: leave out one of the two")
    if options.tls:
        return (Method.TLS,)
    return None if options.auth is None else parse_preference(options.auth)


class _Loop:
    """Moves octets between sockets and machine until the job is over."""

    def __init__(
        self,
        machine: ServerMachine,
        listener: socket.socket,
        interrupts: Interrupts,
        stderr: TextIO,
        options: ServerOptions,
    ) -> None:
        self._machine = machine
        self._listener = listener
        self._interrupts = interrupts
        self._stderr = stderr
        self._verbose = options.verbose
        self._session = " in a TLS session" if options.tls else ""
        self._silence_s = options.heartbeat_timeout_s
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, socket.socket] = {}
        self._addresses: dict[int, str] = {}
        self._heard: dict[int, float] = {}
        """When the last octets came on each connection."""
        self._lock = threading.Lock()
        """Held while the main thread has machine and sockets in hand: the pulse writes, too."""
        self._pulse = Pulse(self._beat)
        self._unsent: dict[int, memoryview] = {}
        self._next = 0
        self._strangers: Strangers[int] = Strangers()
        self._refusals = Refusals(self._report)
        self._guesses = Guesses()
        self._pausing: dict[int, float] = {}
        """Connections of which nothing is read yet, and when their pause is over."""
        self._names = Names()
        self._waiting_since = time.monotonic()
        self._children: Children | None = None
        self._input: Source | None = None
        self._exit_code: int | None = None
        self._clients_end_s = _CLIENTS_END_S
        self._started = False
        self._survived = False
        """Whether a client was lost and the job went on."""
        self._failed: int | None = None
        """The client whose loss has ended the job."""

    def __enter__(self) -> _Loop:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._pulse.stop()
        self._close_all()
        self._strangers.close()
        self._refusals.summary()
        self._names.wait()
        if self._children is not None:
            self._children.end(self._turn_children)
            self._children.close()
        self._selector.close()

    def start(self, commands: list[Command]) -> None:
        """Start the server's own clients.

        Raises:
            LaunchError: one could not be started.
        """
        self._selector.register(self._interrupts, selectors.EVENT_READ, self._interrupted)
        if commands:
            self._input = Source(self._selector)
            self._children = Children(commands, self._selector, self._input, self._silence_s)
            self._children.start()

    def run(self) -> int:
        """Run until there is an exit code and the server's own clients have ended."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._pulse.start()
        while self._exit_code is None:
            for key, events in self._selector.select(self._patience()):
                self._serve(key, events)
            with self._lock:
                for conn in self._strangers.overdue():
                    self._drop(conn, "has not said in time which client it is")
                self._end_pauses()
                self._check_silence()
                self._write_all()
            if self._exit_code is None:
                self._check_children()
                self._tell_who_is_missing()
        self._refusals.summary()
        return self._see_off(self._exit_code)

    def _patience(self) -> float:
        fed = self._input.turn() if self._input is not None else float("inf")
        now = time.monotonic()
        pause = min(self._pausing.values(), default=float("inf")) - now
        # On time: a client that sees its channels cut, and not why, gives the server a second.
        heard = (at for conn, at in self._heard.items() if self._machine.beats(conn))
        silent = min(heard, default=float("inf")) + self._silence_s - now if self._silence_s else float("inf")
        return max(0.0, min(fed, self._strangers.patience, BEAT_S, pause, max(silent, _SOON_S)))

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        if isinstance(key.data, int):
            with self._lock:
                if key.data in self._sockets and events & selectors.EVENT_READ:
                    self._read(key.data)
        elif key.data in (self._accept, self._interrupted):
            with self._lock:
                key.data()
        else:
            key.data()  # of a starter, whose output may wait for its reader: not under the lock

    def _beat(self) -> None:
        """Tell clients and starters that this server runs; from the thread of the pulse."""
        with self._lock:
            if self._exit_code is None:
                self._machine.beat()
                for conn, sock in self._sockets.items():
                    self._write(conn, sock)
        if self._children is not None:
            self._children.beat()

    def _check_silence(self) -> None:
        """End the job if a client or a starter is silent for too long."""
        if self._children is not None:
            self._children.check_silence()
        for conn, sock in list(self._sockets.items()):
            if self._machine.beats(conn) and is_silent(sock.fileno(), self._heard[conn], self._silence_s):
                self._clients_end_s = _OTHERS_END_S
                for event in self._machine.lose(conn, f"its impirun {silence(self._silence_s)}"):
                    self._handle(event)

    def _tell_who_is_missing(self) -> None:
        """Say now and then which clients have not joined."""
        missing = self._machine.missing()
        if missing and time.monotonic() - self._waiting_since >= _TURN_S:
            self._waiting_since = time.monotonic()
            self._report(f"waiting for client{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}")

    def _interrupted(self) -> None:
        if self._interrupts.signum is not None and self._exit_code is None:
            name = signal.Signals(self._interrupts.signum).name
            phase = "while the job was running" if self._started else "before start-up was complete"
            self._machine.fail(f"the server was ended by {name}, {phase}", 128 + self._interrupts.signum)
            say(self._stderr, f"Error: the server was ended by {name}, {phase}")
            self._exit_code = 128 + self._interrupts.signum

    # ---- the server's own clients

    def _check_children(self) -> None:
        """End the job if an own client failed before it had a connection."""
        children = self._children
        if self._machine.survives:
            return  # the machine sees the end of the connection
        why = "" if children is None else children.error or children.lost or children.failure
        if not why and children is not None and (stopped := children.stopped) is not None:
            why = stopped.told(self._silence_s)
        if why:
            self._machine.fail(str(why))
            say(self._stderr, f"Error: {why}")
            self._exit_code = ExitCode.FAILED

    def _see_off(self, code: int) -> int:
        """Wait for the last output of own clients; return the exit code with theirs."""
        if code:
            self._say_farewell()
        self._close_all()
        children = self._children
        if children is None:
            return code
        self._selector.unregister(self._interrupts)
        self._selector.unregister(self._listener)
        # Close first: a late client would else wait in the queue.
        self._listener.close()
        # After a failed start or a signal, clients learn it from the lost connection.
        give_up = time.monotonic() + self._clients_end_s
        while children.running and time.monotonic() < give_up and self._interrupts.signum is None:
            self._turn_children(0.1)
        late = "a client that it started has not ended after the job" if children.running else ""
        why = "" if self._survived else children.error or children.lost or children.failure or late
        if code == 0 and why:
            say(self._stderr, f"Error: {why}")
            code = ExitCode.FAILED
        return self._code_of_the_client() if code == ExitCode.FAILED else code

    def _code_of_the_client(self) -> int:
        """Return the exit code of the own client that failed first; of others none is known."""
        children = self._children
        if children is None:
            return ExitCode.FAILED
        first = children.failure.status if children.failure is not None else 0
        status = first if self._failed is None else children.statuses.get(self._failed, 0)
        return exit_code(status or ExitCode.FAILED)

    def _say_farewell(self) -> None:
        """Write to all clients why the job fails, and read on until they have closed.

        Octets that nobody has read would make the end a reset, which discards those on the way.
        """
        self._write_all()
        until = time.monotonic() + _FAREWELL_S
        for conn, sock in self._sockets.items():
            if self._machine.is_stranger(conn):
                continue
            with suppress(OSError):  # it is gone, or does not close in time
                sock.shutdown(socket.SHUT_WR)
                while (left := until - time.monotonic()) > 0:
                    sock.settimeout(left)
                    if not sock.recv(_CHUNK):
                        break

    def _turn_children(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if callable(key.data):
                key.data()

    def _close_all(self) -> None:
        for conn in list(self._sockets):
            self._close(conn)

    def _accept(self) -> None:
        accepted = self._strangers.accept(self._listener)
        if accepted is not None:
            sock, peer, port = accepted
            set_options(sock, self._silence_s)
            conn = self._next
            self._next += 1
            self._sockets[conn] = sock
            self._addresses[conn] = peer
            self._heard[conn] = time.monotonic()
            self._strangers.add(conn, peer)
            self._pausing[conn] = time.monotonic() + self._guesses.pause_s(peer)
            self._machine.connected(conn, show_endpoint(peer, port))
        while (surplus := self._strangers.surplus()) is not None:
            self._drop(surplus, "was closed to make room for others")

    def _end_pauses(self) -> None:
        """Begin to read from connections whose pause is over; most have none."""
        now = time.monotonic()
        for conn in [conn for conn, until in self._pausing.items() if until <= now]:
            del self._pausing[conn]
            self._selector.register(self._sockets[conn], selectors.EVENT_READ, conn)

    def _drop(self, conn: int, why: str) -> None:
        """Close the connection of a stranger."""
        self._machine.eof(conn)
        self._refusals.tell(self._addresses[conn], why, f"a connection of {self._addresses[conn]} {why}")
        self._close(conn)

    def _read(self, conn: int) -> None:
        try:
            data = self._sockets[conn].recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a reset is an end
        self._strangers.spoke(conn)
        self._heard[conn] = time.monotonic()
        quick_ack(self._sockets[conn])  # some clients write label and value apart
        events = self._machine.receive_data(conn, data) if data else self._machine.eof(conn)
        for event in events:
            self._handle(event)
        if not data and conn in self._sockets:
            self._close(conn)

    def _handle(self, event: ServerEvent) -> None:
        match event:
            case AuthenticatedByNone(conn):
                address = self._addresses[conn]
                self._names.find(address, lambda name: say(self._stderr, none_warning(name, address)))
            case ClientJoined(conn, client, peer):
                self._strangers.discard(conn)
                self._waiting_since = time.monotonic()
                if self._verbose:
                    self._report(f"client {client} has joined from {peer}{self._session}")
            case ConnectionRefused() | NameTold():
                self._part(event)
            case JobStarted():
                self._started = True
                if self._verbose:
                    self._report("start-up is complete")
            case ClientFinished(conn, client):
                if self._verbose:
                    self._report(f"client {client} has finished")
                self._close(conn)
            case ClientLost():
                self._go_on_without(event)
            case JobOver():
                self._exit_code = 0
            case JobFailed(client, reason, code):
                say(self._stderr, f"Error: {reason}")
                self._failed = client
                self._exit_code = code

    def _part(self, event: ConnectionRefused | NameTold) -> None:
        """Write the last octets to one that is no client, and close its connection."""
        if isinstance(event, ConnectionRefused):
            if event.guessed:
                self._guesses.add(self._addresses[event.conn])
            self._refusals.tell(self._addresses[event.conn], event.kind, f"closed the connection of {event.reason}")
        with suppress(OSError):
            self._sockets[event.conn].send(event.last)
        self._close(event.conn)

    def _go_on_without(self, lost: ClientLost) -> None:
        self._report(f"{lost.reason}; the job goes on without")
        self._survived = True
        if lost.conn is not None:
            self._close(lost.conn)

    def _write_all(self) -> None:
        for conn, sock in self._sockets.items():
            if conn in self._pausing:
                continue
            self._write(conn, sock)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if conn in self._unsent else 0)
            if self._selector.get_key(sock).events != wanted:
                self._selector.modify(sock, wanted, conn)

    def _write(self, conn: int, sock: socket.socket) -> None:
        """Write until nothing is left or the socket is full; the machine bounds the rest."""
        while unsent := self._unsent.pop(conn, None) or memoryview(self._machine.data_to_send(conn)):
            try:
                rest = unsent[sock.send(unsent) :]
            except (BlockingIOError, InterruptedError):
                rest = unsent
            except OSError:
                return  # a reset: the read side reports it
            if rest:
                self._unsent[conn] = rest
                return

    def _close(self, conn: int) -> None:
        sock = self._sockets.pop(conn)
        del self._addresses[conn]
        del self._heard[conn]
        self._strangers.discard(conn)
        self._unsent.pop(conn, None)
        if self._pausing.pop(conn, None) is None:
            self._selector.unregister(sock)
        sock.close()

    def _report(self, text: str) -> None:
        say(self._stderr, f"impirun: {text}")
