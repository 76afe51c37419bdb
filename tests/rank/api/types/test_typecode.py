from __future__ import annotations

import numpy as np
import pytest

from impi.protocol.semantics.values.basic import BASICS
from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.api.types import datatypes as D
from impi.rank.api.types.typecode import CODES, char_of, code_of, str_of

OF_PEP_3118 = {
    "Ze": 4,
    "Zf": 8,
    "Zd": 16,
    "Zg": 32,
    "E": 4,
    "u": 2,
    "1u": 2,
    "w": 4,
    "1w": 4,
    "s": 1,
    "1s": 1,
}
OF_NO_LENGTH = {"S": 1, "U": 4, "a": 1}
OUR_OWN = {"c4": 4, "c32": 32, "f16": 16, "i16": 16}


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_stands_for_a_type_of_its_size(code: str) -> None:
    size = {**OF_PEP_3118, **OF_NO_LENGTH, **OUR_OWN}.get(code) or np.dtype(
        code
    ).itemsize
    assert NAMED[CODES[code]].size == size


@pytest.mark.parametrize("char", "?bhilqBHILQefdgFDG")
def test_characters_of_numpy(char: str) -> None:
    assert NAMED[CODES[char]].dtype == np.dtype(char)


@pytest.mark.parametrize("name", sorted(set(BASICS) - {"BFLOAT16_T"}))
def test_codes_lead_back_to_an_equal_type(name: str) -> None:
    code = code_of(name)
    if name in ("INTEGER16", "LOGICAL16"):
        assert str_of(name) == "i16"
        return
    assert code is not None
    back = CODES[code]
    assert (char_of(back), str_of(back)) == (char_of(name), str_of(name))
    assert NAMED[back].size == NAMED[name].size


def test_types_without_a_code() -> None:
    for name in ("INT_INT", "BFLOAT16_T", "no such type"):
        assert char_of(name) is str_of(name) is None


def test_what_programs_see() -> None:
    assert (D.DOUBLE.typechar, D.DOUBLE.typestr, D.DOUBLE.tocode()) == ("d", "f8", "d")
    assert (D.INT32_T.typechar, D.INT32_T.typestr, D.INT32_T.tocode()) == (
        "i",
        "i4",
        "i4",
    )
    assert (D.INT_INT.typechar, D.INT_INT.typestr) == ("V", "V8")
    assert D.INT.Dup().tocode() == "i"
    assert D.DATATYPE_NULL.typechar == D.DATATYPE_NULL.typestr == ""
    assert D.Datatype.fromcode("f8") is D.DOUBLE
    for call in (
        lambda: D.Datatype.fromcode("zz"),
        D.INT_INT.tocode,
        D.DATATYPE_NULL.tocode,
    ):
        with pytest.raises(ValueError, match="cannot map"):
            call()
