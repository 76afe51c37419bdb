"""Delays, loses and reorders what a node receives, and cuts it off; runs beside the node.

A link is one direction: what this node receives from one peer. A rule of iptables gives the peer's
packets to a queue in user space (NFQUEUE); :class:`Link` decides when each goes on, and
:class:`Server` lets it go then. netem would do so in the kernel, but not every kernel has it.

``link_queue.py SOCKET SECONDS`` shares the node's network and may change it (NET_ADMIN). It takes
one request a connection on the Unix socket, a line of JSON, and answers by a line. ``link_queue.py
SOCKET --ask REQUEST`` asks. It ends by itself after SECONDS. ``link_queue.py --probe 1`` only tries
whether the kernel can do it.

Standard library only: it runs from its text in an image without impi.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import os
import random
import re
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

_CHAIN = "IMPILAB"
_QUEUE = 77
_SECOND = "second"
_MOST_QUEUED = 65536
_HEADER = 40  # octets of each packet that are looked at: as many as an IPv6 header has
# Seconds of packets that a slow link queues; more are dropped, as a router does
_BACKLOG_S = 0.5
_EARLY = 10  # the first loss is among the first packets, so that a short job meets one
_ASK_S = 20.0
# Tries to find a moment at which kernel and queue have counted the same packets
_MOST_COUNTS = 20

_REQUEST, _ACK = 1, 4
_PACKET, _VERDICT, _CONFIG = 0x300, 0x301, 0x302
_ERROR = 2
_NETFILTER = 12
_DROP, _ACCEPT = 0, 1
_COPY_PACKET, _WHOLE_SEGMENTS = 2, 4
_NLMSG, _NFGEN, _ATTR = (
    struct.Struct("=LHHLL"),
    struct.Struct(">BBH"),
    struct.Struct("=HH"),
)

# By name: packets are dropped; connections are reset; new connections are not taken, at any port,
# or at all but some; packets are dropped that no gateway has forwarded.
_REFUSALS = {
    "drop": ("-j", "DROP"),
    # Resets themselves pass, so that the peer's answer ends the connection here, too.
    "reset": (
        "-p",
        "tcp",
        "!",
        "--tcp-flags",
        "RST",
        "RST",
        "-j",
        "REJECT",
        "--reject-with",
        "tcp-reset",
    ),
    "syn": ("-p", "tcp", "--syn", "-j", "DROP"),
    "ports": ("-p", "tcp", "--syn", "!", "--dport", "20000:20099", "-j", "DROP"),
    "port": ("-p", "tcp", "--syn", "!", "--dport", "20000", "-j", "DROP"),
    # Nodes send with a TTL of 64, and each gateway takes one off.
    "direct": ("-m", "ttl", "--ttl-gt", "63", "-j", "DROP"),
}


class Spread:
    """Picks a share of things: one of each ``1 / share`` in a row, at a random place among them.

    Independent draws could spare a short job or hit it twice. Here the first pick comes early, and
    there are never many more than asked for.
    """

    def __init__(self, share: float, chance: random.Random) -> None:
        self._share = share
        self._chance = chance
        self._seen = 0
        self._blocks = 0
        self._next = (
            chance.randrange(min(_EARLY, math.ceil(1 / share))) if share else -1
        )

    def _place(self) -> int:
        """Return the index of the next thing to pick."""
        self._blocks += 1
        first, end = (math.ceil((self._blocks + i) / self._share) for i in (0, 1))

        return self._chance.randrange(first, max(first + 1, end))

    def picks(self) -> bool:
        """Whether the next thing is picked."""

        picked = self._seen == self._next

        self._seen += 1
        if picked:
            self._next = self._place()

        return picked


class Link:
    """One direction between two nodes: when each packet leaves it, and counts of packets."""

    def __init__(
        self,
        *,
        seed: str = "",
        delay: float = 0.0,
        jitter: float = 0.0,
        loss: float = 0.0,
        rate: float = 0.0,
        reorder: float = 0.0,
    ) -> None:
        """Take times in seconds, shares from 0 to 1, ``rate`` in octets a second (0: no limit)."""

        self.asked = {
            "delay": delay,
            "jitter": jitter,
            "loss": loss,
            "rate": rate,
            "reorder": reorder,
        }
        self.delay, self.jitter, self.rate = delay, jitter, rate
        self._chance = random.Random(seed)  # noqa: S311  (losses that can be repeated)
        self._loses, self._hurries = (
            Spread(loss, self._chance),
            Spread(reorder, self._chance),
        )
        self._due = 0  # packets that are to overtake others, once there are others
        self._free = 0.0  # when the last octet so far will have gone out
        self._last = 0.0  # when the last packet that keeps the order will arrive
        self.count = {
            "arrived": 0,
            "passed": 0,
            "lost": 0,
            "overflowed": 0,
            "overtook": 0,
        }
        self.held = 0.0
        self.longest = 0.0
        self.shortest = float("inf")

    def leaves(self, now: float, size: int) -> float | None:
        """Return when a packet that arrives now goes on; None: it is lost."""

        self.count["arrived"] += 1
        if self._loses.picks():
            self.count["lost"] += 1
            return None

        if self.rate:
            if self._free - now > _BACKLOG_S:
                self.count["overflowed"] += 1
                return None

            self._free = max(now, self._free) + size / self.rate

        out = max(now, self._free) if self.rate else now

        self._due += self._hurries.picks()
        if self._due and self._last > out:
            # Without the delay, so it overtakes all that are under way.
            self._due -= 1
            self.count["overtook"] += 1
            return out

        arrival = out + max(
            0.0, self.delay + self._chance.uniform(-self.jitter, self.jitter)
        )
        # Jitter alone keeps the order, as one route does
        self._last = max(self._last, arrival)

        return self._last

    def passed(self, held: float) -> None:
        self.count["passed"] += 1
        self.held += held
        self.longest, self.shortest = max(self.longest, held), min(self.shortest, held)

    def told(self) -> dict[str, Any]:
        passed = self.count["passed"]
        mean = self.held / passed if passed else 0.0
        return {
            "asked": self.asked,
            **self.count,
            "mean": round(mean, 6),
            "longest": round(self.longest, 6),
            "shortest": round(self.shortest, 6) if passed else 0.0,
        }


class Queue:
    """The kernel's queue of packets (nfnetlink_queue)."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind((0, 0))
        self._configure(1, struct.pack(">BBH", 1, 0, 0))  # bind to the queue
        self._configure(2, struct.pack(">LB", _HEADER, _COPY_PACKET))
        self._configure(3, struct.pack(">L", _MOST_QUEUED))
        # Packets stay as large as they came: the nodes' own wire carries segments whole (offload).
        self._configure(
            4, struct.pack(">L", _WHOLE_SEGMENTS), 5, struct.pack(">L", _WHOLE_SEGMENTS)
        )
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def _configure(self, *attributes: Any) -> None:
        self._send(_CONFIG, _REQUEST | _ACK, attributes)

        (code,) = struct.unpack_from("=l", self._socket.recv(65536), _NLMSG.size)
        if code:
            raise OSError(-code, f"the kernel's queue of packets: {os.strerror(-code)}")

    def _send(self, kind: int, flags: int, attributes: tuple[Any, ...]) -> None:
        body = _NFGEN.pack(0, 0, _QUEUE)
        for name, value in zip(attributes[::2], attributes[1::2], strict=True):
            body += (
                _ATTR.pack(_ATTR.size + len(value), name)
                + value
                + bytes(-len(value) % 4)
            )

        self._socket.sendto(
            _NLMSG.pack(_NLMSG.size + len(body), kind, flags, 0, 0) + body, (0, 0)
        )

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """Yield (id, first octets) of the packets that wait for a verdict."""
        while True:
            try:
                data = self._socket.recv(1 << 17)
            except BlockingIOError:
                return
            except OSError:
                # ENOBUFS: the kernel dropped packets for lack of room, and counts them
                continue

            at = 0
            while at + _NLMSG.size <= len(data):
                length, kind, _, _, _ = _NLMSG.unpack_from(data, at)
                if kind == _PACKET:
                    yield _packet(data[at + _NLMSG.size + _NFGEN.size : at + length])

                at += (length + 3) & ~3

    def verdict(self, number: int, verdict: int) -> None:
        self._send(_VERDICT, _REQUEST, (2, struct.pack(">LL", verdict, number)))

    def dropped(self) -> int:
        """Return how many packets the kernel dropped because the queue or we were too slow."""
        with open("/proc/net/netfilter/nfnetlink_queue") as file:  # noqa: PTH123
            rows = [line.split() for line in file]

        return sum(
            int(row[5]) + int(row[6]) for row in rows if row and int(row[0]) == _QUEUE
        )


