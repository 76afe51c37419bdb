"""Write a program in C that sends each constant and handle of an ABI there and back.

The program prints a line for each: a name, and the number that came back. The header it is compiled
with decides the numbers. So a vendor's library prints the right lines, and ours has to print them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from impi.cabi.tables.abi_tables import FOLDER

NOT_TYPES: Final = {"MPI_DATATYPE_NULL", "MPI_LB", "MPI_UB"}
"""Handles of types that MPI has taken back."""
NULLS: Final = (
    "Comm",
    "Datatype",
    "Errhandler",
    "File",
    "Group",
    "Info",
    "Message",
    "Op",
    "Request",
    "Session",
    "Win",
)
_CONVERSIONS: Final = {"Datatype": "Type"}
ERRHANDLERS: Final = ("MPI_ERRORS_ARE_FATAL", "MPI_ERRORS_RETURN", "MPI_ERRORS_ABORT")
OPERATIONS: Final = (
    *(
        "MAX",
        "MIN",
        "SUM",
        "PROD",
        "LAND",
        "BAND",
        "LOR",
        "BOR",
        "LXOR",
        "BXOR",
        "MAXLOC",
        "MINLOC",
    ),
    *("REPLACE", "NO_OP"),
)
MODES: Final = (
    "RDONLY",
    "WRONLY|MPI_MODE_CREATE",
    "RDWR|MPI_MODE_CREATE",
    "RDWR|MPI_MODE_APPEND|MPI_MODE_UNIQUE_OPEN",
)
_BEGIN: Final = r"""
#include <mpi.h>
/* The standard ABI's library need not have what is about Fortran; its numbers of handles are the same idea. */
#ifdef MPI_ABI_VERSION
#define THERE(kind, handle) MPI_##kind##_toint(handle)
#define BACK(kind, number) MPI_##kind##_fromint(number)
#else
#define THERE(kind, handle) MPI_##kind##_c2f(handle)
#define BACK(kind, number) MPI_##kind##_f2c(number)
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line: what was asked, and the number that came; of a failure its class. */
static void say(const char *what, int code, long long number)
{
    int class = 0;
    if (code) MPI_Error_class(code, &class);
    if (code) printf("%s: error %d\n", what, class);
    else printf("%s: %lld\n", what, number);
}
#define SAY(what, call, number) do { int say_code = call; say(what, say_code, (long long)(number)); } while (0)

static void named(const char *what, MPI_Datatype type)
{
    int size = -1, ints, addresses, types, combiner = -1;
    MPI_Datatype copy, inside = MPI_DATATYPE_NULL;
    char line[200];
    if (type == MPI_DATATYPE_NULL) return;
    snprintf(line, sizeof line, "%s envelope", what);
    SAY(line, MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner), combiner);
    snprintf(line, sizeof line, "%s size", what);
    SAY(line, MPI_Type_size(type, &size), size);
    snprintf(line, sizeof line, "%s in Fortran", what);
    SAY(line, 0, BACK(Type, THERE(Type, type)) == type);
    if (MPI_Type_dup(type, &copy)) return;
    MPI_Type_get_envelope(copy, &ints, &addresses, &types, &combiner);
    snprintf(line, sizeof line, "%s copied", what);
    SAY(line, MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, &inside), inside == type ? combiner : -1);
    MPI_Type_free(&copy);
    say(line, 0, copy == MPI_DATATYPE_NULL);
}

/* A derived type, which is freed: its combiner and its integers. */
static void derived(const char *what, int code, MPI_Datatype type)
{
    int ints = 0, addresses = 0, types = 0, combiner = -1, number[32] = {0};
    MPI_Aint places[32];
    MPI_Datatype inside[32];
    char line[200];
    if (code) { say(what, code, 0); return; }
    SAY(what, MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner), combiner);
    if (ints > 32 || addresses > 32 || types > 32) return;
    if (combiner != MPI_COMBINER_NAMED) {
        MPI_Type_get_contents(type, ints, addresses, types, number, places, inside);
        for (int i = 0; i < ints; i++) {
            snprintf(line, sizeof line, "%s integer %d", what, i);
            say(line, 0, number[i]);
        }
        for (int i = 0; i < types; i++) {
            snprintf(line, sizeof line, "%s type %d", what, i);
            say(line, 0, inside[i] == MPI_INT ? 1 : inside[i] == MPI_DOUBLE ? 2 : 3);
        }
        /* Those of Fortran are the library's. */
        if (combiner != MPI_COMBINER_F90_REAL && combiner != MPI_COMBINER_F90_COMPLEX
            && combiner != MPI_COMBINER_F90_INTEGER) MPI_Type_free(&type);
    }
}

