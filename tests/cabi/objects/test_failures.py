"""Failures of calls as codes of the ABI."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from cabi_programs import PROGRAMS, ROOT
from linked_world import ABI, MPI, address, ffi, number

from impi.cabi.objects import failures, handle_tables
from impi.cabi.objects.failures import failed, incoming, lacking, outgoing
from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import LAST_PREDEFINED, error


@pytest.fixture
def handled(monkeypatch):
    """The failures that error handlers have got, with the owner of the handler."""
    found = []
    monkeypatch.setattr(
        failures, "handle", lambda failure, owner: found.append((failure, owner))
    )
    return found


def test_classes_there_and_back():
    for name, (ours, _) in ERROR_CLASSES.items():
        if name in ABI.constants:
            assert outgoing(ours) == number(name), name
            assert outgoing(incoming(number(name))) == number(name), name


def test_added_codes_lie_above_the_last_one_of_the_abi():
    assert outgoing(incoming(number("ERR_LASTCODE") + 3)) == number("ERR_LASTCODE") + 3
    assert outgoing(LAST_PREDEFINED + 3) == number("ERR_LASTCODE") + 3


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (error("ERR_RANK", "there is no rank 9"), "ERR_RANK"),
        (ValueError("wrong"), "ERR_ARG"),
        (NotImplementedError("never"), "ERR_UNSUPPORTED_OPERATION"),
    ],
)
def test_a_failure_is_a_code_after_its_error_handler(handled, failure, name):
    about = (handle_tables.comms, number("COMM_WORLD"))
    assert failed(failure, "Send", about) == number(name)
    [(told, owner)] = handled
    assert told.call == "Send"
    assert owner is MPI.COMM_WORLD._owner


def test_a_call_of_a_null_handle_is_an_error_of_its_kind(handled):
    null = handle_tables.comms[number("COMM_NULL")]
    failure = AttributeError("no such thing", name="Isend", obj=null)
    assert failed(
        failure, "Isend", (handle_tables.comms, number("COMM_NULL"))
    ) == number("ERR_COMM")
    assert "it has no MPI_Isend" in str(handled[0][0])


def test_a_mistake_of_ours_is_no_code():
    with pytest.raises(ZeroDivisionError):
        failed(ZeroDivisionError(), "Send", None)


def test_what_impi_lacks(handled):
    assert lacking("MPI_Nothing", None) == number("ERR_UNSUPPORTED_OPERATION")
    assert "impi has no MPI_Nothing yet" in str(handled[0][0])


def test_error_handlers_get_handle_and_code():
    told = []
    function = ffi.callback(
        "void(MPI_Comm *, int *)", lambda comm, code: told.append((comm[0], code[0]))
    )
    made = failures.handler("Comm", address(function))
    call = made._state.function
    call(MPI.COMM_SELF, MPI.ERR_RANK)
    assert told == [(number("COMM_SELF"), number("ERR_RANK"))]
    of_fortran = ffi.callback(
        "void(int *, int *)", lambda comm, code: told.append((comm[0], code[0]))
    )
    call = failures.handler("Comm", address(of_fortran))._state.function
    call.fortran = True
    call(MPI.COMM_SELF, MPI.ERR_RANK)
    assert told[1] == (-number("COMM_SELF"), number("ERR_RANK"))


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("mode", ["", "--stand-in"])
def test_a_handler_may_throw_or_jump_away(run_job, tmp_path, mode):
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("there is no C++ compiler")
    program, prefix = str(tmp_path / "throws"), ROOT / ".mpi" / "mpich"
    argv = [
        compiler,
        f"-I{prefix}/include",
        "-o",
        program,
        str(PROGRAMS / "throws.cpp"),
    ]
    subprocess.run(
        [*argv, f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lmpi"], check=True
    )
    done = run_job([program], ["mpich:1", "pure:1"], options={0: mode.split()})
    assert done.codes == [0, 0, 0], done
    expected = [
        f"rank {rank}: {told}"
        for rank in range(2)
        for told in ("jumped, sum 1", "thrown")
    ]
    assert sorted(done.out.splitlines()) == expected
