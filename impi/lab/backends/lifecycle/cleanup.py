"""The labs that exist, their owners, and the removal of those without one.

A lab's parts carry labels (containers, networks, volumes), or lie in a folder with labels
(loopback), for any process to read. A lab is *live* while the process that opened it lives, or
while a reaper holds it and its time is not over (:mod:`.reaper`). Only an explicit wish removes a
live lab.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from impi.base.errors import ImpiError, LabError
from impi.lab.backends.lifecycle import ownership
from impi.lab.backends.lifecycle.held_labs import is_held, let_go
from impi.lab.nodes import Access, Build, Inventory, LabSeen, Terms, Topology

_LOOKS: Final = 2
# A lab this young may have been killed while the engine was still making it.
_LOOKS_AT_YOUNG: Final = 10
_YOUNG_S: Final = 60.0
_PAUSE_S: Final = 0.5
_MOST_S: Final = 90.0
_TRIES: Final = 4


def lease(
    backend: str,
    run: str,
    vendors: Sequence[str],
    topology: Topology,
    terms: Terms,
    *,
    lab: str = "",
    images: Mapping[str, str] | None = None,
    builds: Mapping[str, Build] | None = None,
) -> Access:
    """Return the access to a lab that this process opens now, without nodes yet.

    Args:
        backend: its name.
        run: the run's name.
        vendors: by client.
        topology: the lab's.
        terms: they decide when its time is over.
        lab: its name; empty: one after the run.
        images: ids by name.
        builds: by vendor; those of other vendors are left out.
    """
    return Access(
        backend=backend,
        lab=lab or f"{run}-{secrets.token_hex(3)}",
        run=run,
        vendors=tuple(vendors),
        topology=topology,
        # In whole seconds, as labels have them.
        expires=float(int(time.time() + terms.ttl_s)),
        images=dict(images or {}),
        builds={
            vendor: build
            for vendor, build in (builds or {}).items()
            if vendor in vendors
        },
    )


def new_labels(access: Access, name: str) -> dict[str, str]:
    """Return the labels of a lab that this process opens now; all values are text.

    Args:
        access: its lease.
        name: the user's name for it, or empty.
    """
    return {
        "lab": access.lab,
        "run": access.run,
        "name": name,
        "owner": ownership.myself(),
        "user": _user(),
        "created": str(int(time.time())),
        "expires": str(int(access.expires)),
        "parties": "+".join(access.vendors),
        "topology": str(access.topology),
    }


def lab_seen(lab: str, labels: Mapping[str, str], parts: Sequence[str]) -> LabSeen:
    """Return a lab, or its remains, in its present state.

    State: ``running`` while its owner lives, ``kept`` while a reaper holds it, else ``left over``.
    """
    now, expires = time.time(), _number(labels.get("expires", ""))
    # A lab is live while its opener lives, whatever its labels say of its time.
    if ownership.is_live(labels.get("owner", "")):
        state = "running"
    else:
        state = "kept" if now < expires and is_held(lab) else "left over"

    return LabSeen(
        lab=lab,
        labels=dict(labels),
        parts=tuple(parts),
        state=state,
        age_s=now - _number(labels.get("created", "")),
        left_s=expires - now,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A choice of labs; each condition narrows it."""

    older_than_s: float = 0.0
    # Values by name; None: any value but the empty one.
    labels: Mapping[str, str | None] = field(default_factory=dict)
    owner: str = ""  # a user's name, or the number of the process that opened the lab
    everything: bool = False  # live labs, too

    def picks(self, seen: LabSeen) -> bool:
        labels = seen.labels
        if seen.age_s < self.older_than_s:
            return False

        for name, value in self.labels.items():
            if not labels.get(name) or value not in (None, labels[name]):
                return False

        if self.owner and self.owner not in (
            labels.get("user", ""),
            _process(labels.get("owner", "")),
        ):
            return False

        return self.everything or seen.state == "left over"


def clean(inventory: Inventory, choice: Choice) -> list[str]:
    """Remove the chosen labs; return descriptions. LabError: one stays, the others are removed.

    An engine may still execute the last request of a killed process. So the search repeats until
    nothing is new, and longer for labs young enough to have been killed in the making.
    """

    removed: list[str] = []
    stuck: dict[str, list[LabError]] = {}

    deadline, quiet, enough = time.monotonic() + _MOST_S, 0, _LOOKS
    while quiet < enough and time.monotonic() < deadline:
        # An engine refuses while a part is still in use; after some tries the lab is reported.
        meant = [
            seen
            for seen in inventory.find()
            if len(stuck.get(seen.lab, ())) < _TRIES and choice.picks(seen)
        ]
        for seen in meant:
            try:
                removed += [
                    what for what in inventory.remove(seen) if what not in removed
                ]
                stuck.pop(seen.lab, None)
            except LabError as error:
                # A part may have been added just now; a lab that stays must not keep the others.
                stuck.setdefault(seen.lab, []).append(error)

            # A young lab makes the search longer, and never shorter again.
            enough = _LOOKS_AT_YOUNG if seen.age_s < _YOUNG_S else enough

        # Quiet searches in a row: one that found something begins the count anew.
        quiet = 0 if meant else quiet + 1
        if quiet < enough:
            time.sleep(_PAUSE_S)

    # All others are gone by now. The error of the last try is told.
    for reasons in stuck.values():
        raise reasons[-1]

    return removed


def remove_lab(inventory: Inventory, lab: str) -> list[str]:
    """Remove the lab of that name, of any user; a held one by its reaper. Return descriptions."""
    # A held lab is removed by its reaper, which keeps its sockets open.
    removed = let_go(lab) or []
    return removed + [
        what
        for seen in inventory.find()
        if seen.lab == lab
        for what in inventory.remove(seen)
    ]


def remove_expired(inventory: Inventory) -> None:
    """Remove expired labs that are left over; ``clean`` and ``doctor`` report parts that stay."""
    for seen in inventory.find():
        # Containers end by themselves; networks, volumes and folders do not.
        if seen.state == "left over" and seen.left_s < 0:
            with contextlib.suppress(ImpiError):
                inventory.remove(seen)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _process(label: str) -> str:
    return label.split("/")[2] if label.count("/") == 3 else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
