"""A short seeded run of each fuzz target, and a proof that the harness can find faults."""

from collections import Counter
from random import Random

import fuzz_client
import fuzz_control
import fuzz_door
import fuzz_host
import fuzz_names
import fuzz_relay
import fuzz_run
import fuzz_secret_client
import fuzz_secret_server
import fuzz_server
import pytest

from impi.protocol.startup.server import ServerMachine
from impi.protocol.transfer import Transfer

TARGETS = {
    "server": fuzz_server.play,
    "client": fuzz_client.play,
    "host": fuzz_host.play,
    "secret-server": fuzz_secret_server.play,
    "secret-client": fuzz_secret_client.play,
    "door": fuzz_door.play,
    "control": fuzz_control.play,
    "names": fuzz_names.play,
    "relay": fuzz_relay.play,
}
INPUTS = {
    "secret-server": 1000,
    "door": 1000,
    "control": 1000,
    "names": 1000,
    "relay": 1000,
}
"""The number of inputs of all other targets: 3000."""

MUST_REACH = {
    "server": [
        "JobOver",
        "JobStarted",
        "ConnectionRefused: sent a wrong authentication key",
        "JobFailed: submitted",
    ],
    "client": [
        "Negotiated",
        "Joined",
        "StartupError 2.3.5: did not contribute",
        "PeerError 2.3.2: ",
    ],
    "host": [
        "a long message was completed",
        "a message was taken back",
        "finalization was complete",
        "held at hiwater",
        "a cancellation was answered: True",
        "a cancellation was answered: False",
        "the end, without error",
        "PeerError 3.2",
        "PeerError 3.5",
        "PeerError 3.6",
        "PeerError 3.7.1",
        "PeerError 3.8",
    ],
    "secret-server": [
        "JobOver",
        "JobFailed",
        "changed on its way",
        "refused: has not proved that it knows the secret",
        "refused: sent a wrong authentication key",
        "refused: has broken its TLS session",
    ],
    "secret-client": [
        "PeerError: has not proved",
        "PeerError: chose",
        "PeerError: sent a malformed challenge",
    ],
    "door": [
        f"{place}: a connection says it is number and {what}"
        for place in ("host 1", "host 2", "proc 1", "the agent")
        for what in ("does not know this job's secret", "ends without its proof")
    ]
    + [
        "host 1: host refused host which connected from while client is known by",
        "proc 1: it did not begin as a proc",
    ],
    "names": [
        "NameTold",
        "refused: has not proved that it knows the secret",
        "refused: sent a NAME without a nonce",
        "the process hears: has not proved",
        "publish: done",
        "publish: ERR_SERVICE",
        "lookup: ERR_NAME",
        "unpublish: done",
    ],
    "relay": [
        "endpoints were opened",
        "it does not know this relay's",
        "it is not a process of a job",
        "it sent no JSON",
    ],
    "control": [
        "members joined",
        "came where none was awaited",
        "does not know this job's token",
        "sent no JSON",
    ],
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run(name: str) -> None:
    inputs = INPUTS.get(name, 3000)
    report = fuzz_run.run(name, TARGETS[name], seed=7, first=1, inputs=inputs)
    assert report.inputs == inputs
    assert 2 * report.deep >= report.inputs, (
        "at least half must get past AUTH or the first header, or forge a proof"
    )
    for state in MUST_REACH[name]:
        assert any(found.startswith(state) for found in report.reached), (
            f"{state} was not reached"
        )
    assert report.peak > 0


def test_an_input_can_be_repeated() -> None:
    def whole(seed: int) -> Counter[str]:
        return fuzz_run.run(
            "host", fuzz_host.play, seed=seed, first=5, inputs=50
        ).reached

    assert whole(3) == whole(3) != whole(4)


def test_choices_come_from_the_octets_and_then_from_a_seed() -> None:
    assert [fuzz_run.Choices(b"\x80\xff").getrandbits(k) for k in (1, 8, 16)] == [
        1,
        128,
        0x80FF,
    ]
    picks = [
        [c.randrange(1000), c.choice("abc"), c.random()]
        for c in map(fuzz_run.Choices, (b"12345678",) * 2)
    ]
    assert picks[0] == picks[1]
    assert fuzz_run.Choices(b"").random() == fuzz_run.Choices(b"").random()


def test_it_finds_an_exception_that_is_not_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ServerMachine, "missing", lambda self: [][0])
    with pytest.raises(
        fuzz_run.Crash,
        match=r"IndexError.*repeat it: --target server --seed 7 --first \d+ --inputs 1",
    ):
        fuzz_run.run("server", fuzz_server.play, seed=7, first=1, inputs=100)


def test_it_finds_credit_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.protocol.transfer.credit.CreditWindow.open", True)
    with pytest.raises(fuzz_run.Crash):
        fuzz_run.run("host", fuzz_host.play, seed=7, first=1, inputs=2000)


def test_it_finds_memory_without_bound() -> None:
    def hungry(rng: Random, reached: Counter[str]) -> bool:
        return len(bytearray(10 << 20)) > 0

    with pytest.raises(fuzz_run.Crash, match="0 octets made it allocate"):
        fuzz_run.run("hungry", hungry, seed=1, first=1, inputs=2000)


def test_it_finds_a_machine_that_wants_to_write_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Transfer, "wants_write", lambda self, host: True)
    with pytest.raises(fuzz_run.Crash, match="wants to write nothing"):
        fuzz_run.run("host", fuzz_host.play, seed=1, first=1, inputs=10)


def believes(*_arguments: object) -> bool:
    """Accept any proof, as a machine that checks none."""
    return True


@pytest.mark.parametrize(
    ("name", "where", "found"),
    [
        (
            "secret-server",
            "impi.protocol.startup.server.SealedChannel.is_proved",
            "without the secret is let in",
        ),
        (
            "secret-server",
            "impi.protocol.startup.server.SealedChannel.check_seal",
            "has begun a job with octets that",
        ),
        (
            "secret-client",
            "impi.protocol.startup.client.SealedChannel.is_proved",
            "a server without the secret brings about",
        ),
        (
            "door",
            "impi.protocol.proofs.Keeper.accepts",
            "somebody without the secret is let in at",
        ),
        (
            "door",
            "impi.protocol.proofs.proves",
            "an impostor is believed|somebody without the secret is let in at",
        ),
        (
            "names",
            "impi.protocol.startup.names.proves",
            "somebody without the secret is answered|is answered by",
        ),
        (
            "control",
            "impi.protocol.proofs.Keeper.accepts",
            "somebody without the token is let in",
        ),
        (
            "relay",
            "impi.protocol.proofs.Keeper.accepts",
            "somebody without the secret (is let in|fetches a visitor)",
        ),
        (
            "relay",
            "impi.protocol.proofs.proves",
            "taken for a relay|somebody without the secret (is let in|fetches a visitor)",
        ),
        (
            "control",
            "impi.protocol.proofs.proves",
            "taken for impirun|somebody without the token is let in",
        ),
    ],
)
def test_it_finds_a_door_that_believes(
    monkeypatch: pytest.MonkeyPatch, name: str, where: str, found: str
) -> None:
    monkeypatch.setattr(where, believes)
    with pytest.raises(fuzz_run.Crash, match=found):
        fuzz_run.run(name, TARGETS[name], seed=7, first=1, inputs=400)
