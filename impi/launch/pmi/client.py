"""A proc's side of PMI, without a socket: PMI-1, and the fence of PMI-2 that Slurm speaks.

How it works: you write the octets that a method returns, and give everything that you read to
:meth:`Client.read` until it returns the answer. PMI-2 begins with a line of PMI-1. It goes on with
queries of ``name=value;``, each after its length in six digits.
"""

from __future__ import annotations

from typing import Final

from impi.base.errors import PeerError
from impi.launch.pmi.lines import MOST_LINE, Query, QueryReader, encode

_HEAD: Final = 6  # octets of the length before a query of PMI-2

# The commands of PMI-1 and of PMI-2, each with the command of its answer.
_QUERIES: Final = {
    "enter": (("get_maxes", "maxes"), ("fullinit", "fullinit-response")),
    "named": (("get_my_kvsname", "my_kvsname"), ("job-getid", "job-getid-response")),
    "put": (("put", "put_result"), ("kvs-put", "kvs-put-response")),
    "fence": (("barrier_in", "barrier_out"), ("kvs-fence", "kvs-fence-response")),
    "get": (("get", "get_result"), ("kvs-get", "kvs-get-response")),
    "leave": (("finalize", "finalize_ack"), ("finalize", "finalize-response")),
}


class Client:
    """One proc's queries and answers.

    Args:
        version: version of PMI, 1 or 2.
        rank: rank of the proc, from ``PMI_RANK``.
        job: value of ``PMI_JOBID``, without which Slurm refuses PMI-2; empty: there is none.
    """

    def __init__(self, version: int, rank: int, job: str = "") -> None:
        self._version, self._rank = version, rank
        self._job = {"pmijobid": job} if job else {}
        self._reader = QueryReader()
        self._received = bytearray()
        self._waits_for: str | None = None
        self._begun = False

    def begin(self) -> bytes:
        minor = 1 if self._version == 1 else 0
        return self._asked(
            "response_to_init",
            encode("init", pmi_version=self._version, pmi_subversion=minor),
        )

    def enter(self) -> bytes:
        place = {**self._job, "pmirank": self._rank, "threaded": "FALSE"}
        return self._ask("enter", **({} if self._version == 1 else place))

    def named(self) -> bytes:
        """Return the query for the name of the job: ``kvsname``, or ``jobid`` in PMI-2."""
        return self._ask("named")

    def put(self, job: str, key: str, value: str) -> bytes:
        """Return the query that puts a value; all procs can get it after the next fence."""
        space = {"kvsname": job} if self._version == 1 else {}
        return self._ask("put", **space, key=key, value=value)

    def fence(self) -> bytes:
        return self._ask("fence")

    def get(self, job: str, key: str) -> bytes:
        space = {"kvsname": job} if self._version == 1 else {"jobid": job, "srcid": -1}
        return self._ask("get", **space, key=key)

    def leave(self) -> bytes:
        return self._ask("leave")

    def read(self, data: bytes) -> Query | None:
        """Return the answer to the last query once ``data`` completes it; else None.

        Raises:
            PeerError: it answers another query, or says that the query has failed.
        """

        if self._version == 1 or not self._begun:
            answers = list(self._reader.feed(data))
        else:
            answers = self._framed(data)

        if not answers:
            return None

        # One query is under way at a time, so a second answer belongs to none.
        [answer] = answers if len(answers) == 1 else answers[:1]
        if answer.command != self._waits_for or len(answers) > 1:
            raise PeerError(
                f"the process manager answered {answer.command[:32]!r} in place of {self._waits_for!r}"
            )

        self._begun = True

        self._waits_for = None
        # PMI-2 answers the query for a key that no proc has put by rc=0 and found=FALSE.
        if (
            answer.fields.get("rc", "0") != "0"
            or answer.fields.get("found", "TRUE").upper() == "FALSE"
        ):
            why = (
                answer.fields.get("msg")
                or answer.fields.get("errmsg")
                or "without a reason"
            )
            raise PeerError(
                f"the process manager refused: {answer.command} says {why[:80]}"
            )

        return answer

    def _ask(self, query: str, **fields: object) -> bytes:
        command, answer = _QUERIES[query][self._version - 1]
        if self._version == 1:
            return self._asked(answer, encode(command, **fields))

        text = "".join(
            f"{name}={value};" for name, value in {"cmd": command, **fields}.items()
        ).encode()

        return self._asked(answer, b"%*d%b" % (_HEAD, len(text), text))

    def _asked(self, answer: str, octets: bytes) -> bytes:
        self._waits_for = answer
        return octets

    def _framed(self, data: bytes) -> list[Query]:
        self._received += data

        found = []
        while len(self._received) >= _HEAD:
            # Blanks fill the six places of the length.
            head = bytes(self._received[:_HEAD]).strip()
            if not head.isdigit() or int(head) > MOST_LINE:
                raise PeerError(
                    "an answer of PMI-2 does not begin with its length",
                    octets=bytes(self._received[:32]),
                )

            end = _HEAD + int(head)
            if len(self._received) < end:
                break

            text = bytes(self._received[_HEAD:end]).decode("utf-8", "replace")
            del self._received[:end]
            words = dict(
                word.partition("=")[::2]
                for word in text.rstrip("\n").split(";")
                if "=" in word
            )
            found.append(Query(words.pop("cmd", ""), words))

        return found
