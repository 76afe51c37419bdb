"""Writes pcap files for tests: TCP connections from two octet strings, and UDP datagrams."""

from __future__ import annotations

import functools
import ipaddress
import struct
from dataclasses import dataclass, field

Octets = bytes
"""The type, where a method has its name."""
SYN, FIN, RST, ACK = 2, 1, 4, 16
address = functools.cache(ipaddress.ip_address)


@dataclass
class PcapMaker:
    order: str = "<"
    link: int = 1
    nano: bool = False
    frames: list[tuple[float, bytes, int]] = field(default_factory=list)
    clock: float = 1000.0

    def bytes(self) -> bytes:
        magic = 0xA1B23C4D if self.nano else 0xA1B2C3D4
        out = [
            struct.pack(self.order + "IHHiIII", magic, 2, 4, 0, 0, 262144, self.link)
        ]
        for time, frame, original in self.frames:
            fraction = round((time - int(time)) * (1e9 if self.nano else 1e6))
            out.append(
                struct.pack(
                    self.order + "IIII", int(time), fraction, len(frame), original
                )
                + frame
            )
        return b"".join(out)

    def ip(
        self, src: str, dst: str, protocol: int, body: Octets, *, cut: int = 0
    ) -> None:
        a, b = address(src), address(dst)
        if a.version == 4:
            head = struct.pack(
                ">BBHHHBBH4s4s",
                0x45,
                0,
                20 + len(body),
                0,
                0x4000,
                64,
                protocol,
                0,
                a.packed,
                b.packed,
            )
        else:
            head = struct.pack(
                ">IHBB16s16s", 6 << 28, len(body), protocol, 64, a.packed, b.packed
            )
        kind = 0x0800 if a.version == 4 else 0x86DD
        links = {
            1: Octets(12) + struct.pack(">H", kind),
            101: b"",
            113: struct.pack(">HHH8sH", 0, 1, 6, bytes(8), kind),
            276: struct.pack(">HHIHBB8s", kind, 0, 1, 1, 0, 6, bytes(8)),
        }
        frame = links[self.link] + head + body
        self.clock += 0.0001
        self.frames.append((self.clock, frame[: len(frame) - cut], len(frame)))

    def udp(self, src: str, dst: str, payload: Octets, port: int = 9) -> None:
        self.ip(
            src,
            dst,
            17,
            struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload,
        )

    def tcp(self, src, dst, seq, ack, flags, payload=b"", *, cut=0) -> None:
        head = struct.pack(
            ">HHIIBBHHH",
            src[1],
            dst[1],
            seq % 2**32,
            ack % 2**32 if flags & ACK else 0,
            5 << 4,
            flags,
            65535,
            0,
            0,
        )
        self.ip(src[0], dst[0], 6, head + payload, cut=cut)

    def dialogue(
        self, opener, accepter, said: list[tuple[bool, Octets]], *, mss=1448
    ) -> None:
        """A whole connection, in this order: (whether the opener says it, octets)."""
        ends, sent = (opener, accepter), [8, 100]
        self.tcp(opener, accepter, 7, 0, SYN)
        self.tcp(accepter, opener, 99, 8, SYN | ACK)
        for forth, data in said:
            me = 0 if forth else 1
            for at in range(0, len(data), mss):
                piece = data[at : at + mss]
                self.tcp(ends[me], ends[1 - me], sent[me], sent[1 - me], ACK, piece)
                sent[me] += len(piece)
        for me in (0, 1):
            self.tcp(ends[me], ends[1 - me], sent[me], sent[1 - me], FIN | ACK)
            sent[me] += 1
        self.tcp(opener, accepter, sent[0], sent[1], ACK)

    def connection(
        self,
        opener,
        accepter,
        forth: Octets,
        back: Octets,
        *,
        mss=1448,
        isn=(7, 99),
        close=True,
    ) -> None:
        """A whole connection; segments of both directions alternate."""
        a, b = isn
        self.tcp(opener, accepter, a, 0, SYN)
        self.tcp(accepter, opener, b, a + 1, SYN | ACK)
        self.tcp(opener, accepter, a + 1, b + 1, ACK)
        sent = [0, 0]
        while sent[0] < len(forth) or sent[1] < len(back):
            for i, (src, dst, data) in enumerate(
                ((opener, accepter, forth), (accepter, opener, back))
            ):
                piece = data[sent[i] : sent[i] + mss]
                if piece:
                    seq, ack = isn[i] + 1 + sent[i], isn[1 - i] + 1 + sent[1 - i]
                    self.tcp(src, dst, seq, ack, ACK, piece)
                    sent[i] += len(piece)
        if close:
            self.tcp(opener, accepter, a + 1 + sent[0], b + 1 + sent[1], FIN | ACK)
            self.tcp(accepter, opener, b + 1 + sent[1], a + 2 + sent[0], FIN | ACK)
            self.tcp(opener, accepter, a + 2 + sent[0], b + 2 + sent[1], ACK)
