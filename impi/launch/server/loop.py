"""``impirun -server``: the sockets around :class:`~impi.protocol.startup.ServerMachine`.

stdout gets one line, ``a.b.c.d:port``, before any client comes (IMPI 2.2.1). Everything else goes
to stderr, because a script may close stdout after that line.

How it works: :func:`run_server` makes the machine, which knows the protocol and no socket, then
listens and prints the address. :class:`_Loop` turns until there is an exit code. A turn hands what
came on each connection to the machine, acts on the events that this gives (close a connection, end
the job), and writes what the machine has for each connection (:class:`_Connections`).
With ``-file`` the loop also reads the starters of clients (:class:`_OwnClients`). At the end
:meth:`_Loop._see_off` closes all connections first: that tells clients that the job is over.
"""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final, TextIO

from impi.base.errors import LaunchError, UsageError
from impi.base.exit_codes import ExitCode
from impi.launch.client.children import SLACK_S, Children, exit_code
from impi.launch.front import ANY, listen, print_endpoint, reachable, say
from impi.launch.interrupts import Interrupts
from impi.launch.net import Names, set_options
from impi.launch.pulse import BEAT_S, Pulse, is_silent, silence
from impi.launch.server.appfile import make_commands, read_appfile
from impi.launch.standard_input import Source
from impi.launch.start import warm
from impi.launch.start.program import Command
from impi.protocol.options import ServerOptions
from impi.protocol.settings import AUTH_KEY, AUTH_NONE, AUTH_SECRET
from impi.protocol.startup.auth import Method, find_credentials, names_key, none_warning, parse_preference
from impi.protocol.startup.names import NameTold
from impi.protocol.startup.server import (
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
from impi.rank.doors.strangers import Guesses, Refusals, Strangers
from impi.rank.vendors.dial import quick_ack, show_endpoint

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
            resilient=options.common.resilient,
            names_key=names_key(environ),
        )
        lines = read_appfile(options.file, options.count) if options.file else ()
        listener = listen(options)
    except UsageError as error:
        say(stderr, f"Error: {error}")
        return ExitCode.USAGE
    with ExitStack() as stack:
        stack.enter_context(listener)
        interrupts = stack.enter_context(Interrupts(passes=True))
        address, port = listener.getsockname()[:2]
        shown = reachable(address) if address in ANY else address
        print_endpoint("server", show_endpoint(shown, port), stdout, stderr)
        try:
            where = show_endpoint(shown, port)
            commands = clients(where, environ) if clients else make_commands(lines, where, environ)
            if any(command.here for command in commands):
                # Forks of this process are its clients: load their modules once.
                import impi.launch.client.session  # noqa: F401

                warm.load_for([command.spec["argv"] for command in commands if command.here])
            loop = _Loop(machine, listener, interrupts, stderr, options, commands)
            stack.callback(loop.close)
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
    if options.tls and options.common.auth is not None:
        raise UsageError("--tls sets -auth 30 itself: leave out one of the two")
    if options.tls:
        return (Method.TLS,)
    return None if options.common.auth is None else parse_preference(options.common.auth)


class _ServedConnection:
    def __init__(self, *, sock: socket.socket, address: str, heard: float, paused_until: float | None) -> None:
        self.sock, self.address = sock, address
        self.heard, self.paused_until = heard, paused_until
        self.unsent: memoryview | bytes = b""


