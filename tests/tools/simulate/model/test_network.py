"""The cost of a message by the parameters of the model."""

from __future__ import annotations

import pytest

from impi.base.units import SECOND
from impi.tools.simulate.model.network import Tier, wire_time


@pytest.mark.parametrize(
    ("octets", "rate", "time"),
    [(0, 10, 0), (1, 0, 0), (1, SECOND, 1), (3, 2 * SECOND, 2)],
)
def test_the_wire_takes_whole_picoseconds_rounded_up(
    octets: int, rate: int, time: int
) -> None:
    assert wire_time(octets, rate) == time


def test_a_lone_message_is_sent_carried_and_received() -> None:
    tier = Tier(latency=1000, bandwidth=SECOND, send=20, receive=3, copy=SECOND // 2)
    assert (tier.sending(10), tier.receiving(10)) == (20 + 20, 3 + 20)
    assert tier.hop(10) == 40 + 10 + 1000 + 23
    assert tier.hop(0) == 1023
