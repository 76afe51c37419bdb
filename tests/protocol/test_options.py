"""The table of options beside the records that have their values."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.base.records import names_of
from impi.protocol.options import (
    OPTIONS,
    ClientOptions,
    Common,
    Offer,
    Placement,
    Reach,
    Running,
    ServerOptions,
)
from impi.protocol.settings import SPIN, made, options_of


def test_every_option_has_a_field_and_every_field_of_an_offer_an_option() -> None:
    records = (Common, ServerOptions, Placement, Reach, Running, Offer)
    fields = {name for record in records for name in names_of(record)}
    assert {
        option.name for option in OPTIONS.values() if option.side != "procs"
    } <= fields
    assert set(names_of(Offer)) <= set(OPTIONS)


def test_values_of_parts_are_given_by_their_own_names() -> None:
    options = made(
        ClientOptions,
        rank=0,
        server="h:1",
        argv=("p",),
        vendor="mpich",
        lazy=True,
        datalen=7,
    )
    assert (options.placement.vendor, options.reach.lazy, options.offer.datalen) == (
        "mpich",
        True,
        7,
    )
    assert (options.common, options.running) == (Common(), Running())
    assert {option.name for option in options_of(ClientOptions)} >= {
        "interface",
        "vendor",
        "lazy",
        "label",
        "datalen",
    }
    with pytest.raises(TypeError):
        made(ServerOptions, vendor="mpich")


def test_defaults_are_in_their_ranges() -> None:
    for option in OPTIONS.values():
        if option.name != "count":  # it has none: without it there is no server
            option.check(option.default)


@pytest.mark.parametrize("name", ["datalen", "hiwater", "tag_ub", "procs", "verify"])
def test_a_value_out_of_its_range_is_refused_with_the_name_that_users_know(
    name: str,
) -> None:
    option = OPTIONS[name]
    assert option.range is not None
    with pytest.raises(
        UsageError,
        match=f"^{option.title} is {option.range[0] - 1}, but must be {option.range[0]} to",
    ):
        option.read(str(option.range[0] - 1))


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert SPIN.of({"IMPI_SPIN": ""}) is SPIN.of({}) is None
    assert SPIN.of({"IMPI_SPIN": "0.5"}) == 0.5