class _Connections:
    """Connections of strangers and clients, by numbers: descriptors are used again.

    Args:
        machine: gets to know of each, and has the octets for them.
        selector: of the loop, with the number as data.
        silence_s: seconds after which a peer that acknowledges nothing is lost.
        report: prints one sentence.
    """

    def __init__(
        self,
        machine: ServerMachine,
        selector: selectors.BaseSelector,
        silence_s: float,
        report: Callable[[str], None],
    ) -> None:
        self.open: dict[int, _ServedConnection] = {}
        self.strangers: Strangers[int] = Strangers()
        self.refusals = Refusals(report)
        self._machine, self._selector, self._silence_s = machine, selector, silence_s
        self._numbers = itertools.count()
        self._guesses = Guesses()

    def accept(self, listener: socket.socket) -> None:
        accepted = self.strangers.accept(listener)
        if accepted is not None:
            sock, peer, port = accepted
            set_options(sock, self._silence_s)
            conn, now = next(self._numbers), time.monotonic()
            pause_s = self._guesses.pause_s(peer)
            self.open[conn] = _ServedConnection(sock=sock, address=peer, heard=now, paused_until=now + pause_s)
            self.strangers.add(conn, peer)
            self._machine.connected(conn, show_endpoint(peer, port), peer)
        while (surplus := self.strangers.surplus()) is not None:
            self._drop(surplus, "was closed to make room for others")

    def turn(self) -> None:
        """Close what has had its time, and begin to read from connections whose pause is over."""
        for conn in self.strangers.overdue():
            self._drop(conn, "has not said in time which client it is")
        now = time.monotonic()
        for conn, connection in self.open.items():
            if connection.paused_until is not None and connection.paused_until <= now:
                connection.paused_until = None
                self._selector.register(connection.sock, selectors.EVENT_READ, conn)

    def patience(self) -> float:
        """Return the seconds until :meth:`turn` or a silent client needs the loop again."""
        now, soonest = time.monotonic(), self.strangers.patience
        for conn, connection in self.open.items():
            if connection.paused_until is not None:
                soonest = min(soonest, connection.paused_until - now)
            # On time: a client that sees its channels cut, and not why, gives the server a second.
            if self._silence_s and self._machine.beats(conn):
                soonest = min(soonest, max(connection.heard + self._silence_s - now, _SOON_S))
        return soonest

    def read(self, conn: int) -> bytes | None:
        """Return the octets that have come; empty: its end; None: nothing for now."""
        connection = self.open[conn]
        try:
            data = connection.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data = b""  # a reset is an end
        self.strangers.spoke(conn)
        connection.heard = time.monotonic()
        quick_ack(connection.sock)  # some clients write label and value apart
        return data

    def write_all(self) -> None:
        for conn, connection in self.open.items():
            if connection.paused_until is not None:
                continue
            self.write(conn)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
            if self._selector.get_key(connection.sock).events != wanted:
                self._selector.modify(connection.sock, wanted, conn)

    def write(self, conn: int) -> None:
        """Write until nothing is left or the socket is full; the machine bounds the rest."""
        connection = self.open[conn]
        while unsent := connection.unsent or memoryview(self._machine.data_to_send(conn)):
            connection.unsent = b""
            try:
                connection.unsent = unsent[connection.sock.send(unsent) :]
            except (BlockingIOError, InterruptedError):
                connection.unsent = unsent
            except OSError:
                return  # a reset: the read side reports it
            if connection.unsent:
                return

    def part(self, event: ConnectionRefused | NameTold) -> None:
        """Write the last octets to one that is no client, and close its connection."""
        connection = self.open[event.conn]
        if isinstance(event, ConnectionRefused):
            if event.guessed:
                self._guesses.add(connection.address)
            self.refusals.tell(connection.address, event.kind, f"closed the connection of {event.reason}")
        with suppress(OSError):
            connection.sock.send(event.last)
        self.close(event.conn)

    def _drop(self, conn: int, why: str) -> None:
        self._machine.eof(conn)
        address = self.open[conn].address
        self.refusals.tell(address, why, f"a connection of {address} {why}")
        self.close(conn)

    def say_farewell(self) -> None:
        """Write to all clients why the job fails, and read on until they have closed.

        Octets that nobody has read would make the end a reset, which discards those on the way.
        """
        self.write_all()
        until = time.monotonic() + _FAREWELL_S
        for conn, connection in self.open.items():
            if self._machine.is_stranger(conn):
                continue
            with suppress(OSError):  # it is gone, or does not close in time
                connection.sock.shutdown(socket.SHUT_WR)
                while (left := until - time.monotonic()) > 0:
                    connection.sock.settimeout(left)
                    if not connection.sock.recv(_CHUNK):
                        break

    def close(self, conn: int) -> None:
        connection = self.open.pop(conn)
        self.strangers.discard(conn)
        if connection.paused_until is None:
            self._selector.unregister(connection.sock)
        connection.sock.close()

    def close_all(self) -> None:
        for conn in list(self.open):
            self.close(conn)


