"""Real jobs with large derived datatypes: in place and packed, native and external32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "derived.py")


@pytest.mark.parametrize(
    "shortest", ["", "0", "1000000000"], ids=["as measured", "in place", "packed"]
)
@pytest.mark.parametrize(
    "options", [[], ["--external32"]], ids=["native", "external32"]
)
def test_every_call(
    shortest: str, options: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job(
        [PROGRAM],
        ["pure:1"] * 2,
        options={0: options},
        environ={"IMPI_ZERO_COPY": shortest},
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


def test_one_packs_and_the_other_does_not(run_job: Callable[..., Any]) -> None:
    """It is nothing that the other end can see."""
    environ_of = {0: {"IMPI_ZERO_COPY": "0"}, 1: {"IMPI_ZERO_COPY": "1000000000"}}
    options = {0: ["--datalen", "5000"]}
    result = run_job(
        [PROGRAM], ["mpich:1", "openmpi:1"], options=options, environ_of=environ_of
    )
    assert set(result.codes) == {0}, str(result)


def test_a_wrong_number(run_job: Callable[..., Any]) -> None:
    result = run_job(
        [PROGRAM], ["pure:1"] * 2, environ={"IMPI_ZERO_COPY": "4K"}, joins=False
    )
    assert 0 not in result.codes[1:]
    said = "".join(client.err for client in result.clients)
    assert (
        "IMPI_ZERO_COPY: '4K' is not a number of octets" in said
        and "Traceback" not in said
    )
