"""Octets to typed values and back: commands (IMPI 2.3), packets (3.5), host identifiers."""

from impi.protocol.wire import addresses
from impi.protocol.wire.commands import (
    MAX_PAYLOAD,
    Command,
    CommandReader,
    Label,
    OwnCommand,
    OwnLabel,
    decode_loss,
    decode_reason,
    encode_command,
    encode_loss,
    encode_reason,
)
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)

__all__ = [
    "HEADER_SIZE",
    "MAX_PAYLOAD",
    "Command",
    "CommandReader",
    "Header",
    "Label",
    "OwnCommand",
    "OwnLabel",
    "PacketType",
    "addresses",
    "decode_loss",
    "decode_reason",
    "encode_command",
    "encode_loss",
    "encode_reason",
    "pack_header",
    "unpack_header",
]
