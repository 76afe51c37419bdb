"""Schemas of the files that people write, from the tables that read them; and their page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from impi.base import manifests
from impi.lab.cases.ends.network_faults import NETWORK_FAULTS
from impi.lab.cases.faults import NETWORK_PHASES
from impi.lab.judge import expectations
from impi.lab.judge.verdict import PHASES
from impi.lab.nodes.links import LINK_KEYS, PROFILES
from impi.lab.nodes.parties import KNOWN_DEVIATIONS
from impi.lab.plan import cluster_networks, clusters
from impi.lab.plan.variant import SETTINGS

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_NUMBER: _Schema = {"type": "integer", "minimum": 1, "maximum": 999}


def _one_of(values: Iterable[str]) -> _Schema:
    return {"enum": [*values]}


def _table(keys: _Schema, *required: str) -> _Schema:
    more = {"required": [*required]} if required else {}
    return {
        "type": "object",
        "properties": keys,
        "additionalProperties": False,
        **more,
    }


def _rows(row: _Schema) -> _Schema:
    return {"type": "array", "items": row}


def _map_of(value: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": value}


def manifest() -> _Schema:
    """Return the schema of ``images/NAME/NAME.toml``."""
    plain: dict[type, _Schema] = {str: _TEXT, list: _TEXTS, dict: _map_of(_TEXT)}
    keys = {name: plain[kind] for name, kind in manifests._KEYS.items()}
    row = _table({"cells": _TEXT, "reason": _TEXT}, "cells", "reason")
    settings = {name: _map_of(_TEXT) for name in manifests.CONDITIONS}
    keys |= {
        "kind": _one_of(manifests.KINDS),
        "launcher": _one_of(manifests.LAUNCHERS),
        "tier": _one_of(manifests.TIERS),
        "settings": _table(settings),
        "leaves": _table(dict.fromkeys(manifests.LEAVES, _TEXTS)),
        "unsupported": _rows(row),
        "deviations": _rows(_one_of(KNOWN_DEVIATIONS)),
    }
    return _table(keys, "title", "kind")


def expectation() -> _Schema:
    """Return the schema of ``ci/expectations.toml``."""
    keys = dict.fromkeys(expectations._KEYS, _TEXT) | {
        "cells": {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}]},
        "result": _one_of(expectations.RESULTS),
        "phase": _one_of(PHASES),
        "issue": {"type": "string", "pattern": r"^https?://[^/\s]+/\S+$"},
        "until": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 1},
    }
    return _table({"expect": _rows(_table(keys, *expectations._REQUIRED))})


def cluster() -> _Schema:
    """Return the schema of ``clusters/NAME.toml``."""
    client = _table(
        dict.fromkeys(sorted(clusters._CLIENT_KEYS), _NUMBER),
        *sorted(clusters._CLIENT_KEYS),
    )
    between = {**_TEXTS, "minItems": 2, "maxItems": 2}
    link = dict.fromkeys(LINK_KEYS, _TEXT) | {
        "between": between,
        "net": _one_of(PROFILES),
    }
    event = {"do": _one_of(NETWORK_FAULTS), "at": _one_of(NETWORK_PHASES)}
    numbers = [int(value) for value in SETTINGS["ip"].values if value.isdigit()]
    keys: _Schema = dict.fromkeys(sorted(clusters._KEYS), _TEXT)
    for name in cluster_networks._PLAIN:
        if SETTINGS[name].values:
            keys[name] = _one_of(SETTINGS[name].values)
    keys |= {
        "ip": {"enum": [*SETTINGS["ip"].values, *numbers]},
        "parties": _TEXTS,
        "client": {**_rows(client), "minItems": 1},
        "link": _rows(_table(link, "between")),
        "event": {**_rows(_table(event, "at", "do")), "maxItems": 1},
    }
    return _table(keys, "client")


_MADE = {
    "cluster.schema.json": (cluster, "a topology: clusters/NAME.toml"),
    "expectations.schema.json": (
        expectation,
        "cells known not to pass: ci/expectations.toml",
    ),
    "manifest.schema.json": (manifest, "a vendor: images/NAME/NAME.toml"),
}


def schemas() -> dict[str, str]:
    """Return the texts of all schemas, by their names."""
    return {
        name: json.dumps(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "title": title,
                **make(),
            },
            indent=1,
        )
        + "\n"
        for name, (make, title) in _MADE.items()
    }
