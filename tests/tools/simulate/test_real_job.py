"""Predictions beside a real job: what is measured of it, and the network that fits."""

from __future__ import annotations

import pytest

from impi.base.errors import LaunchError
from impi.base.units import SECOND
from impi.tools.simulate.model.shape import parse_shape
from impi.tools.simulate.real_job import fit, fit_sleepers, run_probe

SEEN = {
    "small": 100e-6,
    "large": 150e-6,
    "send": 20e-6,
    "receive": 30e-6,
    "octets": 50_000,
}


ASLEEP = {"connect": 40e-6, "accept": 9e-6, "send": 15e-6, "way": 60e-6}


def test_what_was_measured_becomes_a_network() -> None:
    network = fit({"wide": SEEN, "call": 135e-6, "combine": 1e-9})
    tier = network.wide
    assert (tier.send, tier.receive, tier.latency) == (
        20 * 10**6,
        30 * 10**6,
        50 * 10**6,
    )
    assert tier.bandwidth == pytest.approx(10**9)
    assert (network.call, network.combine, network.local) == (35 * 10**6, 10**9, tier)
    overlapping = {**SEEN, "send": 100e-6, "receive": 300e-6, "large": 90e-6}
    network = fit({"wide": overlapping, "local": SEEN, "call": 95e-6, "combine": 0.0})
    assert (network.wide.send, network.wide.receive, network.wide.latency) == (
        25 * 10**6,
        75 * 10**6,
        0,
    )
    assert (network.wide.bandwidth, network.call, network.local) == (0, 0, tier)


def test_who_sleeps_wakes_up_as_a_part_of_receiving() -> None:
    network = fit_sleepers({"wide": SEEN, "sleepers": ASLEEP})
    tier = network.wide
    assert (tier.latency, tier.send, network.connect) == (
        20 * 10**6,
        15 * 10**6,
        9 * 10**6,
    )
    assert 25 * 10**6 < tier.receive < SECOND
    quick = fit_sleepers({"wide": SEEN, "sleepers": {**ASLEEP, "send": 70e-6}})
    assert quick.wide.latency == 0


def test_what_the_job_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "impi.tools.simulate.real_job._PROBE", "impi.tools.simulate.nothing"
    )
    with pytest.raises(
        LaunchError, match=r"job to compare with failed; client . said: .*nothing"
    ):
        run_probe(parse_shape("1x1+1x1"), ["barrier"], [8], 1)