static void add(void *in, void *out, int *count, MPI_Datatype *type) { (void)in, (void)out, (void)count, (void)type; }

static void derived_types(void)
{
    MPI_Datatype t, two[2] = {MPI_INT, MPI_DOUBLE};
    int ones[2] = {1, 2}, places[2] = {3, 5}, sizes[2] = {4, 6}, part[2] = {2, 3}, starts[2] = {1, 1}, code;
    MPI_Aint far[2] = {8, 32};
#define DERIVED(what, call) code = call; derived(what, code, t)
    DERIVED("contiguous", MPI_Type_contiguous(3, MPI_INT, &t));
    DERIVED("vector", MPI_Type_vector(2, 3, 4, MPI_INT, &t));
    DERIVED("hvector", MPI_Type_create_hvector(2, 3, 64, MPI_INT, &t));
    DERIVED("indexed", MPI_Type_indexed(2, ones, places, MPI_INT, &t));
    DERIVED("hindexed", MPI_Type_create_hindexed(2, ones, far, MPI_INT, &t));
    DERIVED("indexed block", MPI_Type_create_indexed_block(2, 2, places, MPI_INT, &t));
    DERIVED("hindexed block", MPI_Type_create_hindexed_block(2, 2, far, MPI_INT, &t));
    DERIVED("struct", MPI_Type_create_struct(2, ones, far, two, &t));
    DERIVED("resized", MPI_Type_create_resized(MPI_DOUBLE, 0, 32, &t));
    DERIVED("f90 real", MPI_Type_create_f90_real(6, 30, &t));
    DERIVED("f90 complex", MPI_Type_create_f90_complex(6, 30, &t));
    DERIVED("f90 integer", MPI_Type_create_f90_integer(6, &t));
    int orders[2] = {MPI_ORDER_C, MPI_ORDER_FORTRAN}, kinds[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
        MPI_DISTRIBUTE_NONE};
    for (int o = 0; o < 2; o++) {
        DERIVED("subarray", MPI_Type_create_subarray(2, sizes, part, starts, orders[o], MPI_INT, &t));
        for (int k = 0; k < 3; k++) {
            int how[2] = {kinds[k], MPI_DISTRIBUTE_BLOCK}, grid[2] = {1, 1};
            int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
            DERIVED("darray", MPI_Type_create_darray(1, 0, 2, sizes, how, dargs, grid, orders[o], MPI_INT, &t));
        }
    }
    int classes[3] = {MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, MPI_TYPECLASS_COMPLEX};
    for (int c = 0; c < 3; c++) for (int size = 4; size <= 16; size *= 2) {
        int found = -1;
        if (MPI_Type_match_size(classes[c], size, &t)) { printf("no type of class %d and %d\n", c, size); continue; }
        SAY("matched", MPI_Type_size(t, &found), found);
    }
}

