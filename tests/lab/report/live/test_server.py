"""The server of a run's pages: what it answers, to whom, and that a browser follows the run."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from made_up_run import record
from page_links import check_for_everybody, troubles_of

from impi.base.errors import LaunchError, UsageError
from impi.lab.report.live.server import RunServer

RING, ANY = "p2p.ring/pure+mpich/1x2+1x2", "p2p.any/pure+mpich/1x2+1x2"
NEVER = "coll.all/pure+mpich/1x2+1x2"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two cells that has just begun, and one that is unsupported."""
    folder = tmp_path / "20270101T000000-aaaa"
    folder.mkdir()
    plan = {
        "schema": "impilab/plan/1",
        "run": folder.name,
        "argv": ["run"],
        "backend": "docker",
        "seed": 7,
        "started": 1.8e9,
        "builds": {},
        "source": "",
        "cells": [{"id": RING, "hash": "1"}, {"id": ANY, "hash": "2"}],
        "excluded": [
            {"id": NEVER, "hash": "3", "kind": "unsupported", "reason": "no threads"},
        ],
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "outside.txt").write_text("a secret of the user's")
    return folder


def ends(run: Path, cell: str, result: str = "pass") -> Path:
    """End a cell; return its folder."""
    told = record(cell, result)
    where = run / str(told["evidence"]["folder"])
    where.mkdir(parents=True)
    (where / "client1.stderr").write_text("Traceback <script>\n")
    with (run / "results.jsonl").open("a") as file:
        file.write(json.dumps(told) + "\n")
    return where


def _lines(run: Path) -> list[str]:
    return (run / "results.jsonl").read_text().splitlines()


def is_over(run: Path) -> None:
    """End the run."""
    plan = json.loads((run / "plan.json").read_text())
    records = [json.loads(line) for line in _lines(run)]
    value = {
        **plan,
        "schema": "impilab/results/1",
        "started": "2027-01-01T00:00:00+0000",
        "seconds": 12.0,
        "exit": 1,
        "expectations": [],
        "software": {},
        "cells": records,
    }
    (run / "results.json").write_text(json.dumps(value))


@pytest.fixture
def served(run: Path) -> Iterator[RunServer]:
    with RunServer(run) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server
        server.stop()
        thread.join()


def ask(
    url: str, path: str = "", *, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, str]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, parts.path + path, headers=named)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_cells_appear_as_they_end(run: Path, served: RunServer) -> None:
    answer, text = ask(served.url)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "0 cells, none of them red; 2 to come" in text
    assert 'class="badge skipped">running<' in text
    assert "no threads" in text
    assert "data-live" in text
    cell = ends(run, RING, "fail").relative_to(run)
    text = ask(served.url)[1]
    assert "1 red of 1 cells; 1 to come" in text
    assert f"{cell}/index.html" in text
    page = ask(served.url, f"{cell}/index.html")[1]
    assert "Traceback &lt;script&gt;" in page
    assert "../../pages.css" in page
    assert not list(run.rglob("index.html"))  # nothing is written
    ends(run, ANY)
    is_over(run)
    text = ask(served.url, "index.html")[1]
    assert "1 red of 2 cells" in text
    assert "data-live" not in text


def test_files_are_what_they_are(run: Path, served: RunServer) -> None:
    cell = ends(run, RING).relative_to(run)
    (run / cell / "timeline.html").write_text("<p>here")
    (run / cell / "c0n0.pcap").write_bytes(bytes(range(100)))
    for name, kind in (
        (f"{cell}/client1.stderr", "text/plain; charset=utf-8"),
        (f"{cell}/timeline.html", "text/html; charset=utf-8"),
        (f"{cell}/c0n0.pcap", "application/octet-stream"),
        ("page.js", "text/javascript; charset=utf-8"),
        ("pages.css", "text/css; charset=utf-8"),
    ):
        answer, text = ask(served.url, name)
        assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert text


