"""examples/scale: what the page says its commands print is what they print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from impi.base.units import SECOND, show_time
from impi.cli.impi import main
from impi.tools.simulate.model.shape import DEFAULT_LIMITS

PAGE = (Path(__file__).parents[3] / "examples" / "scale" / "README.md").read_text()
COMMANDS = re.findall(r"^ +impi (simulate [^#\n]+?) +# (.+)$", PAGE, re.MULTILINE)
SECONDS = {"startup": "danced", "collective": "time"}


def rows_of(command: str, tmp_path: Path) -> list[dict[str, Any]]:
    file = tmp_path / "out.json"
    assert main([*shlex.split(command), "--json", str(file)]) == 0
    return json.loads(file.read_text())["rows"]


def shown(seconds: float) -> str:
    return show_time(round(seconds * SECOND))


def takes_long(command: str) -> bool:
    """Start-up of 100 000 processes, and 16 000 messages that each proc sends by itself."""
    return "startup" in command or ("alltoall" in command and "masters" not in command)


@pytest.mark.parametrize(
    ("command", "figures"),
    [
        pytest.param(*both, marks=[pytest.mark.proof] if takes_long(both[0]) else [])
        for both in COMMANDS
    ],
)
def test_a_command_prints_what_the_page_says(
    command: str, figures: str, tmp_path: Path
) -> None:
    name = SECONDS[command.split()[1]]
    rows = rows_of(command, tmp_path)
    assert ", ".join(shown(row[name]) for row in rows) == figures
    if name == "danced":
        lines = [
            f"| `--hosts {row['hosts']}` | {shown(row['negotiated'])} | {shown(row['danced'])} "
            f"| {row['connections']:,} | {row['most_connections']:,} |".replace(
                ",", " "
            )
            for row in rows
        ]
        assert "\n".join(lines) in PAGE


def test_the_page_has_commands_and_the_defaults_of_a_job() -> None:
    assert len(COMMANDS) > 15
    text = " ".join(PAGE.split())
    octets = DEFAULT_LIMITS.hiwater * DEFAULT_LIMITS.datalen
    assert (
        f": {DEFAULT_LIMITS.hiwater} of {DEFAULT_LIMITS.datalen >> 10} KiB, {octets >> 20} MiB a round trip"
        in text
    )
    assert f"default limit for stars, {DEFAULT_LIMITS.maxlinear} masters," in text
    assert f"gather of {DEFAULT_LIMITS.xsize >> 10} KB and more" in text
