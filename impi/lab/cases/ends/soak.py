"""The soaks: many messages, and many one-sided operations, in jobs of several vendors, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from impi.base.errors import UsageError
from impi.lab.cases.case import Case

_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,11})(s?)")
_CHECKS: Final = 10
_WINDOW_CHECKS: Final = 7
# Octets of the longest message: more than one packet of ours may have
_LONG: Final = 400_000
# Octets that a rank may grow by after the first tenth: 17 for each of a million messages.
_MEMORY: Final = 16 << 20
_SILENCE_S: Final = 120  # after this time something is lost: no cut lasts longer
_SLOWEST: Final = 50  # messages or operations a second of all ranks, on a slow network
_LEAST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Amount:
    """How much a soak does: a number of messages or operations, or for some seconds; one is 0."""

    count: int = 0
    seconds: int = 0

    @property
    def lasts_s(self) -> float:
        """Seconds that it may take on a machine without other load."""
        return _LEAST_S + self.seconds + self.count / _SLOWEST

    @property
    def params(self) -> dict[str, int]:
        return {"count": self.count, "seconds": self.seconds}


def parse_amount(text: str) -> Amount:
    """``20000`` messages or operations, or ``10s``. UsageError: it is neither."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not an amount; write a number of messages or operations, or seconds such as 10s"
        )

    return Amount(seconds=int(found[1])) if found[2] else Amount(count=int(found[1]))


WHOLE: Final = Amount(count=1_000_000)
"""The amount, unless the variant has another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakConfiguration:
    """One job of the soak."""

    about: str
    parties: str = "mpich+openmpi+pure"
    topology: str = "1x2+1x2+1x1"
    settings: str


_CUTS: Final = "fault=cuts@case"
CONFIGURATIONS: Final = (
    SoakConfiguration(
        about="a million messages, as users run them",
        settings="auth=challenge,form=native",
    ),
    SoakConfiguration(about="external32", settings="amount=200000"),
    SoakConfiguration(
        about="a host agent on each node",
        settings="auth=challenge,form=native,hosts=node,amount=200000",
    ),
    SoakConfiguration(
        about="one host agent for each client", settings="hosts=client,amount=200000"
    ),
    SoakConfiguration(about="IMPI 0.0 alone", settings="version=0.0,amount=200000"),
    SoakConfiguration(
        about="channels at the first message",
        settings="form=native,connect=lazy,amount=200000",
    ),
    SoakConfiguration(
        about="two packets under way",
        settings="form=native,limits=hiwater,amount=100000",
    ),
    SoakConfiguration(
        about="packets of 500 octets", settings="limits=datalen,amount=50000"
    ),
    SoakConfiguration(about="no spinning", settings="form=native,spin=0,amount=200000"),
    SoakConfiguration(
        about="agents with small packets and little credit",
        settings="form=native,hosts=node,limits=both,amount=5000",
    ),
    SoakConfiguration(
        about="two nodes of each client",
        parties="mpich+openmpi",
        topology="2x2+2x2",
        settings="auth=challenge,form=native,hosts=node,amount=100000",
    ),
    SoakConfiguration(
        about="a wide network",
        settings="auth=challenge,form=native,net=wan,amount=20000",
    ),
    SoakConfiguration(
        about="losses", settings="auth=challenge,form=native,net=lossy,amount=20000"
    ),
    SoakConfiguration(
        about="cuts that heal",
        settings=f"auth=challenge,form=native,{_CUTS},amount=100000",
    ),
    SoakConfiguration(
        about="cuts, delay and agents",
        settings=f"auth=challenge,form=native,hosts=node,net=delay:1ms,{_CUTS},amount=50000",
    ),
)
"""The cells of tier soak. Those with ``net`` or ``fault`` need a backend with a network."""

_AGENTS: Final = "auth=challenge,form=native,hosts=node"
WINDOW_CONFIGURATIONS: Final = (
    SoakConfiguration(
        about="a million operations: host agents, packets 1 ms late, cuts that heal",
        settings=f"{_AGENTS},net=delay:1ms,{_CUTS}",
    ),
    SoakConfiguration(
        about="as users run them", settings="auth=challenge,form=native,amount=100000"
    ),
    SoakConfiguration(
        about="a host agent on each node", settings=f"{_AGENTS},amount=50000"
    ),
    SoakConfiguration(about="external32", settings="amount=50000"),
    SoakConfiguration(
        about="two nodes of each client",
        parties="mpich+openmpi",
        topology="2x2+2x2",
        settings=f"{_AGENTS},amount=50000",
    ),
    SoakConfiguration(
        about="channels at the first message",
        settings="form=native,connect=lazy,amount=50000",
    ),
)
"""The cells of one-sided operations, likewise."""

SOAK_CASES: Final = (
    Case(
        "soak.messages",
        ("3.5", "3.6", "3.7.1", "3.7.2", "3.7.3", "3.8"),
        ("soak",),
        _CHECKS,
        lambda _roster, _nonce: (),
        params={"seed": None, "long": _LONG, "memory": _MEMORY, "silence": _SILENCE_S},
        traffic="unseen",
    ),
    Case(
        "soak.windows",
        (),
        ("soak", "window"),
        _WINDOW_CHECKS,
        lambda _roster, _nonce: (),
        params={"seed": None, "long": _LONG, "memory": _MEMORY, "silence": _SILENCE_S},
        traffic="unseen",
    ),
)
