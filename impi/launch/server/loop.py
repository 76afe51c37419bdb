"""``impirun -server``: the sockets around :class:`~impi.protocol.startup.ServerMachine`.

stdout gets one line, ``a.b.c.d:port``, before any client comes (IMPI 2.2.1). Everything else goes
to stderr, because a script may close stdout after that line.

How it works: :func:`run_server` makes the machine, which knows the protocol and no socket, then
listens and prints the address. :class:`_Loop` turns until there is an exit code. A turn hands the
octets of each connection to the machine (:class:`_Connections`), which gives events. It acts on
these (close a connection, end the job), and writes what the machine has for each connection.
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
from typing import Final, TextIO

from impi.base.errors import LaunchError, UsageError
from impi.base.exit_codes import ExitCode
from impi.launch.client.children import SLACK_S, Children, exit_code
from impi.launch.front import ANY, listen, print_endpoint, reachable, say
from impi.launch.interrupts import Interrupts
from impi.launch.net import Names, set_options
from impi.launch.pulse import BEAT_S, Pulse, is_silent, silence, silent_in_s
from impi.launch.server.appfile import make_commands, read_appfile
from impi.launch.standard_input import Source
from impi.launch.start import warm
from impi.launch.start.program import Command
from impi.protocol.options import ServerOptions
from impi.protocol.settings import AUTH_KEY, AUTH_NONE, AUTH_SECRET
from impi.protocol.startup.auth import (
    Method,
    find_credentials,
    names_key,
    none_warning,
    parse_preference,
)
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
from impi.rank.doors.entrance import Entrance
from impi.rank.vendors.dial import quick_ack, show_endpoint

_CHUNK: Final = 1 << 16

# Time between two lines about missing clients.
_TURN_S: Final = 10.0

# Time for all clients to read why the job fails.
_FAREWELL_S: Final = 1.0

# Time for the server's own clients to end by themselves after the job.
_CLIENTS_END_S: Final = 20.0

# The same if one of them is stopped, and so never ends by itself.
_OTHERS_END_S: Final = 3.0


def run_server(
    options: ServerOptions,
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    clients: Callable[[str, Mapping[str, str]], list[Command]] | None = None,
) -> int:
    """Serve one job to its end.

    SIGINT and SIGTERM end it, too, if you call this in the main thread. With ``clients`` or
    ``-file`` this process must have no other children: at the end everything below it is ended.

    Args:
        clients: makes the commands of the server's own clients, from its address and the variables.

    Returns:
        0: every client has sent FINI. 4: the job could not begin. 130 or 143: a signal has come.
            Else it is the code of the client that failed first, or 1 if it gave none. A sentence is
            on stderr.
    """
    try:
        # These mistakes are found before the address is printed: a script that has read that
        # line takes the server for started.
        environ = _with_secret(environ) if options.file or clients else environ
        preference = _auth_preference(options)
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
        # The kernel queues connections since listen(), so a client may
        # come as soon as the line is out.
        address, port = listener.getsockname()[:2]
        shown = reachable(address) if address in ANY else address

        print_endpoint("server", show_endpoint(shown, port), stdout, stderr)
        try:
            where = show_endpoint(shown, port)

            commands = (
                clients(where, environ)
                if clients
                else make_commands(lines, where, environ)
            )
            if any(command.here for command in commands):
                # Clients on this machine are forks of this process, and need not load these again.
                import impi.launch.client.session  # noqa: F401

                warm.load_for(
                    [command.spec["argv"] for command in commands if command.here]
                )

            loop = _Loop(machine, listener, interrupts, stderr, options, commands)
            # Both close() and the stack close the listener, which is harmless. After an error above
            # only the stack does.
            stack.callback(loop.close)

            return loop.run()
        except LaunchError as error:
            say(stderr, f"Error: {error}")
            return 1


def _with_secret(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables for the server's own clients, with a new secret if none is set.

    If the secret is in a file, they get its content: other machines may not have the file.

    Raises:
        UsageError: that file cannot be read.
    """
    # A choice of the user stays as it is: a secret, a key in clear, or no method at all.
    if any(option.variable in environ for option in (AUTH_SECRET, AUTH_KEY, AUTH_NONE)):
        return {**environ, AUTH_SECRET.variable: AUTH_SECRET.of(environ)}

    return {**environ, AUTH_SECRET.variable: os.urandom(16).hex()}


def _auth_preference(options: ServerOptions) -> tuple[Method, ...] | None:
    if options.tls and options.common.auth is not None:
        raise UsageError("--tls sets -auth 30 itself: leave out one of the two")

    if options.tls:
        return (Method.TLS,)

    return (
        None if options.common.auth is None else parse_preference(options.common.auth)
    )


