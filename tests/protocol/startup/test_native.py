"""Agreement on user data in memory form: by our own label, only in our own version."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from labels_heard import CHAIN, NONE, Heard, Versions, broadcast, hears

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.job import LONG8_VERSION, STRICT_VERSION, TUNED_VERSION, Job
from impi.protocol.semantics.values import representation
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    STRICT_VERSIONS,
    ClientMachine,
    Negotiated,
)
from impi.protocol.startup.facts import ClientFacts, encode_facts, encode_versions
from impi.protocol.wire import Command, Label, OwnLabel, encode_command

X86 = bytes([1, 8, 16, 64])
ARM = bytes([1, 8, 16, 113])
I386 = bytes([1, 4, 12, 64])
BIG = bytes([2, 8, 16, 113])

Maker = Callable[..., ClientFacts]


def agreed(facts_of: Maker, forms: list[bytes]) -> Heard:
    facts = [facts_of(client, representation=form) for client, form in enumerate(forms)]
    return Heard(facts, [ALL_VERSIONS] * len(forms))


@pytest.mark.parametrize("forms", [[X86], [X86, X86], [ARM, ARM, ARM], [I386, I386]])
def test_all_alike(facts_of: Maker, forms: list[bytes]) -> None:
    heard = agreed(facts_of, forms)
    assert {job.native for job in heard.jobs.values()} == {True}
    job = heard.jobs[0]
    assert job.version == TUNED_VERSION
    assert Job.from_json(job.to_json()) == job
    assert all(
        set(labels) == {*Label, OwnLabel.C_NATIVE}
        for labels in heard.labels + heard.submitted
    )


@pytest.mark.parametrize(
    "forms",
    [
        [X86, ARM],
        [X86, X86, BIG],
        [BIG, BIG],
        [X86, b"", X86],
        [b"", X86],
        [b"", b""],
        [I386, X86],
    ],
    ids=[
        "long double",
        "byte order",
        "all big",
        "one unknown",
        "the first unknown",
        "nobody knows",
        "long",
    ],
)
def test_not_all_alike_or_not_little_endian(
    facts_of: Maker, forms: list[bytes]
) -> None:
    """All clients come to the same."""
    heard = agreed(facts_of, forms)
    assert [job.native for job in heard.jobs.values()] == [False] * len(forms)


@pytest.mark.parametrize(
    "older", [STRICT_VERSIONS, (STRICT_VERSION, LONG8_VERSION), ((0, 0), (0, 1))]
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_older_client_and_nobody_sees_any_of_it(
    facts_of: Maker, older: Versions, which: int
) -> None:
    versions: list[Versions] = [ALL_VERSIONS] * 3
    versions[which] = older
    heard = Heard([facts_of(c, representation=X86) for c in range(3)], versions)
    assert [job.native for job in heard.jobs.values()] == [False] * 3
    assert all(set(labels) == set(Label) for labels in heard.labels + heard.submitted)


def test_octets_of_a_client_that_only_has_0_0_beside_it(facts_of: Maker) -> None:
    """Not one octet depends on what this client could have said."""

    def said(representation: bytes) -> bytes:
        facts = facts_of(0, representation=representation)
        machine = ClientMachine(0, NONE)
        octets = machine.data_to_send()
        machine.receive_data(
            bytes(8) + encode_command(Command.IMPI, (2).to_bytes(4, "big"))
        )
        machine.submit(facts)
        heard = [
            (
                Label.C_VERSION,
                encode_versions(ALL_VERSIONS) + encode_versions(STRICT_VERSIONS),
            )
        ]
        heard += [(label, data * 2) for label, data in encode_facts(facts_of(1))]
        for label, data in heard:
            octets += machine.data_to_send()
            machine.receive_data(broadcast(label, 0b11, data))
        return octets + machine.data_to_send()

    assert said(X86) == said(b"")
    assert said(X86).endswith(encode_command(Command.DONE))


@pytest.mark.clause("2.3.5")
def test_a_strict_client_ignores_that_label_of_others(facts_of: Maker) -> None:
    machine = ClientMachine(0, NONE, STRICT_VERSIONS)
    machine.receive_data(
        bytes(8) + encode_command(Command.IMPI, (2).to_bytes(4, "big"))
    )
    machine.submit(facts_of(0, representation=X86))
    labels = zip(encode_facts(facts_of(0)), encode_facts(facts_of(1)), strict=True)
    heard = broadcast(Label.C_VERSION, 0b11, encode_versions(STRICT_VERSIONS) * 2)
    heard += b"".join(
        broadcast(label, 0b11, mine + theirs) for (label, mine), (_, theirs) in labels
    )
    heard += broadcast(OwnLabel.C_NATIVE, 0b10, b"rubbish") + encode_command(
        Command.DONE
    )
    [event] = machine.receive_data(heard)
    assert isinstance(event, Negotiated)
    assert not event.job.native


def test_beside_a_table_of_decisions(facts_of: Maker) -> None:
    """Two labels of one version, in ascending order."""
    facts = [
        facts_of(0, representation=X86),
        facts_of(1, decisions=CHAIN, representation=X86),
    ]
    heard = Heard(facts, [ALL_VERSIONS] * 2)
    assert [(job.native, job.decisions) for job in heard.jobs.values()] == [
        (True, CHAIN)
    ] * 2
    assert heard.submitted[1][-2:] == [OwnLabel.C_TUNING, OwnLabel.C_NATIVE]


@pytest.mark.parametrize(
    ("mask", "data"),
    [(0, b""), (0b01, X86), (0b110, X86 * 2), (0b10, X86[:3]), (0b10, X86 * 2)],
    ids=["nobody", "us, who have not", "a client too many", "cut short", "too long"],
)
def test_a_broadcast_that_cannot_be(facts_of: Maker, mask: int, data: bytes) -> None:
    with pytest.raises(
        PeerError,
        match="broadcast C_NATIVE, but not what the clients of this job submitted",
    ):
        hears(facts_of(0), broadcast(OwnLabel.C_NATIVE, mask, data))


def test_a_representation_is_four_octets(facts_of: Maker) -> None:
    with pytest.raises(LocalProtocolError, match="four octets"):
        facts_of(0, representation=b"\1\10")


def test_what_this_machine_says() -> None:
    order, long, long_double, bits = representation.own()
    assert order == {"little": 1, "big": 2}[sys.byteorder]
    assert (long, long_double) == (np.dtype("l").itemsize, np.dtype("g").itemsize)
    assert bits == np.finfo("g").nmant + 1


@pytest.mark.parametrize(
    "octets", [b"\0\0\0\0\0\0\xf0\x3f", bytes(16)], ids=["a double", "double-double"]
)
def test_a_long_double_of_another_form(
    octets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(representation, "c_longdouble", lambda _: octets)
    assert representation.own() == b""