def _packet(attributes: bytes) -> tuple[int, bytes]:
    number, payload, at = 0, b"", 0
    while at + _ATTR.size <= len(attributes):
        length, name = _ATTR.unpack_from(attributes, at)

        value = attributes[at + _ATTR.size : at + length]
        if name & 0x3FFF == 1:
            (number,) = struct.unpack_from(">L", value)
        elif name & 0x3FFF == 10:
            payload = value

        at += (length + 3) & ~3

    return number, payload


def origin_and_size(header: bytes) -> tuple[str, int]:
    """Return the address that an IP packet comes from, and its octets."""
    if header[0] >> 4 == 6:
        return socket.inet_ntop(socket.AF_INET6, header[8:24]), 40 + int.from_bytes(
            header[4:6], "big"
        )

    return socket.inet_ntop(socket.AF_INET, header[12:16]), int.from_bytes(
        header[2:4], "big"
    )


class Rules:
    """A chain of our own in the kernel's rules, before all other rules for what comes in."""

    def __init__(self) -> None:
        self._there = {
            tool: not _run(tool, "-N", _CHAIN, quiet=True)
            and not _run(tool, "-I", "INPUT", "-j", _CHAIN, quiet=True)
            for tool in ("iptables", "ip6tables")
        }
        self._routes: list[str] = []
        self._inner: list[str] = []

        self._of_gateway = [
            *(
                ("filter", f"{_CHAIN}-FWD", "FORWARD"),
                ("filter", f"{_CHAIN}-OUT", "OUTPUT"),
            ),
            ("nat", f"{_CHAIN}-NAT", "POSTROUTING"),
        ]
        if not self._there["iptables"]:
            raise OSError(
                "iptables cannot make a chain: "
                + _run("iptables", "-L", _CHAIN, quiet=True)
            )

    def queue(self, peer: str) -> None:
        _run(
            _tool(peer),
            "-A",
            _CHAIN,
            "-s",
            peer,
            "-j",
            "NFQUEUE",
            "--queue-num",
            str(_QUEUE),
        )

    def cut(self, peer: str, how: str) -> None:
        """Refuse what comes from a peer; see ``_REFUSALS``."""
        # In front of the rule for the queue: a refused packet must not come to the queue.
        _run(_tool(peer), "-I", _CHAIN, "-s", peer, *_REFUSALS[how])

    def heal(self, peer: str, how: str) -> None:
        """Undo :meth:`cut`."""
        _run(_tool(peer), "-D", _CHAIN, "-s", peer, *_REFUSALS[how])

    def flush(self) -> None:
        """Remove all rules, routes and the second interface."""

        for tool in self.tools():
            _run(tool, "-F", _CHAIN)

        for peer in self._routes:
            _run("ip", "route", "del", f"{peer}/32")

        for table, chain, _ in self._of_gateway if self._inner else ():
            _run("iptables", "-t", table, "-F", chain)

        if self.has_second():
            _run("ip", "link", "del", _SECOND)

        self._routes.clear()
        self._inner.clear()

    def route(self, peer: str, gateway: str) -> None:
        _run("ip", "route", "replace", f"{peer}/32", "via", gateway)
        self._routes.append(peer)

    def add_second(self, address: str) -> None:
        """Add an interface with that address, on a network that ends in this node."""
        _run(
            "ip",
            "link",
            "add",
            _SECOND,
            "type",
            "veth",
            "peer",
            "name",
            f"{_SECOND}-end",
        )

        _run("ip", "address", "add", f"{address}/24", "dev", _SECOND)
        for name in (_SECOND, f"{_SECOND}-end"):
            _run("ip", "link", "set", name, "up")

    def has_second(self) -> bool:
        """Whether the second interface is up, by the kernel's own word."""
        return not _run("ip", "link", "show", "dev", _SECOND, "up", quiet=True)

    def forward(self, inner: list[str], translated: bool) -> None:
        """Become the gateway of these nodes. OSError: the kernel forwards nothing here."""

        with open("/proc/sys/net/ipv4/ip_forward") as file:  # noqa: PTH123
            if file.read().strip() != "1":
                raise OSError(
                    "the kernel forwards no packets between interfaces here (net.ipv4.ip_forward)"
                )

        for table, chain, hook in self._of_gateway:
            if not _run("iptables", "-t", table, "-N", chain, quiet=True):
                _run("iptables", "-t", table, "-I", hook, "-j", chain)

        # All nodes are on one network in truth: without this, the kernel would tell them so.
        _run(
            "iptables",
            "-A",
            f"{_CHAIN}-OUT",
            "-p",
            "icmp",
            "--icmp-type",
            "redirect",
            "-j",
            "DROP",
        )
        for node in inner:
            _run("iptables", "-A", f"{_CHAIN}-FWD", "-s", node, "-j", "ACCEPT")

            _run("iptables", "-A", f"{_CHAIN}-FWD", "-d", node, "-j", "ACCEPT")
            if translated:
                _run(
                    "iptables",
                    "-t",
                    "nat",
                    "-A",
                    f"{_CHAIN}-NAT",
                    "-s",
                    node,
                    "-j",
                    "MASQUERADE",
                )

        self._inner += inner

    def forwarded(self) -> dict[str, dict[str, int]]:
        """Return packets out and back, and translated connections, by node behind this one."""
        found = {node: {"out": 0, "back": 0, "translated": 0} for node in self._inner}
        for table in ("filter", "nat") if found else ():
            for line in _run("iptables-save", "-c", "-t", table).splitlines():
                match = re.match(
                    rf"\[(\d+):\d+\] -A {_CHAIN}-(FWD|NAT) -([sd]) (\S+?)(?:/\d+)? ",
                    line,
                )
                if match and match[4] in found:
                    what = (
                        "translated"
                        if match[2] == "NAT"
                        else "out"
                        if match[3] == "s"
                        else "back"
                    )
                    found[match[4]][what] = int(match[1])

        return found

    def tools(self) -> list[str]:
        return [tool for tool, works in self._there.items() if works]

    def counters(self) -> list[dict[str, Any]]:
        """Return the kernel's own count of packets for each rule."""
        found = []
        for tool in self.tools():
            for line in _run(f"{tool}-save", "-c", "-t", "filter").splitlines():
                match = re.match(
                    rf"\[(\d+):\d+\] -A {_CHAIN} -s (\S+?)(?:/\d+)? .*-j (\S+)", line
                )
                if match:
                    found.append(
                        {"packets": int(match[1]), "peer": match[2], "rule": match[3]}
                    )

        return found