class _OwnClients:
    """The clients that the server has started itself, and their ends; there may be none."""

    def __init__(
        self, commands: Sequence[Command], selector: selectors.BaseSelector, silence_s: float, grace_s: float
    ) -> None:
        self.input = Source(selector)
        # A client that ends has procs that end, too.
        self.children = Children(commands, selector, self.input, silence_s, grace_s=grace_s + SLACK_S)
        self.end_s = _CLIENTS_END_S + grace_s
        self.failed: int | None = None
        self._commands, self._selector, self._silence_s = commands, selector, silence_s

    def start(self) -> None:
        """Start all.

        Raises:
            LaunchError: one could not be started.
        """
        if self._commands:
            self.children.start()

    @property
    def failure(self) -> str:
        return str(self.children.error or self.children.lost or self.children.failure or "")

    @property
    def trouble(self) -> str:
        """A failure while the job runs, where a client that has been stopped counts, too.

        What is stopped below a client is the client's to tell: it knows the rank.
        """
        stopped = self.children.stopped
        told = stopped.told(self._silence_s) if stopped is not None and stopped.title else ""
        return self.failure or told

    def await_end(self, interrupts: Interrupts) -> str:
        """Wait until all have ended, not too long; return the failure of one, or nothing."""
        # After a failed start or a signal, clients learn it from the lost connection.
        give_up = time.monotonic() + self.end_s
        while self.children.running and time.monotonic() < give_up and interrupts.signum is None:
            self._turn(0.1)
        late = "a client that it started has not ended after the job" if self.children.running else ""
        return self.failure or late

    def code(self) -> int:
        """Return the exit code of the one that failed first; of others none is known."""
        first = self.children.failure.status if self.children.failure is not None else 0
        status = first if self.failed is None else self.children.statuses.get(self.failed, 0)
        return exit_code(status or ExitCode.FAILED)

    def close(self) -> None:
        if self._commands:
            self.children.end(self._turn)
        self.children.close()

    def _turn(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if callable(key.data):
                key.data()


class _Loop:
    """Moves octets between sockets and machine until the job is over."""

    def __init__(
        self,
        machine: ServerMachine,
        listener: socket.socket,
        interrupts: Interrupts,
        stderr: TextIO,
        options: ServerOptions,
        commands: Sequence[Command],
    ) -> None:
        self._machine, self._listener = machine, listener
        self._interrupts, self._stderr, self._options = interrupts, stderr, options
        self._selector = selectors.DefaultSelector()
        silence_s = options.common.heartbeat_timeout_s
        self._connections = _Connections(machine, self._selector, silence_s, self._report)
        self._own = _OwnClients(commands, self._selector, silence_s, options.common.grace_s)
        # Held while the main thread has machine and sockets in hand: the pulse writes, too.
        self._lock = threading.Lock()
        self._pulse = Pulse(self._beat)
        self._names = Names()
        self._waiting_since = time.monotonic()
        self._exit_code: int | None = None
        self._started = False
        self._survived = False

    def close(self) -> None:
        self._pulse.stop()
        self._connections.close_all()
        self._connections.strangers.close()
        self._connections.refusals.summary()
        self._names.wait()
        self._own.close()
        self._selector.close()

    def run(self) -> int:
        """Run until there is an exit code and the server's own clients have ended.

        Raises:
            LaunchError: one of these could not be started.
        """
        self._selector.register(self._interrupts, selectors.EVENT_READ, self._interrupted)
        self._own.start()
        accept = partial(self._connections.accept, self._listener)
        self._selector.register(self._listener, selectors.EVENT_READ, accept)
        self._pulse.start()
        while self._exit_code is None:
            for key, events in self._selector.select(self._patience()):
                self._serve(key, events)
            with self._lock:
                self._connections.turn()
                self._check_silence()
                self._connections.write_all()
            if self._exit_code is None:
                self._pass_signals()
                self._check_own()
                self._tell_who_is_missing()
        self._connections.refusals.summary()
        return self._see_off(self._exit_code)

    def _patience(self) -> float:
        return max(0.0, min(self._own.input.turn(), self._connections.patience(), BEAT_S))

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        if isinstance(key.data, int):
            with self._lock:
                if key.data in self._connections.open and events & selectors.EVENT_READ:
                    self._read(key.data)
        elif key.fileobj in (self._listener, self._interrupts):
            with self._lock:
                key.data()
        else:
            key.data()  # of a starter, whose output may wait for its reader: not under the lock

    def _beat(self) -> None:
        """Tell clients and starters that this server runs; from the thread of the pulse."""
        with self._lock:
            if self._exit_code is None:
                self._machine.beat()
                for conn in self._connections.open:
                    self._connections.write(conn)
        self._own.children.beat()

    def _check_silence(self) -> None:
        self._own.children.check_silence()
        limit_s = self._options.common.heartbeat_timeout_s
        for conn, connection in list(self._connections.open.items()):
            if self._machine.beats(conn) and is_silent(connection.sock.fileno(), connection.heard, limit_s):
                self._own.end_s = _OTHERS_END_S
                for event in self._machine.lose(conn, f"its impirun {silence(limit_s)}"):
                    self._handle(event)

    def _tell_who_is_missing(self) -> None:
        missing = self._machine.missing()
        if missing and time.monotonic() - self._waiting_since >= _TURN_S:
            self._waiting_since = time.monotonic()
            self._report(f"waiting for client{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}")

    def _interrupted(self) -> None:
        self._interrupts.drain()
        if self._interrupts.signum is not None and self._exit_code is None:
            name = signal.Signals(self._interrupts.signum).name
            phase = "while the job was running" if self._started else "before start-up was complete"
            self._fail(f"the server was ended by {name}, {phase}", 128 + self._interrupts.signum)

    def _pass_signals(self) -> None:
        """Pass signals on once the clients have joined: before, one may die of them."""
        if self._started:
            for number in self._interrupts.passed():
                self._own.children.pass_on(number)
                self._interrupts.passed_on(number)

    def _check_own(self) -> None:
        # A machine that survives sees the end of the connection.
        if not self._machine.survives and (why := self._own.trouble):
            self._fail(why, ExitCode.FAILED)

    def _fail(self, why: str, code: int) -> None:
        self._machine.fail(why, code)
        say(self._stderr, f"Error: {why}")
        self._exit_code = code

    def _see_off(self, code: int) -> int:
        """Wait for the last output of own clients; return the exit code with theirs."""
        if code:
            self._connections.say_farewell()
        self._connections.close_all()
        self._selector.unregister(self._interrupts)
        self._selector.unregister(self._listener)
        # Close first: a late client would else wait in the queue.
        self._listener.close()
        why = self._own.await_end(self._interrupts)
        if code == 0 and why and not self._survived:
            say(self._stderr, f"Error: {why}")
            code = ExitCode.FAILED
        return self._own.code() if code == ExitCode.FAILED else code

    def _read(self, conn: int) -> None:
        data = self._connections.read(conn)
        if data is None:
            return
        for event in self._machine.receive_data(conn, data) if data else self._machine.eof(conn):
            self._handle(event)
        if not data and conn in self._connections.open:
            self._connections.close(conn)

    def _handle(self, event: ServerEvent) -> None:
        match event:
            case AuthenticatedByNone(conn):
                address = self._connections.open[conn].address
                self._names.find(address, lambda name: say(self._stderr, none_warning(name, address)))
            case ClientJoined(conn, client, peer):
                self._connections.strangers.discard(conn)
                self._waiting_since = time.monotonic()
                session = " in a TLS session" if self._options.tls else ""
                self._report_more(f"client {client} has joined from {peer}{session}")
            case ConnectionRefused() | NameTold():
                self._connections.part(event)
            case JobStarted():
                self._started = True
                self._report_more("start-up is complete")
            case ClientFinished(conn, client):
                self._report_more(f"client {client} has finished")
                self._connections.close(conn)
            case ClientLost(_, reason, lost):
                self._report(f"{reason}; the job goes on without")
                self._survived = True
                if lost is not None:
                    self._connections.close(lost)
            case JobOver():
                self._exit_code = 0
            case JobFailed(client, reason, code):
                say(self._stderr, f"Error: {reason}")
                self._own.failed = client
                self._exit_code = code

    def _report(self, text: str) -> None:
        say(self._stderr, f"impirun: {text}")

    def _report_more(self, text: str) -> None:
        if self._options.verbose:
            self._report(text)