class _ServedConnection:
    def __init__(
        self, number: int, sock: socket.socket, address: str, port: int
    ) -> None:
        self.number, self.sock, self.address, self.port = number, sock, address, port
        self.heard = time.monotonic()
        self.unsent: memoryview | bytes = b""


class _Locked:
    """A selector for callbacks that run while a lock is held."""

    def __init__(self, selector: selectors.BaseSelector, lock: threading.Lock) -> None:
        self._selector, self._lock = selector, lock

    def register(
        self,
        fileobj: socket.socket | Interrupts,
        events: int,
        data: Callable[[], object],
    ) -> None:
        def call() -> None:
            with self._lock:
                data()

        self._selector.register(fileobj, events, call)

    def unregister(self, fileobj: socket.socket | Interrupts) -> None:
        self._selector.unregister(fileobj)

    def await_room(self, sock: socket.socket, waits: bool) -> None:
        """Wake the loop when a socket has room for octets, if ``waits``; else do not."""
        key = self._selector.get_key(sock)

        # A socket with room is always ready for writing. Watched without
        # need, it would make the loop spin.
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
        if key.events != wanted:
            self._selector.modify(sock, wanted, key.data)


class _Connections:
    """Connections of strangers and clients. Each has a new number, since descriptors come again.

    Args:
        machine: is told of each connection, and has the octets to send on it.
        listener: the socket that accepts them; it belongs to this object from now on.
        selector: the loop's.
        silence_s: seconds after which a peer that acknowledges nothing is lost.
        report: prints one sentence.
        handle: takes each event of the machine.
        members: the number of clients that are awaited.
    """

    def __init__(
        self,
        machine: ServerMachine,
        listener: socket.socket,
        selector: _Locked,
        silence_s: float,
        report: Callable[[str], None],
        handle: Callable[[ServerEvent], None],
        members: int,
    ) -> None:
        self.open: dict[int, _ServedConnection] = {}
        self._machine, self._selector, self._silence_s, self._handle = (
            machine,
            selector,
            silence_s,
            handle,
        )
        self._numbers = itertools.count()
        self.entrance: Entrance[_ServedConnection] = Entrance(
            listener,
            selector,
            members,
            make=self._add_connection,
            read=self._read_octets,
            show=show_endpoint,
            warn=report,
            end=self._forget_connection,
            told="closed a connection of {peer}, which {why}",
        )

    def _add_connection(
        self, sock: socket.socket, address: str, port: int
    ) -> _ServedConnection:
        set_options(sock, self._silence_s)
        connection = _ServedConnection(next(self._numbers), sock, address, port)
        self.open[connection.number] = connection
        # The entrance registers the socket after this call: the machine must know a connection
        # before its octets come.
        self._machine.connected(
            connection.number, show_endpoint(address, port), address
        )

        return connection

    def _forget_connection(self, connection: _ServedConnection) -> None:
        # The entrance closes strangers by itself, for their age or for room. The end of a client
        # comes from the machine, which has forgotten it by then.
        if self._machine.is_stranger(connection.number):
            self._machine.eof(connection.number)

        del self.open[connection.number]
        connection.sock.close()

    def turn(self) -> None:
        """Close strangers whose time is over, and read from connections whose pause is over."""
        self.entrance.turn()

    def patience(self) -> float:
        """Return the seconds until :meth:`turn` or a silent client needs the loop again."""
        soonest = self.entrance.patience
        for conn, connection in self.open.items():
            # The loop must wake on time: a client that sees its channels cut waits only a second
            # for the server to say why.
            if self._machine.beats(conn):
                soonest = min(soonest, silent_in_s(connection.heard, self._silence_s))

        return soonest

    def _read_octets(self, connection: _ServedConnection) -> None:
        data = self.entrance.receive(connection, _CHUNK)
        if data is None:
            return

        self.entrance.spoke(connection)
        connection.heard = time.monotonic()
        # Some clients write label and value apart, and wait for this between them.
        quick_ack(connection.sock)

        conn = connection.number
        for event in (
            self._machine.receive_data(conn, data) if data else self._machine.eof(conn)
        ):
            self._handle(event)

        # Dropped last: the event for the end of a stranger looks the connection up by its number.
        if not data:
            self.entrance.drop(connection)

    def write_all(self) -> None:
        # A connection from an address that has guessed is paused, and in no selector
        # yet: await_room() would raise.
        for conn, connection in self.open.items():
            if self.entrance.reads(connection):
                self.write(conn)
                self._selector.await_room(connection.sock, len(connection.unsent) > 0)

    def write(self, conn: int) -> None:
        """Write until nothing is left or the socket is full; the machine bounds what remains."""
        connection = self.open[conn]
        # Octets that a full socket has not taken go first: the machine gives out each octet once.
        while unsent := connection.unsent or memoryview(
            self._machine.data_to_send(conn)
        ):
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
        """Write the last octets to a peer that is not a client, and close its connection."""

        # One attempt and no wait: a peer that reads nothing must not hold up the job.
        connection = self.open[event.conn]
        with suppress(OSError):
            connection.sock.send(event.last)

        if isinstance(event, ConnectionRefused):
            sentence = f"closed the connection of {event.reason}"
            self.entrance.refuse(
                connection, event.kind, sentence=sentence, guess=event.guessed
            )

        self.close(event.conn)

    def say_farewell(self) -> None:
        """Write to all clients why the job fails, and read on until they have closed.

        Closing a socket with unread octets sends a reset, and a reset discards what is under way.
        """
        # The waits below do no harm: the job is over, and together they last a second.
        self.write_all()

        until = time.monotonic() + _FAREWELL_S
        for conn, connection in self.open.items():
            # A stranger that never closes would use up the time of the clients.
            if self._machine.is_stranger(conn):
                continue

            with suppress(OSError):  # the client is gone, or does not close in time
                connection.sock.shutdown(socket.SHUT_WR)
                while (left := until - time.monotonic()) > 0:
                    connection.sock.settimeout(left)
                    if not connection.sock.recv(_CHUNK):
                        break

    def close(self, conn: int) -> None:
        """Close a connection. Idempotent."""
        if (connection := self.open.get(conn)) is not None:
            self.entrance.drop(connection)

    def close_all(self) -> None:
        """Close all connections, and the listener. Idempotent."""
        for conn in list(self.open):
            self.close(conn)

        self.entrance.shut()


