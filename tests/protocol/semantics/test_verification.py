"""Agreement of collective calls: every line of the paper's Appendix A, and its examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from impi.base.records import replaced
from impi.protocol.semantics.constants import ERROR_CLASSES, PROC_NULL, ROOT
from impi.protocol.semantics.verification import Call, check, decode, encode, explain


def calls(function: str, size: int = 3, **same: Any) -> list[Call]:
    return [Call(function=function, rank=rank, **same) for rank in range(size)]


def but(given: Sequence[Call], rank: int, **other: Any) -> list[Call]:
    """One of them says something else."""
    return [replaced(call, **other) if call.rank == rank else call for call in given]


def said(given: Sequence[Call]) -> list[str]:
    return [str(violation) for violation in check(given)]


def rooted(
    function: str, root: int, at_root: dict[str, Any], elsewhere: dict[str, Any]
) -> list[Call]:
    return [
        Call(
            function=function,
            rank=rank,
            root=root,
            **{**elsewhere, **(at_root if rank == root else {})},
        )
        for rank in range(3)
    ]


# A right call of every operation of Appendix A that there is, by three processes.
RIGHT = {
    "MPI_Barrier": calls("MPI_Barrier"),
    "MPI_Bcast": rooted("MPI_Bcast", 1, {"send": [8], "recv": ()}, {"recv": [8]}),
    "MPI_Gather": rooted("MPI_Gather", 1, {"recv": [8]}, {"send": [8]}),
    "MPI_Gatherv": [
        Call(
            function="MPI_Gatherv",
            rank=r,
            root=1,
            send=[4 * r],
            recv=[0, 4, 8] if r == 1 else (),
        )
        for r in range(3)
    ],
    "MPI_Scatter": rooted("MPI_Scatter", 1, {"send": [8]}, {"recv": [8]}),
    "MPI_Scatterv": [
        Call(
            function="MPI_Scatterv",
            rank=r,
            root=1,
            recv=[4 * r],
            send=[0, 4, 8] if r == 1 else (),
        )
        for r in range(3)
    ],
    "MPI_Allgather": calls("MPI_Allgather", send=[8], recv=[8]),
    "MPI_Allgatherv": [
        Call(function="MPI_Allgatherv", rank=r, send=[4 * r], recv=[0, 4, 8])
        for r in range(3)
    ],
    "MPI_Alltoall": calls("MPI_Alltoall", send=[8], recv=[8]),
    "MPI_Alltoallv": [
        Call(
            function="MPI_Alltoallv", rank=r, send=[0, 4, 8], recv=[4 * r, 4 * r, 4 * r]
        )
        for r in range(3)
    ],
    "MPI_Alltoallw": [
        Call(
            function="MPI_Alltoallw", rank=r, send=[0, 4, 8], recv=[4 * r, 4 * r, 4 * r]
        )
        for r in range(3)
    ],
    "MPI_Reduce": calls("MPI_Reduce", root=1, op="MPI_SUM", datatype="int32", send=[8]),
    "MPI_Allreduce": calls("MPI_Allreduce", op="MPI_SUM", datatype="int32", send=[8]),
    "MPI_Reduce_scatter": calls(
        "MPI_Reduce_scatter", op="MPI_SUM", datatype="int32", send=[12], recv=[0, 4, 8]
    ),
    "MPI_Reduce_scatter_block": calls(
        "MPI_Reduce_scatter_block", op="MPI_SUM", send=[12], recv=[4, 4, 4]
    ),
    "MPI_Scan": calls("MPI_Scan", op="MPI_SUM", send=[8]),
    "MPI_Exscan": calls("MPI_Exscan", op="MPI_SUM", send=[8]),
    "MPI_Comm_dup": calls("MPI_Comm_dup"),
    "MPI_Comm_create": calls("MPI_Comm_create", members=[2, 0]),
    "MPI_Comm_split": calls("MPI_Comm_split"),
    "MPI_Intercomm_merge": calls("MPI_Intercomm_merge", values={"high": True}),
    "MPI_Intercomm_create": calls(
        "MPI_Intercomm_create", values={"local leader": 1, "tag": 7}
    ),
    "MPI_Cart_create": calls(
        "MPI_Cart_create", values={"dims": [3, 1], "periods": [True, False]}
    ),
    "MPI_Cart_map": calls(
        "MPI_Cart_map", values={"dims": [3, 1], "periods": [True, False]}
    ),
    "MPI_Graph_create": calls(
        "MPI_Graph_create", values={"index": [1, 2], "edges": [1, 0]}
    ),
    "MPI_Graph_map": calls("MPI_Graph_map", values={"index": [1, 2], "edges": [1, 0]}),
    "MPI_Comm_disconnect": calls("MPI_Comm_disconnect"),
}
everything = pytest.mark.parametrize("function", RIGHT)


@everything
def test_right_calls_are_let_through(function: str) -> None:
    assert check(RIGHT[function]) == []


@everything
def test_call_consistency(function: str) -> None:
    other = "MPI_Barrier" if function != "MPI_Barrier" else "MPI_Bcast"
    given = but(RIGHT[function], 2, function=other)
    assert said(given) == [
        f"VERIFY {other.upper()}(2): call inconsistent with call to {function} by 0"
    ]


ROOTED = (
    "MPI_Bcast",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Scatter",
    "MPI_Scatterv",
    "MPI_Reduce",
)


@pytest.mark.parametrize("function", ROOTED)
def test_root_consistency(function: str) -> None:
    given = but(RIGHT[function], 2, root=2)
    assert said(given) == [
        f"VERIFY {function.upper()}(2): root 2 inconsistent with root 1 of 0"
    ]


@pytest.mark.parametrize("function", ROOTED[1:])
def test_in_place_is_for_the_root_only(function: str) -> None:
    assert check(but(RIGHT[function], 1, in_place=True)) == []
    given = but(RIGHT[function], 2, in_place=True)
    assert said(given) == [
        f"VERIFY {function.upper()}(2): MPI_IN_PLACE, but the root is 1"
    ]


@pytest.mark.parametrize(
    "function",
    [
        "MPI_Allgather",
        "MPI_Allgatherv",
        "MPI_Alltoall",
        "MPI_Alltoallv",
        "MPI_Alltoallw",
        "MPI_Allreduce",
        "MPI_Reduce_scatter",
        "MPI_Reduce_scatter_block",
    ],
)
def test_in_place_consistency(function: str) -> None:
    upper = function.upper()
    all_in_place = [replaced(call, in_place=True) for call in RIGHT[function]]
    assert check(all_in_place) == []
    assert said(but(RIGHT[function], 2, in_place=True)) == [
        f"VERIFY {upper}(2): MPI_IN_PLACE inconsistent with no MPI_IN_PLACE of 0"
    ]
    assert said(but(all_in_place, 1, in_place=False)) == [
        f"VERIFY {upper}(1): no MPI_IN_PLACE inconsistent with MPI_IN_PLACE of 0"
    ]


@pytest.mark.parametrize(
    "function", [name for name, given in RIGHT.items() if given[0].op]
)
def test_op_consistency(function: str) -> None:
    upper = function.upper()
    assert said(but(RIGHT[function], 1, op="MPI_MAX")) == [
        f"VERIFY {upper}(1): op MPI_MAX inconsistent with op MPI_SUM of 0"
    ]
    typed = [replaced(call, datatype="int32") for call in RIGHT[function]]
    assert said(but(typed, 1, datatype="float32")) == [
        f"VERIFY {upper}(1): datatype float32 inconsistent with datatype int32 of 0"
    ]


@pytest.mark.parametrize(
    ("function", "rank", "other", "sentences"),
    [
        ("MPI_Bcast", 2, {"recv": [4]}, ["(2): recvsize=4 < expected sendsize(1)=8"]),
        (
            "MPI_Bcast",
            1,
            {"send": [4]},
            ["(0): recvsize=8 > expected sendsize(1)=4", "(2): recvsize=8 > expected sendsize(1)=4"],
        ),
        ("MPI_Gather", 2, {"send": [12]}, ["(2): sendsize=12 > expected recvsize(1)=8"]),
        ("MPI_Gatherv", 2, {"send": [4]}, ["(2): sendsize=4 < expected recvsize(1)[2]=8"]),
        ("MPI_Gatherv", 1, {"recv": [0, 4, 4]}, ["(2): sendsize=8 > expected recvsize(1)[2]=4"]),
        ("MPI_Scatter", 0, {"recv": [4]}, ["(0): recvsize=4 < expected sendsize(1)=8"]),
        ("MPI_Scatterv", 1, {"send": [0, 4, 4]}, ["(2): recvsize=8 > expected sendsize(1)[2]=4"]),
        (
            "MPI_Allgather",
            2,
            {"send": [4]},
            ["(2): sendsize=4 < expected recvsize(0)=8"],
        ),
        (
            "MPI_Allgatherv",
            1,
            {"recv": [0, 4, 12]},
            ["(2): sendsize=8 < expected recvsize(1)[2]=12"],
        ),
        (
            "MPI_Alltoall",
            1,
            {"recv": [12]},
            [f"({r}): sendsize=8 < expected recvsize(1)=12" for r in range(3)],
        ),
        ("MPI_Alltoallw", 1, {"send": [0, 4, 12]}, ["(1): sendsize[2]=12 > expected recvsize(2)[1]=8"]),
        ("MPI_Reduce", 2, {"send": [4]}, ["(2): datasize 4 inconsistent with datasize 8 of 0"]),
        ("MPI_Allreduce", 1, {"send": [12]}, ["(1): datasize 12 inconsistent with datasize 8 of 0"]),
        (
            "MPI_Reduce_scatter",
            2,
            {"recv": [4, 0, 8]},
            ["(2): recvsize[0] 4 inconsistent with recvsize[0] 0 of 0"],
        ),
        (
            "MPI_Reduce_scatter_block",
            1,
            {"recv": [8, 8, 8]},
            ["(1): recvsize 8 inconsistent with recvsize 4 of 0"],
        ),
        ("MPI_Scan", 2, {"send": [4]}, ["(2): datasize 4 inconsistent with datasize 8 of 0"]),
        ("MPI_Exscan", 2, {"send": [4]}, ["(2): datasize 4 inconsistent with datasize 8 of 0"]),
    ],
)  # fmt: skip
def test_datasize_match(
    function: str, rank: int, other: dict[str, Any], sentences: list[str]
) -> None:
    assert said(but(RIGHT[function], rank, **other)) == [
        f"VERIFY {function.upper()}{text}" for text in sentences
    ]


@pytest.mark.parametrize(
    ("function", "name", "value", "error"),
    [
        ("MPI_Intercomm_merge", "high", False, "ERR_ARG"),
        ("MPI_Intercomm_create", "local leader", 0, "ERR_RANK"),
        ("MPI_Intercomm_create", "tag", 8, "ERR_TAG"),
        ("MPI_Cart_create", "dims", [1, 3], "ERR_DIMS"),
        ("MPI_Cart_create", "periods", [False, False], "ERR_ARG"),
        ("MPI_Cart_map", "dims", [1, 3], "ERR_DIMS"),
        ("MPI_Graph_create", "index", [1, 1], "ERR_TOPOLOGY"),
        ("MPI_Graph_create", "edges", [1, 1], "ERR_TOPOLOGY"),
        ("MPI_Graph_map", "edges", [1, 1], "ERR_TOPOLOGY"),
    ],
)
def test_consistency_of_further_arguments(
    function: str, name: str, value: Any, error: str
) -> None:
    right = RIGHT[function][0].values
    given = but(RIGHT[function], 1, values={**right, name: value})
    assert said(given) == [
        f"VERIFY {function.upper()}(1): {name} {value} inconsistent with {name} {right[name]} of 0"
    ]
    assert check(given)[0].error == error


def test_info_consistency() -> None:
    given = calls("MPI_Comm_dup_with_info", values={"info": {"a": "1"}})
    assert check(given) == []
    assert said(but(given, 2, values={"info": {}})) == [
        "VERIFY MPI_COMM_DUP_WITH_INFO(2): info {} inconsistent with info {'a': '1'} of 0"
    ]


def test_group_consistency() -> None:
    given = but(RIGHT["MPI_Comm_create"], 2, members=[0, 2])
    assert said(given) == [
        "VERIFY MPI_COMM_CREATE(0): group [2, 0] inconsistent with group [0, 2] of 2",
        "VERIFY MPI_COMM_CREATE(1): group [2, 0] inconsistent with group [0, 2] of 2",
        "VERIFY MPI_COMM_CREATE(2): group [0, 2] inconsistent with group [2, 0] of 0",
    ]


def test_groups_without_common_members_may_differ() -> None:
    # MPI 2.2 made this legal, after the paper.
    members = [[0, 2], [1], [0, 2], []]
    assert (
        check(
            [
                Call(function="MPI_Comm_create", rank=r, members=m)
                for r, m in enumerate(members)
            ]
        )
        == []
    )


# ---- the examples of the paper


def test_example_1() -> None:
    given = [
        Call(function="MPI_Gather" if r == 0 else "MPI_Scatter", rank=r, root=0)
        for r in range(3)
    ]
    assert (
        "VERIFY MPI_SCATTER(2): call inconsistent with call to MPI_Gather by 0"
        in said(given)
    )


def test_example_2() -> None:
    given = but(calls("MPI_Gather", root=0, send=[4]), 2, root=2)
    assert said(given) == ["VERIFY MPI_GATHER(2): root 2 inconsistent with root 0 of 0"]


def test_example_3() -> None:
    given = calls("MPI_Alltoallv", send=[0, 4, 8], recv=[0, 4, 8])
    assert said(given) == [
        "VERIFY MPI_ALLTOALLV(0): sendsize[1]=4 > expected recvsize(1)[0]=0",
        "VERIFY MPI_ALLTOALLV(1): sendsize[0]=0 < expected recvsize(0)[1]=4",
        "VERIFY MPI_ALLTOALLV(2): sendsize[0]=0 < expected recvsize(0)[2]=8",
    ]


def test_example_4() -> None:
    sizes = [2, 3]
    given = [
        Call(
            function="MPI_Reduce_scatter",
            rank=r,
            group=g,
            op="MPI_SUM",
            send=[n],
            recv=[1] * n,
        )
        for g, n in enumerate(sizes)
        for r in range(n)
    ]
    assert said(given) == [
        "VERIFY MPI_REDUCE_SCATTER(INTERCOMM): scattersize=2 != reducesize=3"
    ]


# ---- between two groups


def between(
    function: str, root: int | None, left: dict[str, Any], right: dict[str, Any]
) -> list[Call]:
    """Two processes on the left, three on the right; the right names ``root`` on the left."""
    given = []
    for rank in range(2):
        mine = None if root is None else ROOT if rank == root else PROC_NULL
        more = left if root is None or rank == root else {}
        given.append(Call(function=function, rank=rank, group=0, root=mine, **more))
    return given + [
        Call(function=function, rank=rank, group=1, root=root, **right)
        for rank in range(3)
    ]


def test_right_calls_between_two_groups() -> None:
    for given in (
        between("MPI_Barrier", None, {}, {}),
        between("MPI_Bcast", 1, {"send": [8]}, {"recv": [8]}),
        between("MPI_Gather", 1, {"recv": [8]}, {"send": [8]}),
        between("MPI_Scatterv", 0, {"send": [8, 8, 8]}, {"recv": [8]}),
        between(
            "MPI_Allgather",
            None,
            {"send": [4], "recv": [8]},
            {"send": [8], "recv": [4]},
        ),
        between(
            "MPI_Alltoallv",
            None,
            {"send": [1] * 3, "recv": [4] * 3},
            {"send": [4, 4], "recv": [1, 1]},
        ),
        between(
            "MPI_Reduce",
            1,
            {"recv": [8], "op": "MPI_SUM"},
            {"send": [8], "op": "MPI_SUM"},
        ),
        between(
            "MPI_Reduce_scatter",
            None,
            {"send": [6], "recv": [3, 3]},
            {"send": [6], "recv": [2, 2, 2]},
        ),
        between(
            "MPI_Intercomm_merge",
            None,
            {"values": {"high": True}},
            {"values": {"high": False}},
        ),
    ):
        assert check(given) == []


def test_roots_between_two_groups() -> None:
    right = between("MPI_Bcast", 1, {"send": [8]}, {"recv": [8]})
    wrong = [
        replaced(call, root=0) if (call.group, call.rank) == (1, 2) else call
        for call in right
    ]
    assert said(wrong) == ["VERIFY MPI_BCAST(2): root 0 inconsistent with root 1 of 0"]
    wrong = [
        replaced(call, root=ROOT) if (call.group, call.rank) == (0, 0) else call
        for call in right
    ]
    assert said(wrong) == [
        "VERIFY MPI_BCAST(0): root MPI_ROOT inconsistent with root 1 of 0 of the remote group"
    ]
    wrong = [
        replaced(call, root=PROC_NULL) if call.group == 0 else call for call in right
    ]
    assert said(wrong) == [
        "VERIFY MPI_BCAST(1): root MPI_PROC_NULL inconsistent with root 1 of 0 of the remote group"
    ]
    # Where nobody takes part, nothing goes wrong.
    assert check([replaced(call, root=PROC_NULL) for call in right]) == []


def test_sizes_between_two_groups() -> None:
    given = between("MPI_Gather", 1, {"recv": [8]}, {"send": [4]})
    assert said(given) == [
        f"VERIFY MPI_GATHER({r}): sendsize=4 < expected recvsize(1)=8" for r in range(3)
    ]
    given = between(
        "MPI_Allgather", None, {"send": [4], "recv": [8]}, {"send": [8], "recv": [8]}
    )
    assert said(given) == [
        f"VERIFY MPI_ALLGATHER({r}): sendsize=4 < expected recvsize(0)=8"
        for r in range(2)
    ]
    given = between("MPI_Reduce", 0, {"recv": [8]}, {"send": [4]})
    assert said(given) == [
        f"VERIFY MPI_REDUCE({r}): sendsize=4 < expected recvsize(0)=8" for r in range(3)
    ]


def test_calls_of_two_groups() -> None:
    given = [
        replaced(call, function="MPI_Bcast") if call.group else call
        for call in between("MPI_Barrier", None, {}, {})
    ]
    assert said(given) == [
        f"VERIFY MPI_BCAST({r}): call inconsistent with call to MPI_Barrier by 0 of the remote group"
        for r in range(3)
    ]


# ---- what surrounds them


def test_the_first_broken_rule_is_told_and_no_other() -> None:
    given = but(RIGHT["MPI_Reduce"], 2, root=2, op="MPI_MAX", send=[4])
    assert said(given) == ["VERIFY MPI_REDUCE(2): root 2 inconsistent with root 1 of 0"]


def test_sizes_of_objects_are_nobody_elses_affair() -> None:
    given = calls("MPI_Bcast[object]", root=1)
    assert check(given) == []
    assert said(but(given, 2, root=0)) == [
        "VERIFY MPI_BCAST[OBJECT](2): root 0 inconsistent with root 1 of 0"
    ]
    assert said(but(given, 0, function="MPI_Bcast")) == [
        f"VERIFY MPI_BCAST[OBJECT]({r}): call inconsistent with call to MPI_Bcast by 0"
        for r in (1, 2)
    ]


@pytest.mark.parametrize("form", ["MPI_I{}", "MPI_{}_init"])
@pytest.mark.parametrize(
    "function",
    [name for name in RIGHT if "_Comm_" not in name and "Intercomm" not in name],
)
def test_forms_that_do_not_block_have_the_same_rules(form: str, function: str) -> None:
    other = form.format(function.removeprefix("MPI_"))
    other = "MPI_I" + other[5:].lower() if form.startswith("MPI_I") else other
    given = [replaced(call, function=other) for call in RIGHT[function]]
    assert check(given) == []
    if RIGHT[function][0].root is not None:
        assert said(but(given, 2, root=2)) == [
            f"VERIFY {other.upper()}(2): root 2 inconsistent with root 1 of 0"
        ]
    if RIGHT[function][0].op:
        assert said(but(given, 2, op="x")) == [
            f"VERIFY {other.upper()}(2): op x inconsistent with op MPI_SUM of 0"
        ]
    assert said(but(given, 1, function=function)) == [
        f"VERIFY {function.upper()}(1): call inconsistent with call to {other} by 0"
    ]


def test_a_call_that_is_wrong_in_itself_is_told_after_the_root_only() -> None:
    given = but(RIGHT["MPI_Gather"], 2, fault="no buffer", send=())
    assert said(given) == ["VERIFY MPI_GATHER(2): no buffer"]
    assert [violation.is_fault for violation in check(given)] == [True]
    assert said(but(given, 2, root=2)) == [
        "VERIFY MPI_GATHER(2): root 2 inconsistent with root 1 of 0"
    ]
    assert said(
        but(RIGHT["MPI_Reduce_scatter"], 0, fault="no counts", recv=(), send=(), op="")
    ) == ["VERIFY MPI_REDUCE_SCATTER(0): no counts"]


def test_a_group_of_strangers_is_the_operations_own_affair() -> None:
    assert check(calls("MPI_Comm_create", members=[-1])) == []


def test_a_root_that_nobody_is_is_the_operations_own_affair() -> None:
    assert check(calls("MPI_Gather", root=9, send=[4])) == []


@pytest.mark.parametrize(
    ("function", "other", "error"),
    [
        ("MPI_Bcast", {"function": "MPI_Barrier"}, "ERR_OTHER"),
        ("MPI_Bcast", {"root": 0}, "ERR_ROOT"),
        ("MPI_Bcast", {"recv": [1]}, "ERR_COUNT"),
        ("MPI_Reduce", {"op": "MPI_MAX"}, "ERR_OP"),
        ("MPI_Reduce", {"datatype": "int8"}, "ERR_TYPE"),
        ("MPI_Reduce", {"in_place": True}, "ERR_BUFFER"),
        ("MPI_Allreduce", {"in_place": True}, "ERR_BUFFER"),
        ("MPI_Comm_create", {"members": [2]}, "ERR_GROUP"),
    ],
)
def test_error_classes(function: str, other: dict[str, Any], error: str) -> None:
    [violation, *_] = check(but(RIGHT[function], 2, **other))
    assert violation.error == error
    assert error in ERROR_CLASSES
    assert violation.rule


def test_the_explanation_names_all_arguments() -> None:
    given = [
        Call(
            function="MPI_Reduce",
            rank=0,
            root=2,
            op="MPI_SUM",
            datatype="int32",
            send=[8],
            where="a.py:3",
        ),
        Call(function="MPI_Gatherv", rank=1, root=1, in_place=True, recv=[4, 8]),
        Call(function="MPI_Comm_create", rank=2, members=[1]),
        Call(function="MPI_Cart_create", rank=0, group=1, values={"dims": [2]}),
        Call(function="MPI_Bcast", rank=1, group=1, root=ROOT),
    ]
    assert explain(given) == [
        "rank 0: MPI_Reduce(root 2, MPI_SUM, int32, sends 8 octets) at a.py:3",
        "rank 1: MPI_Gatherv(root 1, MPI_IN_PLACE, receives [4, 8] octets)",
        "rank 2: MPI_Comm_create(group [1])",
        "rank 0 of group 1: MPI_Cart_create(dims [2])",
        "rank 1 of group 1: MPI_Bcast(root MPI_ROOT)",
    ]


def test_calls_travel_as_json() -> None:
    call = Call(
        function="MPI_Cart_create",
        rank=2,
        group=1,
        root=-4,
        send=(8, 16),
        members=(0, 1),
        values={"dims": (2, 3)},
    )
    [back] = decode(memoryview(encode([call])))
    assert back == replaced(
        call, send=[8, 16], recv=[], members=[0, 1], values={"dims": [2, 3]}
    )


def test_integers_of_other_types_travel() -> None:
    class Eight:
        def __int__(self) -> int:
            return 8

    [back] = decode(encode([Call(function="MPI_Bcast", rank=0, send=[Eight()])]))  # type: ignore[list-item]
    assert back.send == [8]