static void communicators(void)
{
    MPI_Comm copy, none, cart, graph, dist;
    MPI_Group all, some, empty;
    int result = -9, one = 1, zero = 0, flag = -9, rank = -9, source = -9, dest = -9, key = MPI_KEYVAL_INVALID;
    void *value;
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    SAY("compared: itself", MPI_Comm_compare(MPI_COMM_SELF, MPI_COMM_SELF, &result), result);
    SAY("compared: a copy", MPI_Comm_compare(MPI_COMM_SELF, copy, &result), result);
    SAY("split: undefined", MPI_Comm_split(MPI_COMM_SELF, MPI_UNDEFINED, 0, &none), none == MPI_COMM_NULL);
    SAY("split: shared", MPI_Comm_split_type(MPI_COMM_SELF, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &none),
        none != MPI_COMM_NULL);
    SAY("split: undefined type", MPI_Comm_split_type(MPI_COMM_SELF, MPI_UNDEFINED, 0, MPI_INFO_NULL, &none),
        none == MPI_COMM_NULL);
    MPI_Comm_group(copy, &all);
    MPI_Group_excl(all, 1, &zero, &empty);
    SAY("groups: empty", 0, empty == MPI_GROUP_EMPTY);
    SAY("groups: same", MPI_Group_compare(all, all, &result), result);
    SAY("groups: unequal", MPI_Group_compare(all, MPI_GROUP_EMPTY, &result), result);
    SAY("groups: rank in none", MPI_Group_rank(MPI_GROUP_EMPTY, &rank), rank);
    SAY("groups: translated", MPI_Group_translate_ranks(all, 1, &zero, MPI_GROUP_EMPTY, &rank), rank);
    int nobody = MPI_PROC_NULL;
    SAY("groups: translated null", MPI_Group_translate_ranks(all, 1, &nobody, all, &rank), rank);
    SAY("groups: union", MPI_Group_union(all, MPI_GROUP_EMPTY, &some), some != MPI_GROUP_NULL);
    SAY("groups: freed", MPI_Group_free(&some), some == MPI_GROUP_NULL);
    SAY("topology: none", MPI_Topo_test(copy, &result), result);
    MPI_Cart_create(MPI_COMM_SELF, 1, &one, &zero, 0, &cart);
    SAY("topology: grid", MPI_Topo_test(cart, &result), result);
    SAY("topology: shift", MPI_Cart_shift(cart, 0, 1, &source, &dest), source);
    SAY("topology: shift", MPI_Cart_shift(cart, 0, 1, &source, &dest), dest);
    MPI_Graph_create(MPI_COMM_SELF, 1, &one, &zero, 0, &graph);
    SAY("topology: graph", MPI_Topo_test(graph, &result), result);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY,
        MPI_INFO_NULL, 0, &dist);
    SAY("topology: distributed", MPI_Topo_test(dist, &result), result);
    int attributes[] = {MPI_TAG_UB, MPI_IO, MPI_WTIME_IS_GLOBAL};
    for (int i = 0; i < 3; i++) SAY("attribute", MPI_Comm_get_attr(MPI_COMM_WORLD, attributes[i], &value, &flag), flag);
    SAY("key", MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL),
        key != MPI_KEYVAL_INVALID);
    SAY("key freed", MPI_Comm_free_keyval(&key), key == MPI_KEYVAL_INVALID);
    SAY("communicator freed", MPI_Comm_free(&copy), copy == MPI_COMM_NULL);
    MPI_Comm_free(&cart); MPI_Comm_free(&graph); MPI_Comm_free(&dist); MPI_Group_free(&all);
}

static void messages(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int count = -9, flag = -9, index = -9, number = 0;
    SAY("received of none", MPI_Recv(&number, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_SELF, &status),
        status.MPI_SOURCE);
    say("its tag", 0, status.MPI_TAG);
    SAY("its count", MPI_Get_count(&status, MPI_INT, &count), count);
    SAY("probed of none", MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_SELF, &message, &status),
        message == MPI_MESSAGE_NO_PROC);
    SAY("received", MPI_Mrecv(&number, 1, MPI_INT, &message, &status), message == MPI_MESSAGE_NULL);
    SAY("waited for none", MPI_Wait(&request, &status), status.MPI_SOURCE);
    say("its tag", 0, status.MPI_TAG);
    SAY("any of none", MPI_Waitany(1, &request, &index, &status), index);
    SAY("some of none", MPI_Waitsome(1, &request, &index, &flag, &status), index);
    SAY("tested none", MPI_Testany(1, &request, &index, &flag, &status), index);
    MPI_Sendrecv(&number, 1, MPI_INT, 0, 5, &flag, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &status);
    SAY("not whole", MPI_Get_count(&status, MPI_DOUBLE, &count), count);
    SAY("elements", MPI_Get_elements(&status, MPI_DOUBLE, &count), count);
    MPI_Irecv(&flag, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    SAY("cancelled", MPI_Wait(&request, &status), request == MPI_REQUEST_NULL);
    SAY("its flag", MPI_Test_cancelled(&status, &flag), flag);
}

static void errors(MPI_Errhandler handler, const char *what)
{
    MPI_Comm copy;
    MPI_Win win;
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    char line[200];
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Comm_set_errhandler(copy, handler);
    snprintf(line, sizeof line, "%s of a communicator", what);
    SAY(line, MPI_Comm_get_errhandler(copy, &found), found == handler);
    MPI_Comm_free(&copy);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, handler);
    snprintf(line, sizeof line, "%s of a window", what);
    SAY(line, MPI_Win_get_errhandler(win, &found), found == handler);
    MPI_Win_free(&win);
    snprintf(line, sizeof line, "%s of files", what);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    SAY(line, MPI_File_get_errhandler(MPI_FILE_NULL, &found), found == handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
}

