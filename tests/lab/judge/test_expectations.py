from __future__ import annotations

import datetime

import pytest

from impi.base.errors import UsageError
from impi.base.manifests import manifest, vendors
from impi.base.records import replaced
from impi.lab.judge.expectations import load
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import parse_cell

pytestmark = pytest.mark.usefixtures("three_vendors")

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
GOOD = {
    "cells": f'"{RING}"',
    "result": '"fail"',
    "issue": '"https://tracker.example/41"',
    "until": "2999-03-01",
}


def row(**keys: str | None) -> str:
    values = {
        key: value for key, value in {**GOOD, **keys}.items() if value is not None
    }
    return "[[expect]]\n" + "".join(
        f"{key} = {value}\n" for key, value in values.items()
    )


@pytest.fixture
def read(tmp_path):
    def read(*rows: str):
        path = tmp_path / "e.toml"
        path.write_text("\n".join(rows))
        return load(path)

    return read


def verdict(
    outcome="fail",
    phase="case",
    reason="end.checks: expected 4 checks of rank 3, but 2 were done",
) -> Verdict:
    return Verdict(outcome=outcome, phase=phase, reason=reason)


def test_a_row(read):
    (found,) = read(row(phase='"case"', reason='"rank 3"', count="1")).rows
    assert (found.number, found.cells, found.result, found.phase) == (
        1,
        (RING,),
        "fail",
        "case",
    )
    assert (found.until, found.issue, found.count) == (
        datetime.date(2999, 3, 1),
        "https://tracker.example/41",
        1,
    )
    assert str(found) == f"row 1 ({RING})"


def test_an_empty_file_has_no_rows(read):
    assert read("# nothing is known to fail\n").rows == ()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cells": None}, "it has no cells; add cells"),
        ({"result": None}, "it has no result"),
        ({"issue": None}, "it has no issue"),
        ({"until": None}, "it has no until"),
        ({"colour": '"red"'}, "no key 'colour'; there are cells, result"),
        ({"cells": "7"}, "cells is not a selector"),
        ({"cells": "[]"}, "cells is not a selector"),
        ({"cells": '""'}, "write CASE/PARTIES/TOPOLOGY"),
        ({"cells": '"@fast/pure+mpich"'}, "no case has the tag 'fast'"),
        ({"cells": '"p2p.ring"'}, "leaves every vendor open"),
        ({"cells": '"*/*/1x2+1x2"'}, "leaves every vendor open"),
        ({"cells": '"coll.*/*+*/**"'}, "leaves every vendor open"),
        ({"cells": '"coll.*/m*+o*/**"'}, "leaves every vendor open"),
        ({"cells": f'["{RING}", "coll.*/**"]'}, "leaves every vendor open"),
        (
            {"result": '"error"'},
            "result = 'error' is unknown; write one of fail, timeout, red, flaky, sometimes",
        ),
        ({"result": '"pass"'}, "is unknown"),
        ({"phase": '"sleep"'}, "phase = 'sleep' is unknown"),
        ({"reason": '"("'}, "not a regular expression"),
        ({"reason": "3"}, "reason = 3 is not text"),
        ({"count": "0"}, "count = 0 is not a number of cells"),
        ({"count": "true"}, "count = True"),
        ({"issue": '"later"'}, "issue = 'later' is not a link"),
        ({"until": '"2027-03-01"'}, "write one without quotes"),
        ({"until": "2027-03-01T10:00:00"}, "is not a date"),
    ],
)
def test_a_wrong_row_is_one_sentence_with_its_place(read, tmp_path, keys, words):
    with pytest.raises(UsageError) as caught:
        read(row(), row(**keys))
    text = str(caught.value)
    assert text.startswith(f"expectations {tmp_path / 'e.toml'}, row 2: ")
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "text", ["[[expect", "a = 1", "expect = 3", "expect = [3]", '[expect]\ncells = "x"']
)
def test_a_wrong_file_is_one_sentence(read, tmp_path, text):
    with pytest.raises(UsageError, match=str(tmp_path / "e.toml")):
        read(text)


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "cells",
    ["coll.*/*+openmpi/**", "*/openmpi+*", "@collective/pure+*/1x2+1x2", "/4f1c09a"],
)
def test_one_vendor_is_enough(read, cells):
    assert read(row(cells=f'"{cells}"')).rows