@pytest.mark.parametrize(
    "path",
    [
        *("../outside.txt", "..%2foutside.txt", "%2e%2e/outside.txt", "link.txt"),
        *("none", "cells", "cells/none/index.html", "a%00b", "//etc/passwd"),
    ],
)
def test_nothing_else_is_served(path: str, run: Path, served: RunServer) -> None:
    (run / "link.txt").symlink_to("../outside.txt")
    answer, text = ask(served.url, path)
    assert answer.status == 404
    assert "secret" not in text


def test_strangers_and_writers_get_nothing(served: RunServer) -> None:
    parts = urlsplit(served.url)
    assert ask(served.url, Host=f"localhost:{parts.port}")[0].status == 200
    assert ask(served.url, Host="elsewhere.example")[0].status == 404
    for path in ("/", "/index.html", "/other/", "/" + "%ff" * 22 + "/"):
        assert ask(f"http://{parts.netloc}{path}")[0].status == 404
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(served.url, method=method)[0].status == 501
    assert ask(served.url)[0].headers["Referrer-Policy"] == "no-referrer"


def test_a_page_without_news_is_not_sent_again(run: Path, served: RunServer) -> None:
    tag = ask(served.url)[0].headers["ETag"]
    answer, text = ask(served.url, If_None_Match=tag)
    assert (answer.status, text) == (304, "")
    ends(run, RING)
    assert ask(served.url, If_None_Match=tag)[0].status == 200


def test_half_a_plan_is_not_found_until_it_is_whole(
    run: Path, served: RunServer
) -> None:
    whole = (run / "plan.json").read_text()
    (run / "plan.json").write_text(whole[:20])
    assert ask(served.url)[0].status == 404
    (run / "plan.json").write_text(whole)
    assert ask(served.url)[0].status == 200


def test_what_cannot_be_served_is_one_sentence(
    run: Path, served: RunServer, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"there is no run .*none; 'impilab ls runs'"):
        RunServer(tmp_path / "none")
    with pytest.raises(UsageError, match=r"is not a run: it has no plan\.json"):
        RunServer(tmp_path)
    port = urlsplit(served.url).port
    assert port is not None
    with pytest.raises(
        LaunchError, match=f"--port {port}: cannot listen on 127.0.0.1: Address already"
    ):
        RunServer(run, port)


def test_a_browser_that_leaves_is_no_error(
    run: Path, served: RunServer, capfd: pytest.CaptureFixture[str]
) -> None:
    with (run / "c0n0.pcap").open("wb") as file:
        file.truncate(1 << 25)  # more than the kernel keeps for a reader
    before = set(threading.enumerate())
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port)) as browser:
        asked = f"GET {parts.path}c0n0.pcap HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n"
        browser.sendall(asked.encode())
        assert browser.recv(1)
        answers = set(threading.enumerate()) - before
    for thread in answers:
        thread.join()
    assert capfd.readouterr().err == ""


# -- in a browser


@pytest.mark.proof
def test_a_browser_follows_a_run(run: Path, served: RunServer, browser: Any) -> None:
    shown = browser.new_page()
    troubles = troubles_of(shown)
    shown.goto(f"{served.url}#vendor=mpich")
    shown.fill("#find", "p2p")
    ends(run, RING, "fail")
    shown.locator(".matrix a.fail").wait_for()
    assert shown.inner_text("#count") == "2 of 3 cells"
    assert shown.input_value("[data-filter=vendor]") == "mpich"
    assert shown.evaluate("document.activeElement.id") == "find"
    shown.locator(".matrix a.fail").focus()
    ends(run, ANY)
    is_over(run)
    shown.locator("h1", has_text="1 red of 2 cells").wait_for()
    assert shown.evaluate("document.activeElement.dataset.result") == "fail"
    assert not shown.locator("[data-live]").count()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/cells/**")
    assert "Traceback <script>" in shown.inner_text("main")
    assert troubles == []


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_run_under_way_is_for_everybody(
    width: int, scheme: str, run: Path, served: RunServer, browser: Any, tmp_path: Path
) -> None:
    ends(run, RING)
    shown = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    shown.goto(served.url)
    check_for_everybody(shown, width)
    shown.screenshot(path=str(tmp_path / "page.png"))
