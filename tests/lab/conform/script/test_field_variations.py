"""Values of fields: each field of 3.5 is varied by a test, and each word stands for its list."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.job.deviations import _FIELDS, _USED
from impi.lab.conform.script.field_variations import FIELDS, variations
from impi.lab.conform.script.script_files import all_tests, read_test


def test_values_are_those_at_which_another_size_or_sign_shows() -> None:
    assert variations("values of srqid") == (
        *(0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
    )
    assert variations("values of tag") == (0, -1, 2**31 - 1, -(2**31))


def test_free_fields_come_one_at_a_time_or_all_together() -> None:
    alone = variations("free fields of SYNCACK")
    assert alone is not None
    assert "cid=4294967296" in alone
    assert "tag=-1" in alone
    assert not [word for word in alone if "rqid" in str(word)]
    together = variations("all free fields of FINI")
    assert together is not None
    assert len(together) == 6
    assert {word.partition("=")[0] for word in str(together[0]).split()} == set(FIELDS)


@pytest.mark.parametrize("kind", _USED)
def test_free_fields_are_those_that_table_3_1_leaves_out(kind: str) -> None:
    told = {"len" if name == "pk_len" else name[3:] for name in _FIELDS} & set(FIELDS)
    used = {name[3:] for name in _USED[kind]}
    found = variations(f"free fields of {kind}")
    assert found is not None
    free = {str(word).partition("=")[0] for word in found}
    assert free & told == told - used


def test_other_words_stand_for_themselves() -> None:
    assert variations("DATA") is None


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("values of pid", "no field 'pid'"),
        ("free fields of ACK", "no packet type 'ACK'"),
    ],
)
def test_words_without_a_list(tmp_path: Path, word: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        variations(word)
    path = tmp_path / "a.toml"
    path.write_text(
        f'title = "t"\nsteps = "S0 -> I0: DATA tag={{x}}"\n[each]\nx = ["{word}"]\n'
    )
    with pytest.raises(UsageError, match=f"each.x: .*{told}"):
        read_test(path, "3.5/a")


def test_every_field_is_varied_by_a_test() -> None:
    """Some test sends each field with each of its values."""
    words = {
        f"{key}={value}"
        for test in all_tests()
        for names in ({**v} for v in test.variants(5))
        for line in test.lines(
            {**test.setup.usual_names(), **test.setup.proc_names(), **names}
        )
        for key, equals, value in (word.partition("=") for word in line.split())
        if equals
    }
    for name, field in FIELDS.items():
        wanted = {f"{name}={value}" for value in field.values if value}
        assert wanted <= words, name
