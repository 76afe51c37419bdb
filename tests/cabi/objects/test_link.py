"""Constants of the ABI: numbers, or addresses of the library's data."""

from __future__ import annotations

import linked_world as world
import pytest

from impi.cabi.objects import link
from impi.cabi.tables import abi_tables


def test_a_constant_is_its_number_or_the_default():
    assert link.constant("SUCCESS", 7) == 0
    assert link.constant("TAG_UB") == world.ABI.constants["TAG_UB"]
    assert link.constant("NO_SUCH_CONSTANT", 7) == 7


def test_a_constant_may_be_the_address_of_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(link, "abi", link.abi)
    monkeypatch.setattr(link, "symbols", {})
    openmpi = abi_tables.abi("openmpi")
    link.know(openmpi)
    name = openmpi.constants["COMM_WORLD"]
    assert (
        link.constant("COMM_WORLD")
        == link.symbols[str(name)]
        == 1000 + openmpi.symbols.index(str(name))
    )
