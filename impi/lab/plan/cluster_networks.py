"""The network and the events of a topology file, as settings of a variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from impi.base.errors import UsageError
from impi.lab.cases.ends.network_faults import NETWORK_FAULTS
from impi.lab.cases.faults import NETWORK_PHASES
from impi.lab.nodes.links import LINK_KEYS
from impi.lab.plan.variant import join, parse_variant

NETWORK_KEYS: Final = {
    "auth",
    "hosts",
    "connect",
    "ip",
    "reach",
    "net",
    "link",
    "event",
}
_PLAIN: Final = ("auth", "hosts", "connect", "ip", "reach", "net")


def network_settings(
    where: str, value: Mapping[str, object], clients: int
) -> dict[str, str]:
    """Return the settings of a file's keys. UsageError says what is wrong, and ``where``."""

    found = {key: str(value[key]) for key in _PLAIN if key in value}

    links = [
        _link(f"{where}, link {i}", each, clients)
        for i, each in enumerate(_tables(where, value, "link"))
    ]
    if links and "net" in found:
        raise UsageError(
            f"{where}: net is for all links and [[link]] for one; leave one of them out"
        )

    if links:
        found["net"] = "~".join(links)

    events = [
        _event(f"{where}, event {i}", each)
        for i, each in enumerate(_tables(where, value, "event"))
    ]
    if len(events) > 1:
        raise UsageError(
            f"{where} has {len(events)} events; a cell has one fault, so write a file for each"
        )

    if events:
        found["fault"] = events[0]

    try:
        return parse_variant(join("", found))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _tables(
    where: str, value: Mapping[str, object], key: str
) -> list[dict[str, object]]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{where}: {key} is not a table; write [[{key}]]")

    return found


def _link(where: str, given: Mapping[str, object], clients: int) -> str:
    """Return one ``[[link]]`` as a setting, such as ``c0-c1@delay:20ms``."""

    known = ("between", "net", *LINK_KEYS)
    for key in given:
        if key not in known:
            raise UsageError(
                f"{where}: there is no key {key!r}; there are {', '.join(known)}"
            )

    parties = ["server", *(f"c{i}" for i in range(clients))]

    between = given.get("between")
    if (
        not isinstance(between, list)
        or len(between) != 2
        or not all(party in parties for party in between)
    ):
        raise UsageError(
            f'{where}: between is {between!r}; name two of {", ".join(parties)}, such as ["c0", "c1"]'
        )

    words = [f"{key}:{given[key]}" for key in LINK_KEYS if key in given]
    if bool(words) == ("net" in given):
        raise UsageError(f"{where}: give either net or some of {', '.join(LINK_KEYS)}")

    return f"{between[0]}-{between[1]}@{given['net'] if 'net' in given else '+'.join(words)}"


def _event(where: str, given: Mapping[str, object]) -> str:
    """Return one ``[[event]]`` as a setting, such as ``partition@case``."""

    if set(given) != {"at", "do"}:
        raise UsageError(
            f'{where}: give at and do, and nothing else, such as at = "case", do = "partition"'
        )

    if given["do"] not in NETWORK_FAULTS:
        raise UsageError(
            f"{where}: do is {given['do']!r}; it is one of {', '.join(NETWORK_FAULTS)}"
        )

    if given["at"] not in NETWORK_PHASES:
        raise UsageError(
            f"{where}: at is {given['at']!r}; it is a phase: {', '.join(NETWORK_PHASES)}"
        )

    return f"{given['do']}@{given['at']}"
