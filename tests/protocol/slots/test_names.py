"""Names of LCOs and slots: what they mean survives the octets, and keys of slots are their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.slots.names import (
    KEY_SIZE,
    NAME_SIZE,
    SLOT_NAME_SIZE,
    Name,
    parse,
    slot_key,
)

NUMBERS = st.integers(0, 2**64 - 1)
NAMES = st.builds(
    Name,
    st.binary(min_size=16, max_size=16),
    NUMBERS,
    NUMBERS,
    st.binary(min_size=KEY_SIZE, max_size=KEY_SIZE),
)
SLOTS = st.integers(0, 2**32 - 1)


@given(NAMES, SLOTS)
def test_octets_mean_the_name(name: Name, slot: int) -> None:
    assert len(name.octets()) == NAME_SIZE and parse(name.octets()) == name
    of_slot = name.of_slot(slot)
    assert (
        len(of_slot.octets()) == SLOT_NAME_SIZE and parse(of_slot.octets()) == of_slot
    )
    assert of_slot.key == slot_key(name.key, slot) != name.key


@given(st.binary(max_size=80))
def test_other_octets_are_no_name(octets: bytes) -> None:
    with pytest.raises(ValueError, match="not a name of an LCO or of a slot"):
        parse(octets)


def test_keys_of_slots_differ() -> None:
    key = bytes(range(KEY_SIZE))
    keys = {slot_key(key, slot) for slot in range(1000)}
    assert len(keys) == 1000
    assert {len(each) for each in keys} == {KEY_SIZE}
