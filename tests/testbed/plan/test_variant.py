"""Variants: their settings, and what these change of a case's options."""

from __future__ import annotations

import itertools

import pytest

from impi.errors import UsageError
from impi.testbed.plan.variant import SETTINGS, options_of, parse_variant


def test_every_combination_of_settings_has_one_spelling():
    free = {"net": ("wan", "delay:20ms+loss:1%")}
    choices = [[None, *(setting.values or free[name])] for name, setting in SETTINGS.items()]
    for chosen in itertools.product(*choices):
        settings = {name: value for name, value in zip(SETTINGS, chosen, strict=True) if value is not None}
        text = ",".join(f"{name}={value}" for name, value in settings.items())
        assert parse_variant(text) == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", "there is no setting 'colour'"),
        ("auth=none", "auth has no value 'none'; it has key"),
        ("net=fast", "'fast' is no link; write lan, wan, lossy, slow, or settings such as delay:20ms"),
        ("net=delay:20", "'20' is not a time"),
        ("form=native,auth=key", "write 'auth=key,form=native'"),
        ("auth=key,auth=key", "write 'auth=key'"),
    ],
)
def test_what_is_no_variant_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_variant(text)


def test_the_native_form_takes_external32_away():
    assert options_of({"form": "native"}, ("--external32", "--retries", "2")) == ("--retries", "2")
