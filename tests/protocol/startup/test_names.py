"""Published names: questions and answers of a server, and who gets none."""

from __future__ import annotations

import json
import struct

import pytest
from exchange import nonces

from impi.base.errors import PeerError
from impi.protocol.startup import names
from impi.protocol.startup.auth import Credentials, Method, names_key
from impi.protocol.startup.names import Answer, Asker, Names, NameTold
from impi.protocol.startup.server import ConnectionRefused, ServerMachine
from impi.protocol.wire import CommandReader

KEY = names_key({"IMPI_AUTH_SECRET": "correct horse battery"})
NONCE = b"a" * 32


def machine() -> ServerMachine:
    server = ServerMachine(1, Credentials((Method.NONE,)), nonces(), names_key=KEY)
    server.connected(0, "somebody")
    return server


def payload(octets: bytes) -> bytes:
    reader = CommandReader()
    reader.receive_data(octets)
    command = reader.next_command()
    assert command is not None and not len(reader)
    return command[1]


def ask(
    server: ServerMachine, conn: int, act: str, name: str, port: str = ""
) -> Answer:
    """By a process that knows the key, one octet at a time."""
    server.connected(conn, "somebody")
    asker = Asker(KEY, NONCE)
    for octet in asker.opening:
        assert server.receive_data(conn, bytes([octet])) == []
    question = asker.asks(payload(server.data_to_send(conn)), act, name, port)
    assert name.encode() not in question and (not port or port.encode() not in question)
    (told,) = server.receive_data(conn, question)
    assert isinstance(told, NameTold) and told.conn == conn
    assert not port or port.encode() not in told.last
    assert server.eof(conn) == []
    return asker.reads(payload(told.last))


def test_a_name_is_published_found_and_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = machine()
    assert ask(server, 1, "lookup", "ocean") == Answer(
        "", "ERR_NAME", "no port is published as 'ocean'"
    )
    assert ask(server, 2, "publish", "ocean", "impi:port") == Answer()
    assert ask(server, 3, "lookup", "ocean") == Answer("impi:port")
    assert ask(server, 4, "publish", "ocean", "impi:port").error == "ERR_SERVICE"
    assert ask(server, 5, "unpublish", "ocean", "impi:other").error == "ERR_SERVICE"
    monkeypatch.setattr(names, "_MOST", 1)
    assert (
        ask(server, 6, "publish", "air", "impi:port").why
        == "1 names are published, and no more can be"
    )
    assert ask(server, 7, "unpublish", "ocean", "impi:port") == Answer()
    assert ask(server, 8, "unpublish", "ocean", "impi:port").error == "ERR_SERVICE"
    assert server.missing() == [0]


@pytest.mark.parametrize(
    "question",
    [b"", b"[]", b"[1, 2, 3]", b'["publish", 1, ""]', b'["lookup", "a", 2]', b"3"],
)
def test_another_question_has_an_answer(question: bytes) -> None:
    assert Names(KEY).answer(question) == Answer(
        "", "ERR_SERVICE", "the server does not know what was asked"
    )


@pytest.mark.parametrize(
    "key", [b"", names_key({}), names_key({"IMPI_AUTH_KEY": "17"})]
)
def test_who_does_not_know_the_secret_gets_nothing(key: bytes) -> None:
    server = machine()
    asker = Asker(key, NONCE)
    server.receive_data(0, asker.opening)
    (refused,) = server.receive_data(
        0, asker.asks(payload(server.data_to_send(0)), "lookup", "ocean", "")
    )
    assert (
        isinstance(refused, ConnectionRefused) and refused.guessed and not refused.last
    )
    assert refused.reason == "somebody: has not proved that it knows the secret"


def test_a_nonce_has_its_length() -> None:
    (refused,) = machine().receive_data(0, struct.pack(">ii", 0x4E414D45, 3) + b"abc")
    assert isinstance(refused, ConnectionRefused)
    assert refused.kind == "sent a NAME without a nonce"


def test_a_question_has_its_length() -> None:
    server = machine()
    server.receive_data(0, Asker(KEY, NONCE).opening)
    (refused,) = server.receive_data(
        0, struct.pack(">ii", 0x4E414D45, names.LONGEST + 1)
    )
    assert isinstance(refused, ConnectionRefused)


def test_an_answer_of_another_server_is_none() -> None:
    asker = Asker(KEY, NONCE)
    asker.asks(b"b" * 32, "lookup", "ocean", "")
    forged = json.dumps(["impi:mine", "", ""]).encode()
    with pytest.raises(PeerError, match="has not proved that it knows the secret"):
        asker.reads(b"p" * 32 + forged)


def test_an_answer_heard_before_is_none() -> None:
    server, asker = machine(), Asker(KEY, NONCE)
    server.receive_data(0, asker.opening)
    (told,) = server.receive_data(
        0, asker.asks(payload(server.data_to_send(0)), "lookup", "ocean", "")
    )
    assert isinstance(told, NameTold)
    again = Asker(KEY, b"c" * 32)
    again.asks(b"d" * 32, "lookup", "ocean", "")
    with pytest.raises(PeerError):
        again.reads(payload(told.last))
