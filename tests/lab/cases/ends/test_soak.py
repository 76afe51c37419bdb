"""The soak sees what is lost, doubled, reordered or changed: in forged streams and real jobs."""

from __future__ import annotations

import threading
from array import array

import pytest
from forge import FakeBackend
from hypothesis import given
from hypothesis import strategies as st
from soaking import LONG, patched, soaked

from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend
from impi.lab.plan.cell import parse_cell
from impi.lab.programs.soak_streams import (
    HEAD,
    ROUND,
    SHAPES,
    TAGS,
    Ledger,
    Source,
    Stream,
    flat,
    gather,
    mix,
    scatter,
    space,
)
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Mutation

SOURCE = Source(7, LONG)
STREAM = Stream(1, 0, 2)
COUNT = 40
NUMBERS = [n for n in range(2, COUNT) if len(SOURCE.octets(STREAM, n)) >= HEAD.size]
"""Messages that say their number."""


def kinds(messages: list[bytes], stream: Stream = STREAM) -> dict[str, int]:
    ledger = Ledger(SOURCE)
    for octets in messages:
        ledger.take(stream, octets)
    ledger.close(iter([(stream, COUNT)]))
    return {kind: count for kind, count in ledger.counts.items() if count}


def due(stream: Stream = STREAM) -> list[bytes]:
    return [SOURCE.octets(stream, number) for number in range(COUNT)]


@pytest.mark.parametrize("tag", range(len(TAGS)))
def test_what_comes_as_it_is_due_is_right(tag):
    assert kinds(due(Stream(1, 0, tag)), Stream(1, 0, tag)) == {}


@given(st.sampled_from(NUMBERS))
def test_a_lost_message_is_told(number):
    assert kinds([octets for n, octets in enumerate(due()) if n != number]) == {
        "lost": 1
    }


@given(st.sampled_from(NUMBERS), st.integers(0, 5))
def test_a_doubled_message_is_told(number, later):
    messages = due()
    messages.insert(number + 1 + later, messages[number])
    assert kinds(messages) == {"doubled": 1}


@given(st.sampled_from(NUMBERS), st.integers(1, 5))
def test_a_message_that_comes_late_is_told(number, later):
    messages = due()
    messages.insert(number + later, messages.pop(number))
    assert kinds(messages) in ({"reordered": 1}, {})
    assert kinds(messages) == {} if messages == due() else {"reordered": 1}


@given(st.sampled_from(NUMBERS), st.data())
def test_a_changed_octet_is_told(number, data):
    messages = due()
    at = data.draw(st.integers(0, len(messages[number]) - 1))
    changed = bytearray(messages[number])
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    messages[number] = bytes(changed)
    assert kinds(messages) == {"changed": 1}


@given(st.sampled_from(NUMBERS), st.integers(1, HEAD.size))
def test_a_message_that_is_cut_short_is_told(number, less):
    messages = due()
    messages[number] = messages[number][:-less]
    found = kinds(messages)
    assert set(found) <= {"changed", "lost", "doubled", "reordered"}
    assert found


def test_a_message_of_another_stream_is_told():
    messages = due()
    messages[NUMBERS[0]] = SOURCE.octets(Stream(2, 0, 2), NUMBERS[0])
    assert kinds(messages) == {"changed": 1}


def test_a_number_that_was_changed_does_not_fill_the_memory():
    ledger = Ledger(SOURCE)
    ledger.take(STREAM, HEAD.pack(2**32 - 1, STREAM.key, HEAD.size, 0))
    assert ledger.counts["changed"] == 1
    assert ledger.due(STREAM) == 1


def test_sentences_name_the_message_and_are_not_many():
    ledger = Ledger(SOURCE)
    for _ in range(50):
        ledger.take(STREAM, b"x" * 500)
    assert ledger.counts["changed"] == 50
    assert len(ledger.sentences["changed"]) == 20
    assert ledger.sentences["changed"][0].startswith(
        "message 0 of rank 1 to 0, tag 2 (octets in communicator reversed): 500 octets for"
    )


