"""The calls of Fortran libraries of MPICH's family, played by C."""

from __future__ import annotations

import pytest
from linked_world import MPI, address, ffi, number

from impi.cabi.calls import attribute_calls, callbacks, fortran_calls
from impi.cabi.objects import failures
from impi.cabi.objects.handle_tables import datatypes, errhandlers, ops
from impi.cabi.tables.abi import OWNERS
from impi.cabi.text.language_stubs import DECLARED


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize(
    "clients", [("pure:1", "pure:1"), ("mpich:1", "pure:1")], ids="+".join
)
def test_helpers_of_fortran_libraries(compiled, run_job, clients):
    program = compiled("helpers", "mpich", "-Wno-cast-function-type")
    done = run_job([program], list(clients))
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(2)]


@pytest.fixture
def key():
    return attribute_calls.keyval("Type", 0, 0, 0)


def test_an_attribute_is_an_integer_or_a_pointer(key):
    owner = list(OWNERS).index("Type")
    handle = datatypes.put(MPI.INT.Dup())
    place, flag = ffi.new("intptr_t *"), ffi.new("int *")
    for kind in (3, 0):
        assert fortran_calls.put(owner, handle, key, 41, kind) == 0
        assert fortran_calls.get(owner, handle, key, address(place), flag, kind) == 0
        assert (place[0], flag[0]) == (41, 1)


def test_a_wrong_handle_is_a_code(key, monkeypatch):
    monkeypatch.setattr(failures, "handle", lambda *_: None)
    assert fortran_calls.put(1, 123456789, key, 1, 0) == number("ERR_TYPE")


def test_only_keys_that_are_ours_have_functions_here(key):
    assert fortran_calls.functions(key, 1, 2) == 1
    assert key in attribute_calls.callers
    assert fortran_calls.functions(987654, 1, 2) == 0
    del attribute_calls.callers[key]


def test_functions_of_operations_and_error_handlers_become_fortrans():
    op = callbacks.operation(0, True, False)
    assert fortran_calls.operation(ops.put(op)) == 0
    assert op._state.function.fortran
    handler = failures.handler("Comm", 0)
    assert fortran_calls.errhandler(errhandlers.put(handler)) == 0
    assert handler._state.function.fortran


def test_every_function_that_c_declares_is_lent():
    assert all(f"int {name}(" in DECLARED for name in fortran_calls.LENT)
    assert DECLARED.count("extern") == len(fortran_calls.LENT)