class _OwnClients:
    """The clients that the server itself has started, if any, and their ends."""

    def __init__(
        self,
        commands: Sequence[Command],
        selector: selectors.BaseSelector,
        silence_s: float,
        grace_s: float,
    ) -> None:
        self.input = Source(selector)
        # A client has more time than it gives its procs: else it is killed before they have ended.
        self.children = Children(
            commands, selector, self.input, silence_s, grace_s=grace_s + SLACK_S
        )
        self.end_s = _CLIENTS_END_S + grace_s
        self.silent_in_s = float("inf")
        """Seconds after the last look until one of them may have been silent for too long."""
        self.failed: int | None = None
        self._commands, self._selector, self._silence_s = commands, selector, silence_s

    def start(self) -> None:
        """Start them all.

        Raises:
            LaunchError: a client could not be started.
        """
        if self._commands:
            self.children.start()

    @property
    def failure(self) -> str:
        return str(
            self.children.error or self.children.lost or self.children.failure or ""
        )

    @property
    def trouble(self) -> str:
        """The sentence about a failure while the job runs, or about a client that is stopped.

        A stopped process below a client is not reported here: the client knows its rank.
        """
        stopped = self.children.stopped
        told = (
            stopped.told(self._silence_s)
            if stopped is not None and stopped.title
            else ""
        )

        return self.failure or told

    def await_end(self, interrupts: Interrupts) -> str:
        """Wait until all have ended, within a limit; return the failure of one in words, or ""."""

        # If a start has failed or a signal has come, the closed connections tell clients to end.
        give_up = time.monotonic() + self.end_s
        while (
            self.children.running
            and time.monotonic() < give_up
            and interrupts.signum is None
        ):
            self._turn(0.1)

        late = (
            "a client that it started has not ended after the job"
            if self.children.running
            else ""
        )

        return self.failure or late

    def code(self) -> int:
        """Return the exit code of the client that failed first, if the server has started it.

        Else it is 1.
        """
        first = self.children.failure.status if self.children.failure is not None else 0
        status = (
            first if self.failed is None else self.children.statuses.get(self.failed, 0)
        )

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
        self._machine = machine
        self._interrupts, self._stderr, self._options = interrupts, stderr, options
        self._selector = selectors.DefaultSelector()
        silence_s = options.common.heartbeat_timeout_s
        # Held while the main thread uses machine and sockets, since the pulse writes, too. It is
        # free while that thread serves a starter, whose output may wait for a reader.
        self._lock = threading.Lock()
        self._locked = _Locked(self._selector, self._lock)
        self._connections = _Connections(
            machine,
            listener,
            self._locked,
            silence_s,
            self._report,
            self._handle_event,
            options.count,
        )
        self._own = _OwnClients(
            commands, self._selector, silence_s, options.common.grace_s
        )
        self._pulse = Pulse(self._send_heartbeats)
        self._names = Names()
        self._waiting_since = time.monotonic()
        self._exit_code: int | None = None
        self._started = False
        self._survived = False

    def close(self) -> None:
        self._pulse.stop()
        self._connections.entrance.close()
        self._names.wait()
        self._own.close()
        self._selector.close()

    def run(self) -> int:
        """Run until there is an exit code and the server's own clients have ended.

        Raises:
            LaunchError: one of its own clients could not be started.
        """

        self._locked.register(self._interrupts, selectors.EVENT_READ, self._on_signal)
        # Before the pulse: a process with threads must not fork, and each starter would be a new
        # Python.
        self._own.start()

        self._pulse.start()
        # A turn reads, judges and then writes. So silence is judged after everything here was read,
        # and answers leave in the turn of their questions.
        while self._exit_code is None:
            for key, _ in self._selector.select(self._seconds_to_wait()):
                key.data()

            with self._lock:
                self._connections.turn()
                self._check_silence()
                self._connections.write_all()

            # Once the job is over its clients end, which must not count as another failure.
            if self._exit_code is None:
                self._pass_signals()
                self._check_own()
                self._tell_who_is_missing()

        self._connections.entrance.summary()

        return self._see_off(self._exit_code)

    def _seconds_to_wait(self) -> float:
        return max(
            0.0,
            min(
                self._own.input.turn(),
                self._connections.patience(),
                self._own.silent_in_s,
                BEAT_S,
            ),
        )

    def _send_heartbeats(self) -> None:
        """Send heartbeats to clients and starters; in the thread of the pulse."""
        with self._lock:
            # After the end the main thread writes the farewell, and holds no lock for it.
            if self._exit_code is None:
                self._machine.beat()
                for conn in self._connections.open:
                    self._connections.write(conn)

        self._own.children.beat()

    def _check_silence(self) -> None:
        self._own.silent_in_s = self._own.children.check_silence()

        limit_s = self._options.common.heartbeat_timeout_s
        for conn, connection in list(self._connections.open.items()):
            if self._machine.beats(conn) and is_silent(
                connection.sock.fileno(), connection.heard, limit_s
            ):
                self._own.end_s = _OTHERS_END_S
                for event in self._machine.lose(
                    conn, f"its impirun {silence(limit_s)}"
                ):
                    self._handle_event(event)

    def _tell_who_is_missing(self) -> None:
        missing = self._machine.missing()
        if missing and time.monotonic() - self._waiting_since >= _TURN_S:
            self._waiting_since = time.monotonic()
            self._report(
                f"waiting for client{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            )

    def _on_signal(self) -> None:
        self._interrupts.drain()
        if self._interrupts.signum is not None and self._exit_code is None:
            name = signal.Signals(self._interrupts.signum).name
            phase = (
                "while the job was running"
                if self._started
                else "before start-up was complete"
            )
            self._fail_job(
                f"the server was ended by {name}, {phase}",
                128 + self._interrupts.signum,
            )

    def _pass_signals(self) -> None:
        """Pass signals on once start-up is complete: before that they may kill a client."""
        if self._started:
            for number in self._interrupts.passed():
                self._own.children.pass_on(number)
                self._interrupts.passed_on(number)

    def _check_own(self) -> None:
        # In a resilient job the end of a client's connection is its loss, and the job goes on.
        if not self._machine.survives and (why := self._own.trouble):
            self._fail_job(why, ExitCode.FAILED)

    def _fail_job(self, why: str, code: int) -> None:
        self._machine.fail(why, code)
        say(self._stderr, f"Error: {why}")
        self._exit_code = code

    def _see_off(self, code: int) -> int:
        """Wait for the last output of the server's own clients, and return the job's exit code."""

        if code:
            self._connections.say_farewell()

        # The listener is closed, too, because a late client would wait in its queue.
        self._connections.close_all()
        # After a signal this descriptor stays readable, and would make await_end() spin. That looks
        # at the signal's number.
        self._selector.unregister(self._interrupts)

        # Only their ends tell whether these clients have succeeded.
        # Meanwhile their last output is printed.
        why = self._own.await_end(self._interrupts)
        if code == 0 and why and not self._survived:
            say(self._stderr, f"Error: {why}")
            code = ExitCode.FAILED

        # 1 is also the code of a client that was lost without a word. If the server has started
        # that client, its exit status tells more.
        return self._own.code() if code == ExitCode.FAILED else code

    def _handle_event(self, event: ServerEvent) -> None:
        match event:
            case AuthenticatedByNone(conn):
                # The warning of 2.3.3 has the host's name. A resolver may
                # take seconds, so a thread asks it.
                address = self._connections.open[conn].address
                self._names.find(
                    address, lambda name: say(self._stderr, none_warning(name, address))
                )
            case ClientJoined(conn, client, peer):
                self._connections.entrance.welcome(self._connections.open[conn])
                # As long as clients come, the user need not be told who is missing.
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
                # FINI has no answer, and the server may close this socket at once (IMPI 2.3.7).
                self._connections.close(conn)
            case ClientLost(_, reason, lost):
                self._report(f"{reason}; the job goes on without")

                # The end of that client's process is then no failure of the
                # job, if the server has started it.
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
