"""Names of LCOs and slots as values of a program."""

from __future__ import annotations

import pickle

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.protocol.slots.names import NAME_SIZE, Name
from impi.rank.api.comms.lcos.names import CNAME, LcoName, SlotName, names_of_lcos
from impi.rank.api.constants import ERR_PORT

NAMES = [Name(b"\0" * 15 + bytes([n]), 4711, n, b"k" * 16) for n in range(3)]


def test_what_a_name_means_and_shows() -> None:
    name, slot = LcoName(NAMES[1].octets()), SlotName(NAMES[1].of_slot(7).octets())
    assert (name.meaning(), slot.meaning()) == (NAMES[1], NAMES[1].of_slot(7))
    # No octets: they open it
    assert str(name) == repr(name) == "<LcoName of LCO 1 of process 4711>"
    assert str(slot) == "<SlotName of LCO 1 of process 4711, receive slot 7>"
    assert pickle.loads(pickle.dumps(name)) == name


@pytest.mark.parametrize(
    "octets",
    [b"", b"x" * NAME_SIZE, NAMES[0].of_slot(1).octets()],
    ids=["none", "bad", "slot's"],
)
def test_what_is_no_name(octets: bytes) -> None:
    for call in (lambda: LcoName(octets), lambda: names_of_lcos([octets])):
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == ERR_PORT


def test_several_names_in_one_buffer() -> None:
    rows = [name.octets() for name in NAMES]
    assert names_of_lcos(bytearray(b"".join(rows))) == names_of_lcos(rows) == NAMES
    with pytest.raises(MPIException, match="are not names of LCOs") as caught:
        names_of_lcos(rows[0] + b"x")
    assert caught.value == ERR_PORT


def test_the_datatype_of_a_name() -> None:
    assert (CNAME.size, CNAME.extent, CNAME.Get_name()) == (
        NAME_SIZE,
        NAME_SIZE,
        "MPI_CNAME",
    )
