"""Symbols besides MPI's functions that a family's libraries for other languages find."""

from __future__ import annotations

import re

import pytest

from impi.cabi.tables import abi_tables
from impi.cabi.tables.abi import OWNERS
from impi.cabi.text.language_stubs import stubs


def text(name, *, front=False):
    return "\n".join(stubs(abi_tables.abi(name), front=front))


@pytest.mark.parametrize("name", ["standard", "mpich", "openmpi"])
def test_fortran_sets_and_gets_attributes_by_functions_of_its_own(name):
    found = text(name)
    for owner, (kind, type_name) in enumerate(OWNERS.items()):
        assert (
            f"int MPII_{kind}_set_attr({type_name} object, int key, void *value, int type)"
            in found
        )
        assert f"impi_py_fortran_get({owner}, (intptr_t)object, key," in found
    assert "IMPI_FROM_LIBRARY" not in found


def test_in_front_mode_datatypes_are_the_librarys():
    found = text("mpich", front=True)
    assert "MPII_Type_set_attr" not in found
    assert (
        'dlsym(RTLD_NEXT, "MPII_Comm_set_attr"); return behind(object, key, value, type); }'
        in found
    )
    assert "mpipriv1_" not in found
    assert "MPII_" not in text("openmpi", front=True)


def test_the_inside_of_intel_mpi_is_that_of_its_abi_alone():
    found = text("mpich")
    assert "char mpipriv1_[28] __attribute__((aligned(16)));" in found
    places = re.findall(r"^void \*(\w+) = (\w+)", found, re.MULTILINE)
    assert ("MPIR_F_MPI_IN_PLACE", "mpipriv1_") in places
    assert all(f"char {block}[" in found for _, block in places), "each lies in a block"
    assert "int MPIX_Comm_shrink(void) { return IMPI_GONE; }" in found
    assert "MPIX_Comm_shrink" not in text("openmpi") + text("standard")


def test_the_inside_of_open_mpi_for_cxx():
    found = text("openmpi")
    assert "long ompi_errcodes_intern[64];" in found
    assert "int ompi_op_set_cxx_callback(void)\n{" in found
    assert "ompi_" not in text("mpich") + text("standard")
