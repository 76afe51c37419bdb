"""Demands of the ABI, by examples that the standard and other implementations agree on."""

from __future__ import annotations

from impi.tools.abi import demands


def test_functions() -> None:
    names = demands.functions()
    assert {
        "MPI_Send",
        "MPI_Send_c",
        "MPI_Abi_get_version",
        "MPI_Comm_toint",
        "MPI_Type_fromint",
    } <= names
    assert {
        "MPI_T_init_thread",
        "MPI_Pcontrol",
        "MPI_Wtime",
        "MPI_Status_set_error",
    } <= names
    # Neither MPI_Fint nor what MPI 3.1 and earlier deprecated is in the ABI (MPI 5.0, 20.2.1).
    assert (
        not {
            "MPI_Comm_c2f",
            "MPI_Status_f2c",
            "MPI_Address",
            "MPI_Type_ub",
            "MPI_Attr_get",
        }
        & names
    )
    assert len(names) == 657


def test_handles() -> None:
    handles = demands.handles()
    expected = {
        "MPI_COMM_WORLD": 0x101,
        "MPI_INT": 0x209,
        "MPI_SUM": 0x21,
        "MPI_ERRORS_RETURN": 0x143,
    }
    assert {name: handles[name] for name in expected} == expected
    assert "MPI_ANY_TAG" not in handles


def test_constants() -> None:
    constants = demands.constants()
    # Those that drafts had in another order, by the table of the standard's own text (A.1.1).
    expected = {
        "MPI_SEEK_CUR": 401,
        "MPI_SEEK_END": 402,
        "MPI_SEEK_SET": 403,
        "MPI_APPNUM": 505,
        "MPI_LASTUSEDCODE": 506,
        "MPI_UNIVERSE_SIZE": 507,
        "MPI_ANY_TAG": -2,
        "MPI_PROC_NULL": -3,
        "MPI_IN_PLACE": 1,
        "MPI_ERR_ABI": 62,
    }
    assert {name: constants[name] for name in expected} == expected
    assert not {"MPI_COMM_WORLD", "MPI_VERSION", "MPI_DUP_FN"} & constants.keys()


def test_the_version_of_mpi_may_be_a_later_one() -> None:
    assert demands.versions() == {"MPI_ABI_VERSION": 1, "MPI_ABI_SUBVERSION": 0}


def test_layout() -> None:
    assert demands.layout()["sizeof(MPI_Status)"] == 32
    assert demands.layout()["offsetof(MPI_Status, MPI_ERROR)"] == 8
    assert demands.layout()["sizeof(MPI_Win)"] == 8
