"""Variants: their settings, and what these change of a case's options."""

from __future__ import annotations

import itertools

import pytest

from impi.base.errors import UsageError
from impi.lab.plan.variant import SETTINGS, options_of, parse_variant, variables_of

FREE = {"net": ("wan", "delay:20ms+loss:1%"), "amount": ("20000", "10s")}
VALUES = {
    name: tuple(setting.values or FREE[name]) for name, setting in SETTINGS.items()
}


def is_spelled(settings: dict[str, str]) -> bool:
    ordered = {name: settings[name] for name in SETTINGS if name in settings}
    return (
        parse_variant(",".join(f"{name}={value}" for name, value in ordered.items()))
        == settings
    )


def test_every_choice_of_settings_has_one_spelling():
    for there in itertools.product((False, True), repeat=len(SETTINGS)):
        assert is_spelled(
            {
                name: VALUES[name][-1]
                for name, given in zip(SETTINGS, there, strict=True)
                if given
            }
        )


def test_all_values_of_every_two_settings_have_one_spelling_alone_and_beside_all_others():
    others = {name: values[0] for name, values in VALUES.items()}
    for one, other in itertools.combinations(SETTINGS, 2):
        for first, second in itertools.product(VALUES[one], VALUES[other]):
            pair = {one: first, other: second}
            assert is_spelled(pair)
            assert is_spelled(others | pair)


def test_a_setting_may_be_a_variable_of_impirun():
    assert variables_of({"spin": "0", "form": "native"}) == {"IMPI_SPIN": "0"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", "there is no setting 'colour'"),
        ("auth=none", "auth has no value 'none'; it has key"),
        (
            "net=fast",
            "'fast' is not a link; write lan, wan, lossy, slow, or settings such as delay:20ms",
        ),
        ("net=delay:20", "'20' is not a time"),
        ("form=native,auth=key", "write 'auth=key,form=native'"),
        ("auth=key,auth=key", "write 'auth=key'"),
    ],
)
def test_what_is_no_variant_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_variant(text)


def test_the_native_form_takes_external32_away():
    assert options_of({"form": "native"}, ("--external32", "--retries", "2")) == (
        "--retries",
        "2",
    )
