from __future__ import annotations

import pickle

import pytest

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import (
    LAST_PREDEFINED,
    ErrorTable,
    MPIException,
    error,
)


def test_every_class_is_its_own_and_says_what_it_means() -> None:
    table = ErrorTable()
    for name, (number, text) in ERROR_CLASSES.items():
        assert table.class_of(number) == number
        assert table.text_of(number) == f"MPI_{name}: {text}"


def test_the_exception_compares_as_its_code() -> None:
    failure = error("ERR_TRUNCATE", "12 octets came for 8")
    code = ERROR_CLASSES["ERR_TRUNCATE"][0]
    assert failure == code
    assert code == failure
    assert failure != code + 1
    assert failure < code + 1
    assert failure >= code
    assert hash(failure) == hash(code)
    assert isinstance(failure, RuntimeError)
    assert failure.Get_error_class() == failure.error_code == code
    assert str(failure) == "MPI_ERR_TRUNCATE: message truncated: 12 octets came for 8"


def test_no_error_is_false() -> None:
    assert not MPIException()
    assert MPIException(3)
    assert MPIException(-5) == ERROR_CLASSES["ERR_UNKNOWN"][0]


def test_it_survives_a_pickle() -> None:
    copy = pickle.loads(pickle.dumps(error("ERR_RANK", "rank 9 of 2")))
    assert copy == ERROR_CLASSES["ERR_RANK"][0]
    assert "rank 9 of 2" in str(copy)


def test_classes_codes_and_strings_can_be_added_and_removed() -> None:
    table = ErrorTable()
    errorclass = table.add_class()
    code = table.add_code(errorclass)
    assert LAST_PREDEFINED < errorclass < code == table.last_used
    assert table.class_of(code) == errorclass
    assert table.text_of(code) == ""
    table.set_text(code, "it leaks")
    assert table.text_of(code) == "it leaks"
    table.remove_text(code)
    with pytest.raises(MPIException):
        table.remove_class(errorclass)
    table.remove_code(code)
    table.remove_class(errorclass)
    assert table.last_used == LAST_PREDEFINED


@pytest.mark.parametrize(
    "verb", ["set_text", "remove_text", "remove_class", "remove_code"]
)
def test_predefined_ones_cannot_be_changed(verb: str) -> None:
    arguments = (1, "x") if verb == "set_text" else (1,)
    with pytest.raises(MPIException, match="predefined"):
        getattr(ErrorTable(), verb)(*arguments)


def test_unknown_codes_are_refused() -> None:
    with pytest.raises(MPIException, match="neither"):
        ErrorTable().class_of(LAST_PREDEFINED + 50)
