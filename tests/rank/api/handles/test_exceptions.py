from __future__ import annotations

import pytest

from impi.rank.api.constants import ERR_LASTCODE, ERR_TAG, SUCCESS
from impi.rank.api.handles import exceptions as E


def test_the_names_of_mpi4py() -> None:
    failure = E.Exception(ERR_TAG)
    assert failure.Get_error_class() == E.Get_error_class(ERR_TAG) == ERR_TAG
    assert str(failure) == failure.error_string == E.Get_error_string(ERR_TAG)
    assert repr(failure) == f"MPI.Exception({ERR_TAG})"
    assert not E.Exception(SUCCESS)


def test_classes_of_ones_own() -> None:
    errorclass = E.Add_error_class()
    code = E.Add_error_code(errorclass)
    try:
        assert code > errorclass > ERR_LASTCODE
        E.Add_error_string(code, "boiled over")
        assert str(E.Exception(code)) == "boiled over"
        assert E.Exception(code).error_class == errorclass
        E.Remove_error_string(code)
    finally:
        E.Remove_error_code(code)
        E.Remove_error_class(errorclass)
    with pytest.raises(E.Exception):
        E.Get_error_string(code)
