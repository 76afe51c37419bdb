"""The items together: each catches something, and a job is asked for those of its end."""

from __future__ import annotations

import pytest
from cell_faults import (
    FAULTS,
    WRONG_KEY,
    after_fini,
    another_disk,
    bad_impirun,
    bad_status,
    early_protoack,
    fewer_checks,
    leaves_a_child,
    leaves_a_process,
    no_barrier_at_the_end,
    no_client_fini,
    no_credit,
    no_host_fini,
    no_library,
    no_local_messages,
    no_protoack,
    nobody_looked,
    one_message_less,
    one_message_twice,
    silent_server,
    small_vendor_world,
    stray_syncack,
    swapped,
    unknown_context,
    unknown_tag,
    wrong_check,
    wrong_count,
    wrong_library,
    wrong_lsrank,
)
from judged import PAIR, failed, run

from impi.lab.cases import CASES
from impi.lab.judge.items import FROM_WIRE, ITEMS, OF_A_REFUSAL
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ELSEWHERE = {
    *("start.refused", "fault.ended", "fault.named", "end.code", "end.output"),
    "traffic.sealed",
}
"""Items of jobs that must not begin, or must end by a fault, of programs of users, and of TLS."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "topology", ["1x2+1x2", "2x2+1x2", "1x2+1x2+1x2", "1x1+1x1", "1x2+1x2+1x2+1x2+1x2"]
)
def test_a_good_job_passes(case, topology):
    vendors = ("pure", "mpich", "openmpi", "mpich", "pure")[: topology.count("+") + 1]
    variant = CASES[case].variants[0]
    # A forged lab has no compiler: the judge asks the same of a program in C.
    variant = "" if variant.startswith("abi=") else variant
    verdict = run(cell=(case, vendors, topology), variant=variant)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    asked = (
        set(ITEMS)
        - ELSEWHERE
        - (set() if (CASES[case].traffic != "unseen") else FROM_WIRE)
    )
    assert {item.name for item in verdict.items} == (
        OF_A_REFUSAL if refused(case) else asked
    )
    assert verdict.self_reported is not (CASES[case].traffic != "unseen")


def test_only_a_soak_is_not_captured():
    assert [case.name for case in CASES.values() if case.traffic == "unseen"] == [
        "soak.messages",
        "soak.windows",
    ]


def refused(case):
    return (
        CASES[case].ends(Roster.of(parse_topology("1x2+1x2"), PAIR[1])).refused
        is not None
    )


def test_without_captures_a_pass_is_self_reported():
    verdict = run(captures=False)
    assert verdict.outcome == "pass"
    assert verdict.self_reported
    assert {item.name for item in verdict.items} == set(ITEMS) - FROM_WIRE - ELSEWHERE


ALONE = [
    *(
        wrong_library,
        no_library,
        nobody_looked,
        small_vendor_world,
        no_local_messages,
        another_disk,
        wrong_check,
    ),
    *(
        fewer_checks,
        one_message_less,
        swapped,
        bad_status,
        bad_impirun,
        no_host_fini,
        no_client_fini,
    ),
    *(
        leaves_a_process,
        leaves_a_child,
        stray_syncack,
        early_protoack,
        no_credit,
        no_protoack,
        after_fini,
    ),
    *(
        one_message_twice,
        unknown_tag,
        unknown_context,
        wrong_lsrank,
        wrong_count,
        no_barrier_at_the_end,
    ),
]


@pytest.mark.parametrize("fault", ALONE, ids=[f.__name__ for f in ALONE])
def test_some_faults_are_seen_by_one_item_only(fault):
    assert len(failed(run(fault))) == 1


def test_every_item_catches_something():
    caught = set().union(*(failed(run(f[0])) for f in FAULTS))
    caught |= failed(run(lambda job: job.dropped.update(c0n0=3)))
    # Keys were asked for by nobody
    caught |= failed(run(cell=("startup.key", *PAIR[1:]), variant=""))
    caught |= failed(run(lambda job: job.methods.update({1: 1})))
    # test_items_identity.py
    caught |= {"identity.launcher", "identity.transport", "start.address", "end.secret"}
    caught |= failed(run(lambda job: job.link.update(arrived=0), variant="net=wan"))
    caught |= failed(run(silent_server, cell=WRONG_KEY, variant="auth=wrong"))
    # Its program has no such phase
    caught |= failed(run(variant="fault=partition@case"))
    caught |= {"fault.ended", "fault.named"}  # test_items_fault.py
    caught |= {"end.code", "end.output", "end.labels"}  # test_items_own.py
    caught |= failed(run(variant="auth=tls"))  # nothing of it is in TLS
    assert caught == set(ITEMS)
