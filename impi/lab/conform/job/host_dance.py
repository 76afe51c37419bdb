"""The dance of hosts (IMPI 2.3.8): simulated hosts connect, and others connect to them."""

from __future__ import annotations

from collections.abc import Callable

from impi.lab.conform.job.encoding import uint4
from impi.lab.conform.job.simulated_procs import Link, SimulatedProcs
from impi.lab.conform.job.wiring import RANK_SIZE, RecordedWire, Wiring
from impi.lab.conform.outcomes import Broken
from impi.lab.dissect import Layout, show_address


class HostDance:
    """Joins simulated hosts and those under test.

    Args:
        wiring: has the connections.
        strangers: whether a program that is not a host connects before each simulated host.
    """

    def __init__(self, wiring: Wiring, *, strangers: bool) -> None:
        self._wiring = wiring
        self._strangers = strangers
        # Connections, each with the port of the simulated host that it came to.
        self._arrived: list[tuple[RecordedWire, int]] = []

    def accepted(self, wire: RecordedWire) -> None:
        arrived = (wire, wire.sock.getsockname()[1])
        self._arrived = [one for one in self._arrived if not one[0].closed] + [arrived]

    def join(
        self,
        procs: SimulatedProcs,
        layout: Layout,
        client: int,
        patience_s: float,
        gone: Callable[[], bool],
    ) -> None:
        """Give each link its connection.

        Args:
            procs: have the links.
            layout: the job.
            client: the number of the client under test.
            patience_s: seconds for connections of hosts under test.
            gone: whether the implementation has ended.

        Raises:
            Broken: a host under test does otherwise.
        """

        # First connect to all lower hosts, then await the higher ones: the
        # loop of IMPI 2.3.8.
        links = list(procs.links.values())
        for link in links:
            if link.ours > link.theirs:
                self._connect(link, layout, procs.patience_s)

        by_port = {
            host.port: host.index for host in layout.hosts if host.client != client
        }

        self._wiring.wait(
            lambda: self._all_joined(procs, by_port) or gone(), patience_s
        )
        for link in links:
            if link.wire is None:
                raise Broken(
                    f"host {link.theirs} does not connect to host {link.ours}",
                    expected="a connection, since its number is higher",
                    actual=f"none within {patience_s:g} s",
                    clause="2.3.8",
                )

    def _connect(self, link: Link, layout: Layout, patience_s: float) -> None:
        theirs, ours = layout.hosts[link.theirs], layout.hosts[link.ours]

        address = show_address(theirs.ipv6)
        # A program that is not a host: a host must bear a connection that brings no rank.
        if self._strangers:
            stranger = self._wiring.connect(address, theirs.port, timeout_s=patience_s)
            if stranger is not None:
                stranger.send(b"GET / HTTP/1.0\r\n\r\n")
                self._wiring.forget(stranger)

        # From the host's own address, so the client may check where it comes from.
        link.wire = self._wiring.connect(
            address, theirs.port, show_address(ours.ipv6), patience_s
        )
        if link.wire is None:
            raise Broken(
                f"host {link.theirs} does not answer at {address} port {theirs.port}",
                expected="a listener at H_IPV6 and H_PORT, since its number is lower",
                actual="no connection",
                clause="2.3.8",
            )

        link.wire.send(uint4(link.ours))

    def _all_joined(self, procs: SimulatedProcs, by_port: dict[int, int]) -> bool:
        for wire, port in list(self._arrived):
            # Who connects is known by its first four octets only. Slower ones
            # are asked again.
            if len(wire.incoming) < RANK_SIZE:
                continue

            said = int.from_bytes(wire.take(RANK_SIZE), "big")
            self._arrived.remove((wire, port))

            link = procs.links.get((by_port[port], said))
            # Known, only once, and of a higher number: the lower host would
            # have to accept.
            if link is None or link.wire is not None or link.ours > link.theirs:
                raise Broken(
                    f"a connection to host {by_port[port]} says that it comes from host {said}",
                    expected="a host of the client, of a higher number, once",
                    actual=str(said),
                    clause="2.3.8",
                )

            link.wire = wire

        return all(link.wire is not None for link in procs.links.values())
