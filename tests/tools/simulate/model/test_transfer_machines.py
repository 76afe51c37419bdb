"""Real transfer machines, wired by a fabric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulate_world import driver

from impi.base.errors import UsageError
from impi.protocol.collectives import Send
from impi.tools.simulate.drive import Deadlock
from impi.tools.simulate.model.shape import parse_shape, spread
from impi.tools.simulate.model.transfer_machines import MOST_PROCS
from impi.tools.simulate.model.values import Extent


@pytest.mark.parametrize("transport", ["counted", "packets"])
@pytest.mark.parametrize("shape", ["1x1+1x1", "1x2"])
def test_what_nobody_receives_is_an_assertion(shape: str, transport: Any) -> None:
    def shout(rank: int) -> Iterator[Any]:
        if rank == 0:
            yield [Send(1, Extent(8), 7)]

    with pytest.raises(Deadlock, match="1 messages were sent and never received"):
        driver(parse_shape(shape), transport=transport).run(shout)  # type: ignore[arg-type]


def test_of_more_processes_there_are_too_many_machines() -> None:
    driver(spread(MOST_PROCS, 2, 32), transport="packets")
    with pytest.raises(UsageError, match="513 processes are too many; 512 can be"):
        driver(spread(MOST_PROCS + 1, 2, 32), transport="packets")
