"""Labs are found by the labels of their parts."""

from __future__ import annotations

from impi.lab.backends.lifecycle.lab_labels import full, labs_of, ours


def test_parts_with_one_label_are_one_lab() -> None:
    one, other = {"lab": "b", "run": "r"}, {"lab": "a"}
    found = labs_of(
        [("container", "x", one), ("network", "y", one), ("container", "z", other)]
    )
    assert [(seen.lab, seen.parts) for seen in found] == [
        ("a", ("container z",)),
        ("b", ("container x", "network y")),
    ]
    assert found[1].labels == one


def test_labels_of_others_are_left_out() -> None:
    assert ours({**full({"lab": "a", "run": "r"}), "maintainer": "somebody"}) == {
        "lab": "a",
        "run": "r",
    }
    assert ours(None) == {}