static void windows(void)
{
    MPI_Win win;
    int *value = NULL, flag = -9;
    char room[16], *base;
    int asserted = MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED;
    int keys[] = {MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL, MPI_WIN_DISP_UNIT};
    for (int flavor = 0; flavor < 4; flavor++) {
        int code = flavor == 0 ? MPI_Win_create(room, 16, 2, MPI_INFO_NULL, MPI_COMM_SELF, &win)
            : flavor == 1 ? MPI_Win_allocate(16, 2, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win)
            : flavor == 2 ? MPI_Win_allocate_shared(16, 2, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win)
            : MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
        if (code) { say("window", code, 0); continue; }
        for (int k = 0; k < 3; k++) SAY("window", MPI_Win_get_attr(win, keys[k], &value, &flag), flag ? *value : -1);
        int locks[] = {MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED};
        for (int l = 0; l < 2; l++) {
            SAY("lock", MPI_Win_lock(locks[l], 0, MPI_MODE_NOCHECK, win), 0);
            SAY("unlock", MPI_Win_unlock(0, win), 0);
        }
        SAY("fence", MPI_Win_fence(asserted, win), 0);
        SAY("window freed", MPI_Win_free(&win), win == MPI_WIN_NULL);
    }
}

static void file(const char *path, int mode)
{
    MPI_File file;
    MPI_Offset place = -9;
    int found = -9, code = MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file);
    if (code) { say("file", code, 0); return; }
    SAY("file mode", MPI_File_get_amode(file, &found), found);
    if (!(mode & MPI_MODE_WRONLY)) {
        SAY("seek", MPI_File_seek(file, 4, MPI_SEEK_SET), 0);
        SAY("seek", MPI_File_seek(file, 3, MPI_SEEK_CUR), 0);
        SAY("place", MPI_File_get_position(file, &place), place);
        SAY("seek", MPI_File_seek(file, 0, MPI_SEEK_END), 0);
        SAY("place", MPI_File_get_position(file, &place), place);
    }
    SAY("file closed", MPI_File_close(&file), file == MPI_FILE_NULL);
}
"""


def names(abi: str) -> list[str]:
    """Return the names of an ABI's constants."""
    return sorted(json.loads((FOLDER / "constants" / f"{abi}.json").read_text()))


def types(abi: str) -> list[str]:
    """Return the names of the predefined datatypes of an ABI."""
    kinds = json.loads((FOLDER / "header.json").read_text())["types"]
    return [
        name
        for name in names(abi)
        if kinds.get(name) == "MPI_Datatype" and name not in NOT_TYPES
    ]


def program(abi: str) -> str:
    """Return the text of the program for an ABI."""
    return _BEGIN + "\n".join(
        ["int main(int argc, char **argv)", "{", *_lines(abi, set(names(abi))), "}", ""]
    )


def _lines(abi: str, there: set[str]) -> Iterator[str]:
    yield "    MPI_Init(&argc, &argv);"
    yield "    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);"
    yield "    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);"
    yield "    int class = -9, flag = -9;"
    yield from (f'    named("{name}", {name});' for name in types(abi) if name in there)
    for name in (f"MPI_{each}" for each in OPERATIONS):
        yield f'    SAY("{name} commutes", MPI_Op_commutative({name}, &flag), flag);'
        yield f'    say("{name} in Fortran", 0, BACK(Op, THERE(Op, {name})) == {name});'
    yield "    MPI_Op own;"
    yield '    SAY("operation", MPI_Op_create(add, 0, &own), BACK(Op, THERE(Op, own)) == own);'
    yield '    SAY("operation freed", MPI_Op_free(&own), own == MPI_OP_NULL);'
    for name in (
        each for each in names(abi) if each.startswith("MPI_ERR_") and each in there
    ):
        if name not in {"MPI_ERR_LASTCODE"}:
            yield f'    SAY("{name}", MPI_Error_class({name}, &class), class);'
    yield from (
        f'    errors({name}, "{name}");' for name in ERRHANDLERS if name in there
    )
    for kind in NULLS:
        prefix, name = _CONVERSIONS.get(kind, kind), f"MPI_{kind.upper()}_NULL"
        if name in there:
            yield f'    say("{name}", 0, BACK({prefix}, THERE({prefix}, {name})) == {name});'
    for kind, name in (
        ("Comm", "MPI_COMM_WORLD"),
        ("Comm", "MPI_COMM_SELF"),
        ("Group", "MPI_GROUP_EMPTY"),
    ):
        yield f'    say("{name}", 0, BACK({kind}, THERE({kind}, {name})) == {name});'
    yield "    derived_types();"
    yield "    communicators();"
    yield "    messages();"
    yield "    windows();"
    yield from (f"    file(argv[1], MPI_MODE_{mode});" for mode in MODES)
    yield '    SAY("threads", MPI_Query_thread(&flag), flag >= MPI_THREAD_SINGLE && flag <= MPI_THREAD_MULTIPLE);'
    yield "    MPI_Finalize();"
    yield "    return 0;"
