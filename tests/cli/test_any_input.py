"""Anything as arguments, files and variables: an exit code and one sentence, and no traceback.

Whatever would start a job, a lab or a page is replaced: a command line that gets there is right.
"""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from any_input import RECORD, RESULTS, RUN, STARTED, VALUES, any_settings, code_of
from hypothesis import given
from hypothesis import strategies as st

from impi.base import manifests
from impi.base.errors import ImpiError
from impi.cli import impi, impirun
from impi.lab.backends.ssh.hosts_file import read_hosts
from impi.lab.conform.campaign import Campaign
from impi.lab.conform.report import verdict_reports
from impi.lab.conform.script.script_files import all_tests, read_test
from impi.lab.judge import expectations
from impi.lab.plan import clusters
from impi.lab.report import history, results
from impi.launch.server.appfile import read_appfile
from impi.launch.start import nodes
from impi.protocol.decisions import Decisions
from impi.protocol.options import OPTIONS
from impi.tools.bench import run_file

TESTS = all_tests()  # 231 files
ANY = any_settings(60)
WORDS = st.sampled_from(
    [
        *(
            "",
            "-",
            "--",
            ":",
            "1",
            "-1",
            "0",
            "2",
            "1e400",
            "nan",
            "inf",
            "99999",
            "9" * 40,
            "9" * 5000,
            "٣",
            "²",
        ),
        *(
            "127.0.0.1:99999",
            "127.0.0.1:-1",
            "h:1",
            "[::1]:1",
            "::",
            "a:2,b",
            "a,a",
            "0.0",
            "\udcff",
            "a b",
        ),
        *(
            "no\n",
            "/dev/null",
            "/",
            "/proc/self/mem",
            "@/",
            "mpich",
            "pure",
            "x=y",
            "p.py",
            "true",
            "*",
            "[",
            "(",
            "{",
        ),
    ]
)


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(*_: object, **__: object) -> int:
        return STARTED

    for name in (
        "client.session.run_client",
        "server.loop.run_server",
        "relay.far_end.run_relay",
    ):
        monkeypatch.setattr(f"impi.launch.{name}", started)
    monkeypatch.setattr(Campaign, "run", lambda _: [])
    monkeypatch.setattr("impi.cli.conform.all_tests", lambda: TESTS)
    monkeypatch.setattr("impi.cli.conform.run_server", lambda *_: [])
    monkeypatch.setattr(
        "impi.lab.conform.report.web_page.Page.serve",
        lambda page: page._server.server_close(),
    )
    listen = socket.create_server

    def unresolved(address: tuple[str, int], **others: Any) -> socket.socket:
        """Listen at numbers only: a resolver takes seconds for each name that there is not."""
        if address[0].strip("0123456789.:"):
            address[0].encode("idna")
            raise socket.gaierror(-2, "Name or service not known")
        return listen(address, **others)

    monkeypatch.setattr(socket, "create_server", unresolved)
    monkeypatch.chdir(tmp_path)


FLAGS = sorted(
    {flag for option in OPTIONS.values() for flag in option.flags.split()}
    | {"-client", "-host", "-x"}
)


@ANY
@given(st.lists(st.sampled_from(FLAGS) | WORDS, max_size=7))
def test_arguments_of_impirun(nothing_starts: None, argv: list[str]) -> None:
    assert code_of(impirun.main, argv) in (0, 4, STARTED)


@ANY
@given(
    st.sampled_from(FLAGS),
    WORDS,
    st.sampled_from(["", "-server 2", "-client 0 h:1", "-relay"]),
)
def test_each_option_of_impirun_with_any_value(
    nothing_starts: None, flag: str, value: str, side: str
) -> None:
    assert code_of(impirun.main, [*side.split(), flag, value, "true"]) in (
        0,
        4,
        STARTED,
    )


CONFORM = "--client --server --replay --np --interpreter --name --interface --port --patience --start --web --strict"


@ANY
@given(
    st.lists(
        st.sampled_from([*CONFORM.split(), "list", "table", "2.3"]) | WORDS, max_size=6
    )
)
def test_arguments_of_conform(nothing_starts: None, argv: list[str]) -> None:
    assert code_of(impi.main, ["conform", *argv]) in (0, 1, 4)


@pytest.mark.parametrize(
    "where", ["127.0.0.1:99999", "127.0.0.1:²", "nowhere.invalid:0", "x" * 300 + ":0"]
)
def test_where_a_page_cannot_be(
    nothing_starts: None, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(impi.main, ["conform", "--web", where]) in (1, 4)
    told = capsys.readouterr().err
    assert told.startswith("impi: --web") and told.count("\n") == 1


# Files

DEEP = "[" * 100_000


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


VERDICTS = {
    "form": verdict_reports.FORM,
    "implementation": "x",
    "clauses": {"2.3": "holds", "3.10": "broken"},
}
DECISIONS = json.loads(Decisions().to_json()) | {
    "decisions": {
        "allreduce": [
            {"algorithm": "specification", "clients": 2, "octets": 5, "segment": 1}
        ]
    }
}
ROW = {
    "measure": "m",
    "vendors": "v",
    "variant": "",
    "size": 1,
    "unit": "us",
    "better": "lower",
    "against": None,
    "bound": "<= 2 x",
    "samples": {"values": [1.0], "references": [1.0]},
    "extra": {"a": 1.0},
    "error": None,
}
BENCH = {
    "form": "impi-bench 1",
    "when": "",
    "machine": {},
    "versions": {},
    "options": {},
    "rows": [ROW],
}


def read_table(path: Path) -> None:
    verdict_reports.table([verdict_reports.read_run(path)])


def read_decisions(path: Path) -> None:
    Decisions.parse(path.read_bytes())


def read_plan(path: Path) -> None:
    folder = path.parent / "runs" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    path.replace(folder / "plan.json")
    (folder / "results.jsonl").write_text("")
    history.read_run(path.parent / "runs", "1")


def read_results(path: Path) -> None:
    folder = path.parent / "runs" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(RUN))
    (folder / "results.jsonl").write_text(path.read_text())
    path.replace(folder / "results.json")
    _ = history.read_run(path.parent / "runs", "1").dones
    history.durations(path.parent / "runs", "local")
    results.list_runs(path.parent / "runs")


