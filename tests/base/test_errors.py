"""The sentence of an error."""

from __future__ import annotations

import pytest

from impi.base.errors import (
    HungUp,
    ImpiError,
    JobEnded,
    JobError,
    PeerError,
    StartupError,
    UsageError,
    refuse,
)


def test_the_sentence_has_peer_octets_and_clause() -> None:
    error = PeerError(
        "sent nonsense", clause="3.5", peer="client 1", octets=b"\x00\xff"
    )
    assert str(error) == "client 1: sent nonsense [octets 00ff] (IMPI 3.5)"
    assert str(StartupError("no server")) == "no server"
    assert (error.message, error.args) == ("sent nonsense", ("sent nonsense",))


@pytest.mark.parametrize(("size", "end"), [(32, "]"), (33, "...]")])
def test_of_long_input_the_first_octets_are_shown(size: int, end: str) -> None:
    assert (
        str(ImpiError("long", octets=b"a" * size)) == f"long [octets {'61' * 32}{end}"
    )


def test_an_error_may_have_two_origins() -> None:
    assert isinstance(HungUp("gone"), PeerError) and isinstance(
        HungUp("gone"), JobError
    )


def test_the_end_of_a_job_has_its_exit_code() -> None:
    assert (JobEnded("over").code, JobEnded("over", 7).code) == (1, 7)


def test_the_first_reason_that_holds_is_told() -> None:
    refuse((False, "one"), ("", "two"))
    with pytest.raises(UsageError, match=r"^two$"):
        refuse((False, "one"), ("yes", "two"), (True, "three"))
