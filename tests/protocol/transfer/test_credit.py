"""IMPI 3.6: the two counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.transfer import AckCounter, CreditWindow


@pytest.mark.clause("3.6")
def test_window_stops_at_hiwater_and_opens_by_ackmark():
    window = CreditWindow(ackmark=2, hiwater=3)
    for _ in range(3):
        assert window.open
        window.take()
    assert not window.open
    with pytest.raises(LocalProtocolError, match=r"3 packets are unacknowledged.*3\.6"):
        window.take()
    window.acknowledged()
    assert window.sent == 1 and window.open


@pytest.mark.clause("3.6")
def test_acknowledging_more_than_was_sent_is_the_peers_fault():
    window = CreditWindow(ackmark=2, hiwater=3)
    window.take()
    with pytest.raises(PeerError, match=r"acknowledges 2 packets, but only 1 .*3\.6"):
        window.acknowledged()
    assert window.sent == 1


@pytest.mark.clause("3.9")
@pytest.mark.parametrize(("ackmark", "hiwater"), [(0, 1), (2, 1), (-1, 5)])
def test_both_refuse_what_3_9_forbids(ackmark, hiwater):
    for refuses in (CreditWindow, AckCounter):
        with pytest.raises(LocalProtocolError, match=r"3\.9"):
            refuses(ackmark, hiwater)


def test_a_packet_beyond_hiwater_is_an_error_only_while_it_is_certain():
    counter = AckCounter(2, 5)
    assert [counter.received() for _ in range(5)] == [False, True, False, True, False]
    counter.held = 2  # neither of the two has been given to TCP
    with pytest.raises(
        PeerError, match=r"while 5 were unacknowledged.*hiwater, 5.*3\.6"
    ):
        counter.received()
    counter.held = 1  # one may have arrived by now
    assert counter.received()
    assert not counter.received()


@pytest.mark.clause("3.6")
@given(ackmark=st.integers(1, 9), packets=st.integers(0, 100))
def test_one_acknowledgement_every_ackmark(ackmark, packets):
    counter = AckCounter(ackmark, ackmark)
    due = [i for i in range(1, packets + 1) if counter.received()]
    assert due == [i for i in range(1, packets + 1) if i % ackmark == 0]
    assert counter.unacknowledged == packets % ackmark


@pytest.mark.clause("3.6")
@given(
    ackmark=st.integers(1, 9),
    more=st.integers(0, 9),
    order=st.lists(st.booleans(), max_size=200),
)
def test_a_full_window_is_always_owed_an_acknowledgement(ackmark, more, order):
    window, counter, acks, in_pipe = (
        CreditWindow(ackmark, ackmark + more),
        AckCounter(ackmark, ackmark + more),
        0,
        0,
    )
    for send in order:
        if send and window.open:
            window.take()
            in_pipe += 1
        elif in_pipe:
            in_pipe -= 1
            acks += counter.received()
        assert 0 <= window.sent <= ackmark + more
        if not window.open and not in_pipe:
            assert acks > 0
        if acks and not send:
            acks -= 1
            window.acknowledged()