def test_lengths_reach_from_nothing_to_the_longest_and_are_whole_elements():
    streams = [Stream(0, 1, tag) for tag in range(len(TAGS))]
    sizes = {
        stream: [SOURCE.size(stream, n) for n in range(2000)]
        for stream in (*streams, STREAM)
    }
    assert all(
        size % stream.shape.octets == 0
        for stream, each in sizes.items()
        for size in each
    )
    assert {0} <= set(sizes[STREAM])
    assert LONG * 3 // 4 < max(sizes[STREAM]) <= LONG
    assert len(set(sizes[STREAM])) > 500


def test_plans_follow_from_the_seed():
    assert SOURCE.plan(3, 0, 1) == Source(7, LONG).plan(3, 0, 1)
    assert SOURCE.plan(3, 0, 1) != SOURCE.plan(3, 1, 0)
    assert Source(8, LONG).octets(STREAM, 0) != SOURCE.octets(STREAM, 0)
    assert len(SOURCE.plan(3, 0, 1)) == ROUND
    assert {stream.tag for n in range(50) for stream in SOURCE.plan(n, 0, 1)} == set(
        range(len(TAGS))
    )
    assert mix(1, 2) != mix(2, 1)


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 40))
def test_elements_lie_apart_and_come_together_again(name, count):
    shape = SHAPES[name]
    octets = bytes(n % 251 for n in range(count * shape.octets))
    elements = scatter(shape, octets)
    assert len(elements) * elements.itemsize == space(shape, len(octets))
    more = array(shape.letter, bytes(space(shape, 10 * shape.octets)))
    assert gather(shape, elements + more, len(octets)) == octets


def test_memory_is_flat_within_a_limit():
    assert flat([100, 200, 110], 10) == ""
    assert flat([100, 100, 111], 10) == "11 octets more at the end than early"


# -- real jobs

OCTETS = "    octets = source.octets(stream, number)\n"
HIT = "stream == Stream(2, 0, 7) and number"


@pytest.fixture(scope="module")
def local() -> Backend:
    backend = LoopbackBackend()
    backend.prepare(["pure"])
    return backend


def soak(
    backend: Backend, mutation: Mutation | None = None, silence: int = 60
) -> Verdict:
    return soaked(backend, "soak.messages", mutation, silence=silence)


@pytest.mark.slow
def test_a_soak_on_real_ranks_passes(local):
    verdict = soak(local)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_a_soak_of_three_vendors_with_agents_passes(local):
    local.prepare(["pure", "mpich", "openmpi"])
    variant = "auth=challenge,form=native,hosts=node,limits=hiwater,amount=2s"
    verdict = soaked(
        local,
        "soak.messages",
        None,
        ("mpich", "openmpi", "pure"),
        "1x2+1x2+1x1",
        variant,
        silence=60,
    )
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "forged"),
    [
        ("doubled", f"    octets = source.octets(stream, number - ({HIT} == 9))\n"),
        (
            "changed",
            f"{OCTETS}    octets = bytes(len(octets)) if {HIT} == 9 else octets\n",
        ),
        ("lost", f"    octets = source.octets(stream, number + ({HIT} >= 9))\n"),
        (
            "reordered",
            f"    octets = source.octets(stream, {{9: 10, 10: 9}}.get(number, number) if {HIT} else number)\n",
        ),
    ],
)
def test_a_forged_message_is_told_by_name(local, kind, forged):
    verdict = soak(local, patched(OCTETS, forged))
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.checks"
    assert f"messages {kind}" in verdict.reason
    assert "of rank 2 to 0, tag 7 (octets in communicator any)" in verdict.reason


@pytest.mark.slow
def test_a_message_that_never_comes_ends_the_soak_by_name(local):
    verdict = soak(
        local,
        patched(OCTETS, f"    if {HIT} == 9:\n        return\n{OCTETS}"),
        silence=4,
    )
    assert verdict.outcome == "fail"
    assert "messages lost" in verdict.reason
    assert (
        "message 9 of rank 2 to 0, tag 7 (octets in communicator any) has not come"
        in verdict.reason
    )


def test_a_soak_is_not_captured():
    backend = FakeBackend()
    cell = parse_cell("soak.messages/pure+pure/1x2+1x2/amount=1s")
    lab = backend.open(cell.vendors, cell.topology, run="r")
    seen = run_cell(
        prepare(lab, "r"),
        cell,
        Limits(server=0.1, start=0.1, cell=0.1),
        threading.Event(),
    )
    assert not {"begin", "end"} & set(backend.log)
    assert (seen.evidence.captures, seen.captures) == (False, [])
