"""Evidence as values: what a rank is in, and what is written to disk."""

from __future__ import annotations

import json

from impi.lab.evidence.call_logs import WORLD_NAME, Call
from impi.lab.evidence.gathered import (
    Evidence,
    FaultSeen,
    HostTold,
    RankSeen,
    StartUp,
    Wire,
)

DONE = Call(number=1, name="Send", began=1.0, ended=2.0, comm=WORLD_NAME, dest=2)
OPEN = Call(number=2, name="Recv", began=3.0, comm=WORLD_NAME, source=2)


def rank(*calls: Call) -> RankSeen:
    return RankSeen(node="c0n0", client=0, pid=7, rank=1, calls=calls)


def test_a_rank_is_in_its_last_call_until_that_returns() -> None:
    assert rank(DONE, OPEN).call is OPEN
    assert rank(OPEN, DONE).call is None
    assert rank().call is None


def test_evidence_is_written_as_json_with_all_its_parts() -> None:
    host = HostTold(client=0, address="10.0.0.1", port=5, ranks=(0, 1))
    wire = Wire(startup=StartUp(hosts=(host,), reached={0: "done"}))
    seen = Evidence(
        captures=True,
        ranks=(rank(DONE),),
        wire=wire,
        fault=FaultSeen(kind="kill", phase="recv", began=True),
    )
    told = json.loads(json.dumps(seen.to_json()))
    assert told["ranks"][0]["calls"][0]["name"] == "Send"
    assert told["wire"]["hosts"][0]["ranks"] == [0, 1]
    assert told["wire"]["reached"] == {"0": "done"}
    assert told["wire"]["missing"] == told["wire"]["owed"] == []
    assert (told["fault"]["kind"], told["look"], told["timed_out"]) == (
        "kill",
        None,
        False,
    )