@pytest.mark.parametrize("outcome", ["fail", "timeout", "flaky", "error"])
@pytest.mark.parametrize("result", ["fail", "timeout", "flaky"])
def test_a_row_explains_one_outcome_only(read, result, outcome):
    found = read(row(result=f'"{result}"')).find(parse_cell(RING), verdict(outcome))
    assert (found is not None) == (result == outcome)


@pytest.mark.parametrize(
    ("outcome", "explained"),
    [
        ("fail", True),
        ("timeout", True),
        ("flaky", True),
        ("error", False),
        ("pass", False),
    ],
)
def test_what_fails_by_chance_has_a_known_cause_and_may_pass(read, outcome, explained):
    with pytest.raises(UsageError, match="sometimes needs a reason"):
        read(row(result='"sometimes"'))
    rows = read(row(result='"sometimes"', reason='"rank 3"'))
    assert (rows.find(parse_cell(RING), verdict(outcome)) is not None) == explained
    assert (
        read(row(result='"sometimes"', reason='"rank 4"')).find(
            parse_cell(RING), verdict(outcome)
        )
        is None
    )


@pytest.mark.parametrize(
    ("keys", "explained"),
    [
        ({"phase": '"case"'}, True),
        ({"phase": '"fini"'}, False),
        ({"reason": "'end\\.checks: .*rank 3'"}, True),
        ({"reason": '"rank 4"'}, False),
        ({"cells": '"*/*+openmpi"'}, True),
        ({"cells": '"*/openmpi+*"'}, False),
        ({"cells": f'["{RING.replace("ring", "any")}", "{RING}"]'}, True),
    ],
)
def test_phase_reason_and_cell_must_fit(read, keys, explained):
    assert (
        read(row(**keys)).find(parse_cell(RING), verdict()) is not None
    ) == explained


def test_a_pass_is_found_too_unless_it_was_flaky(read):
    passed = Verdict(outcome="pass")
    assert (
        read(row(result='"timeout"', phase='"init"')).find(parse_cell(RING), passed)
        is not None
    )
    assert read(row(result='"flaky"')).find(parse_cell(RING), passed) is None


def test_the_first_row_that_fits(read):
    rows = read(
        row(result='"timeout"'), row(phase='"fini"'), row(), row(reason='"rank 3"')
    )
    found = rows.find(parse_cell(RING), verdict())
    assert found is not None
    assert found.number == 3


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        (RING, 1),
        ("p2p.ring/*+openmpi/1x2+1x2", 3),
        ("p2p.ring/mpich+openmpi/1x4+1x4", 1),  # in no tier
        ("p2p.ring/*+mpich@debian/2x2+2x2", 3),
        ("p2p.ring/*+mpich+pure/1x1+1x1+1x1", 3),
        ("p2p.ring/*+mpich/1x1+1x1+1x1", 0),
        ("p2p.ring/mpich+lam/1x4+1x4", 0),
        ("p2p.rong/mpich+openmpi", 0),
    ],
)
def test_the_cells_that_a_row_names(read, cells, count):
    assert len(read(row(cells=f'"{cells}"')).rows[0].named()) == count


def test_a_row_names_cells_of_the_vendors_known_now(read, know_vendors):
    (ring,) = read(row(cells='"p2p.ring/*+openmpi/*"')).rows
    assert "fourth" not in {cell.vendors[0] for cell in ring.named()}
    know_vendors(*vendors("core"), replaced(manifest("mpich"), name="fourth"))
    assert "fourth" in {cell.vendors[0] for cell in ring.named()}
