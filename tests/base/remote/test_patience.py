"""Time limits are those of a machine of one's own; a look tells who waited for a processor."""

from __future__ import annotations

import pytest

from impi.base.remote.patience import MOST_STRETCH, Patience, crowding


@pytest.mark.parametrize(
    ("own", "others", "cores", "factor"),
    [
        (4, 0, 2, 1.0),
        (2, 0, 8, 1.0),
        (4, 4, 2, 2.0),
        (4, 30, 2, 8.5),
        (2, 6, 8, 1.0),
        (4, 1000, 2, MOST_STRETCH),
    ],
)
def test_crowding(own, others, cores, factor):
    assert crowding(own, others, cores) == factor


def test_time_passes_slower_in_a_crowd():
    now, threads = [0.0], [4]
    patience = Patience(
        10.0, 4, clock=lambda: now[0], threads=lambda: threads[0], cores=2
    )
    now[0] = 9.0
    assert not patience.ended()
    threads[0] = 40
    now[0] = 18.0
    assert not patience.ended()
    assert patience.left == pytest.approx(0.1)
    now[0] = 20.0
    assert patience.ended()
    assert patience.waited == 20.0
    patience.renew(5.0)
    assert patience.waited == 0.0
    assert not patience.ended()
    patience.hurry(1.0)
    patience.hurry(3.0)
    assert patience.left == 1.0
