"""Labels of output lines, whatever starts the procs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from impi.launch.labels import MARKED, NUMBERED, TAGGED, Labels


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"", b"d\ne"]), max_size=12))
def test_each_line_has_one_label_however_it_is_cut(pieces: list[bytes]) -> None:
    labels = Labels(3)
    text = b"".join(labels.of_rank(7, "stdout", piece) for piece in pieces)
    assert text == b"".join(
        b"[3:7] " + line for line in b"".join(pieces).splitlines(keepends=True)
    )


def test_streams_do_not_share_a_line() -> None:
    labels = Labels(0)
    assert (
        labels.of_rank(0, "stdout", b"a") + labels.of_rank(0, "stderr", b"b")
        == b"[0:0] a[0:0] b"
    )


def test_labels_of_an_mpiexec_become_ours() -> None:
    labels = Labels(2)
    tagged = b"mpiexec says\n[1,0]<stdout>: a\n[1,13]<stderr>:b [1,0]<stdout>: c\n"
    assert (
        labels.of_mpiexec(TAGGED, "stdout", tagged)
        == b"mpiexec says\n[2:0] a\n[2:13] b [1,0]<stdout>: c\n"
    )
    assert (
        labels.of_mpiexec(NUMBERED, "stdout", b" 3: a\n12: b: c\n")
        == b"[2:3] a\n[2:12] b: c\n"
    )


def test_pieces_of_lines_that_hydra_mixes_come_together() -> None:
    labels = Labels(2)
    pieces = (b"\x1e0\x1fa", b"\x1e1\x1fb", b"\x1e0\x1fc\n\x1e0\x1fd", b"\x1e1\x1f\n")
    shown = [labels.of_mpiexec(MARKED, "stdout", piece) for piece in pieces]
    assert shown == [b"", b"", b"[2:0] ac\n", b"[2:1] b\n"]
    assert labels.rest("stderr") == b""
    assert labels.rest("stdout") == b"[2:0] d\n"


def test_last_lines_without_an_end_are_lines_each() -> None:
    labels = Labels(2)
    assert labels.last_of_rank(0, "stdout", b"a\nb") + labels.last_of_rank(
        1, "stdout", b"c"
    ) == (b"[2:0] a\n[2:0] b\n[2:1] c\n")
    assert labels.last_of_rank(0, "stdout", b"") == b""
    assert (
        labels.of_mpiexec(TAGGED, "stdout", b"[1,0]<stdout>: a[1,1]<stdout>: b") == b""
    )
    assert labels.rest("stdout") == b"[2:0] a\n[2:1] b\n"


def test_a_long_line_that_another_rank_interrupts_goes_on_with_its_label() -> None:
    labels = Labels(0)
    shown = [
        labels.of_rank(rank, "stdout", text)
        for rank, text in ((0, b"a"), (1, b"b\n"), (0, b"c"))
    ]
    assert (
        b"".join(shown) + labels.last_of_rank(0, "stdout", b"")
        == b"[0:0] a\n[0:1] b\n[0:0] c\n"
    )
