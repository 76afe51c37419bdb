"""Any arguments of all verbs of impilab and impi, and any values of variables: no traceback.

Verbs that read runs and select cells do their work, in an empty folder and with one run. What
would start a lab or a job, or write outside of that folder, is replaced.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from any_input import CELL, RECORD, RESULTS, RUN, STARTED, VALUES, any_settings, code_of
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import ImpiError, UsageError
from impi.cli import impi, impilab
from impi.protocol.settings import SPIN, ZERO_COPY
from impi.protocol.startup.auth import ALL, find_credentials, names_key, relay_key
from impi.rank.engine.job import join

ANY = any_settings(20)
WORDS = st.sampled_from(
    [
        *("", "-", "--", "1", "-1", "0", "1e400", "nan", "inf", "99999", "9" * 5000),
        *("²", "٣", "1/2", "0/0", "5/2", "1:2", "a b", "no\n", "*", "[", "(", "{"),
        *("@", "\udcff", "x=y", "=", ",", "p2p.ring", "p2p", "mpich", "pure", "local"),
        *("docker", "ssh:", "ssh:none", "smoke", "core", "1x2+1x2", "x+y", "2.3", CELL),
        *("latest", "1", "2", "runs", "runs/1", "2030-01-01", "10s", "none/none"),
    ]
)
REPLACED = frozenset(
    (
        *("new", "demo", "vendor-ci", "check", "up", "down", "ssh", "exec", "logs"),
        *("net", "clean", "bisect", "abi", "status", "doctor", "unbundle", "publish"),
        "serve",
        *("bench", "tune", "simulate", "conform"),
    )
)
CODES = (*range(7), 125, STARTED)


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions: list[Any] = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return {name: verb for action in actions for name, verb in action.choices.items()}


def flags_of(verb: argparse.ArgumentParser) -> list[str]:
    return [flag for action in verb._actions for flag in action.option_strings]


def started(*_: object) -> int:
    return STARTED


def chosen(_: str | None) -> Any:
    raise UsageError("there is no lab here")


ENDS = {"impilab": impilab.parser_of_all(), "impi": impi.parsers()[0]}
VERBS = sorted(
    (program, verb) for program, parser in ENDS.items() for verb in verbs_of(parser)
)


@pytest.fixture
def one_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    folder = tmp_path / "runs" / "1"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(RUN))
    (folder / "results.jsonl").write_text(json.dumps(RECORD) + "\n")
    (folder / "results.json").write_text(json.dumps(RESULTS))
    (tmp_path / "runs" / "latest").symlink_to("1")
    make, both = impilab.parser_of_all, impi.parsers

    def replaced(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        for name, verb in verbs_of(parser).items():
            if name in REPLACED:
                verb.set_defaults(handler=started)
        return parser

    def parsers() -> Any:
        parser, verbs = both()
        return replaced(parser), verbs

    monkeypatch.setattr(impilab, "parser_of_all", lambda: replaced(make()))
    monkeypatch.setattr(impi, "parsers", parsers)
    yield


@pytest.mark.parametrize(("program", "verb"), VERBS)
def test_arguments_of_each_verb(
    program: str, verb: str, one_run: None, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = flags_of(verbs_of(ENDS[program])[verb])

    def main(argv: list[str]) -> int:
        if program == "impi":
            return impi.main(argv)
        return impilab.main(argv, choose=chosen)

    @ANY
    @given(st.lists(st.sampled_from(flags) | WORDS, max_size=5))
    def one(argv: list[str]) -> None:
        assert code_of(main, [verb, *argv]) in CODES
        assert "Traceback" not in capfd.readouterr().err

    one()


AUTH = ("IMPI_AUTH_SECRET", "IMPI_AUTH_KEY", "IMPI_AUTH_NONE")


@ANY
@given(st.dictionaries(st.sampled_from(AUTH), WORDS | st.text(max_size=40)))
def test_variables_of_secrets(one_run: None, environ: dict[str, str]) -> None:
    for read in (
        lambda: find_credentials(environ, ALL),
        lambda: names_key(environ),
        lambda: relay_key(environ),
    ):
        try:
            read()
        except ImpiError as error:
            assert "\n" not in str(error)


@ANY
@given(st.sampled_from([SPIN, ZERO_COPY]), WORDS)
def test_variables_of_procs(variable: Any, value: str) -> None:
    try:
        variable.of({variable.variable: value})
    except ImpiError as error:
        assert "\n" not in str(error)


@ANY
@given(VALUES | st.dictionaries(st.just("vendor"), VALUES))
def test_an_invitation_that_is_none(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for text in (json.dumps(value), "[" * 100_000, "\udcff"):
            patch.setenv(join.VARIABLE, text)
            try:
                join.invited()
            except ImpiError as error:
                assert "\n" not in str(error)