def _tool(peer: str) -> str:
    return "ip6tables" if ":" in peer else "iptables"


def _run(*argv: str, quiet: bool = False) -> str:
    """Return its output, or with ``quiet`` its complaint. OSError: it failed."""

    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if quiet:
        return done.stderr.strip() if done.returncode else ""

    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")

    return done.stdout


class Server:
    """The process: requests, packets, and the packets that are held."""

    def __init__(self, path: str, queue: Queue, rules: Rules) -> None:
        self._queue = queue
        self._rules = rules
        self._links: dict[str, Link] = {}
        self._healed: list[dict[str, Any]] = []
        self._under_way: list[tuple[float, int, int, float, Link]] = []
        self._order = itertools.count()
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._requests.bind(path)
        self._requests.listen()

    def close(self) -> None:
        self._requests.close()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._release(now)
            until = min(end, self._under_way[0][0]) if self._under_way else end

            readable, _, _ = select.select(
                [self._queue.fileno(), self._requests.fileno()],
                [],
                [],
                min(60.0, max(0.0, until - time.monotonic())),
            )
            if self._queue.fileno() in readable:
                self._take()

            if self._requests.fileno() in readable:
                self._answer()

    def _take(self) -> None:
        for number, header in self._queue.packets():
            now = time.monotonic()
            peer, size = origin_and_size(header)
            link = self._links.get(peer)

            at = now if link is None else link.leaves(now, size)
            if at is None:
                self._queue.verdict(number, _DROP)
            elif link is None or at <= now:
                self._queue.verdict(number, _ACCEPT)
                if link is not None:
                    link.passed(0.0)
            else:
                heapq.heappush(
                    self._under_way, (at, next(self._order), number, now, link)
                )

    def _release(self, now: float) -> None:
        while self._under_way and self._under_way[0][0] <= now:
            _, _, number, came, link = heapq.heappop(self._under_way)
            self._queue.verdict(number, _ACCEPT)
            link.passed(now - came)

    def _answer(self) -> None:
        asker, _ = self._requests.accept()
        with asker:
            asker.settimeout(_ASK_S)
            try:
                answer: dict[str, Any] = {
                    "value": self.do(json.loads(asker.makefile().readline()))
                }
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = {"error": str(error)}

            try:
                asker.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                pass  # the one who asked is gone

    def do(self, request: dict[str, Any]) -> Any:
        """Carry out a request: set, cut, heal, route, second, forward, clear or show."""

        if request["do"] == "clear":
            self._clear()

        for peer, settings in request.get("links", {}).items():
            if peer not in self._links:
                self._rules.queue(peer)

            self._links[peer] = Link(**settings)

        for peer, gateway in request.get("via", {}).items():
            self._rules.route(peer, gateway)

        if request["do"] == "second":
            self._rules.add_second(request["address"])

        if request["do"] == "forward":
            self._rules.forward(request["inner"], request["translated"])

        peers = request.get("peers", ())
        if request["do"] == "heal":
            # A healed rule goes with its count, which is the proof of the cut: keep it.
            self._healed += [
                r
                for r in self._rules.counters()
                if r["peer"] in peers and r["rule"] != "NFQUEUE"
            ]

        for peer in peers:
            act = self._rules.heal if request["do"] == "heal" else self._rules.cut
            act(peer, request["how"])

        return self._show() if request["do"] == "show" else {}

    def _show(self) -> dict[str, object]:
        """Return settings and counts of all links, and counts of all rules."""
        rules = self._counters()
        return {
            "links": {peer: link.told() for peer, link in self._links.items()},
            "rules": rules,
            "healed": self._healed,
            "forwarded": self._rules.forwarded(),
            "second": self._rules.has_second(),
            "dropped": self._queue.dropped(),
        }

    def _counters(self) -> list[dict[str, object]]:
        """Return the kernel's counts at a moment when the queue has got all that they count.

        Packets come between two readings, and a proof that compares both would fail. A busy link
        may have no such moment: then the last counts must do.
        """
        now = self._rules.counters()
        for _ in range(_MOST_COUNTS):
            self._take()

            before, now = now, self._rules.counters()
            if now == before:
                break

        return now

    def _clear(self) -> None:
        self._rules.flush()

        # Held packets go on: dropping them would be a loss that no setting asked for.
        self._take()
        while self._under_way:
            self._queue.verdict(heapq.heappop(self._under_way)[2], _ACCEPT)

        self._links.clear()
        self._healed.clear()


def ask(path: str, request: str) -> str:
    """Return the answer of the server at that path; wait until it listens."""
    deadline = time.monotonic() + _ASK_S
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            try:
                asker.connect(path)
            except OSError:
                if time.monotonic() > deadline:
                    raise

                time.sleep(0.01)
                continue

            asker.sendall(request.encode() + b"\n")
            return asker.makefile().readline()


if __name__ == "__main__":
    if sys.argv[1] == "--probe":
        Queue()
        Rules().queue("192.0.2.1")
    elif sys.argv[2] == "--ask":
        print(ask(sys.argv[1], sys.argv[3]), end="")
    else:
        Server(sys.argv[1], Queue(), Rules()).run(float(sys.argv[2]))