JSON_FILES: dict[str, tuple[Any, Callable[[Path], object]]] = {
    "verdicts": (VERDICTS, read_table),
    "decisions": (DECISIONS, read_decisions),
    "bench": (BENCH, run_file.load),
    "plan": (RUN, read_plan),
    "results": (RESULTS, read_results),
    "record": (RECORD, read_results),
}


@pytest.mark.parametrize("name", JSON_FILES)
def test_files_of_json(name: str, tmp_path: Path) -> None:
    whole, read = JSON_FILES[name]
    path = tmp_path / "file.json"

    def refused(text: str) -> None:
        path.write_text(text)
        try:
            read(path)
        except ImpiError as error:
            assert "\n" not in str(error)

    refused(json.dumps(whole))
    for text in (
        "",
        DEEP,
        "1e400",
        "9" * 5000,
        '"',
        "[]",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ):
        refused(text)

    @ANY
    @given(st.sampled_from(list(places(whole))), VALUES)
    def one(place: tuple[Any, ...], new: Any) -> None:
        refused(json.dumps(changed(whole, place, new)))

    one()


HOSTS = 'folder = "/tmp"\nports = "1-2"\n[hosts.a]\naddress = "10.0.0.1"\nssh = "a:22"\nvendors = {pure = ""}\n'
CLUSTER = 'description = "x"\nparties = ["mpich"]\n[[client]]\nnodes = 1\nprocs_per_node = 2\n'
EXPECT = '[[expect]]\ncell = "p2p.ring/*"\nresult = "fail"\nreason = "r"\nissue = "https://x.y/1"\nuntil = 2030-01-01\n'
MANIFEST = 'title = "T"\nkind = "backed"\nlauncher = "hydra"\nlibraries = ["l"]\n[settings.always]\nA = "1"\n'
SCRIPT = 'title = "T"\nsteps = """\nI0: echo\n"""\n[job]\nauth = "key"\n'


def read_cluster(path: Path) -> None:
    path.replace(path.parent / "c.toml")
    clusters.list_clusters(path.parent)


TOML_FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "hosts": (HOSTS, read_hosts),
    "cluster": (CLUSTER, read_cluster),
    "expectations": (EXPECT, expectations.load),
    "manifest": (MANIFEST, manifests.read),
    "script": (SCRIPT, lambda path: read_test(path, "2.3/x")),
    "appfile": (
        "localhost -client 0 $hostport -np 1 p\n",
        lambda path: read_appfile(str(path), 1),
    ),
    "hostfile": (
        "a slots=2 # x\nb:2\n",
        lambda path: nodes.parse_hostfile(path.read_text("utf-8"), "f"),
    ),
}
PIECES = st.sampled_from(
    [
        *(
            "",
            "'",
            '"',
            "=",
            "[",
            "]",
            "[[",
            "\n",
            "0",
            "-1",
            "1e400",
            "nan",
            "9" * 40,
            "9" * 5000,
            "{}",
            "[]",
            "true",
        ),
        *(
            "[1]",
            "{a = 1}",
            '""',
            '"x"',
            "\0",
            "²",
            "\\",
            "#",
            ":",
            ",",
            "1979-01-01",
            "[" * 5000,
            "a.b.c = 1\n",
        ),
    ]
)


@pytest.mark.parametrize("name", TOML_FILES)
def test_files_of_text(name: str, tmp_path: Path) -> None:
    whole, read = TOML_FILES[name]
    path = tmp_path / "file.toml"
    words = shlex.shlex(whole, posix=False)
    words.whitespace, words.commenters = "", ""
    parts = list(words)

    def refused(text: str) -> None:
        path.write_text(text, "utf-8")
        try:
            read(path)
        except ImpiError as error:
            assert "\n" not in str(error), str(error)

    refused(whole)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises((ImpiError, UnicodeDecodeError)):
        read(path)

    @ANY
    @given(st.integers(0, len(parts) - 1), PIECES, st.booleans())
    def one(at: int, piece: str, replaces: bool) -> None:
        refused("".join([*parts[:at], piece, *parts[at + replaces :]]))

    one()


VARIABLES = sorted({option.variable for option in OPTIONS.values() if option.variable})


@ANY
@given(st.sampled_from(VARIABLES), WORDS)
def test_variables(nothing_starts: None, name: str, value: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        assert code_of(impirun.main, ["-client", "0", "h:1", "true"]) in (4, STARTED)
        assert code_of(impirun.main, ["-server", "2"]) in (4, STARTED)
