"""A small job of our own, and what its clients contribute."""

from collections.abc import Callable
from typing import Any

import pytest

from impi.protocol.options import Offer
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.wire import addresses


@pytest.fixture
def facts_of() -> Callable[..., ClientFacts]:
    """``facts_of(client, (procs of host 0, ...), **others)``, addresses 10.0.CLIENT.HOST."""

    def make(
        client: int,
        shares: tuple[int, ...] = (1,),
        representation: bytes = b"",
        software: bytes = b"",
        **offer: Any,
    ) -> ClientFacts:
        hosts = []
        for host, nprocs in enumerate(shares):
            address = addresses.from_text(f"10.0.{client}.{host}")
            hosts.append(
                HostFacts(
                    address,
                    5000 + host,
                    tuple(ProcFacts(address, 100 + i) for i in range(nprocs)),
                )
            )
        return ClientFacts(
            hosts=tuple(hosts),
            offer=Offer(**offer),
            representation=representation,
            software=software,
        )

    return make
