"""The web page: what it answers, to whom, and that a real browser runs tests from it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from page_links import check_for_everybody, troubles_of

from impi.base.errors import LaunchError
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.report.desk import Desk
from impi.lab.conform.report.web_page import Page, page
from impi.lab.conform.script.script_files import Test, all_tests

TESTS = [test for test in all_tests() if test.clause in ("3.7.1", "3.7.2")]
NAME = "3.7.1/synchronous-short"


def perform(
    tests: Sequence[Test],
    procs: int,
    told: Callable[[Outcome], None],
    began: Callable[[str], None],
) -> None:
    """One test is broken, all others hold."""
    for test in tests:
        began(test.name)
        verdict = ClauseVerdict.BROKEN if test.name == NAME else ClauseVerdict.HOLDS
        why = "SYNCACK does not come <b>" if test.name == NAME else ""
        said = (f"-> DATASYNC of {procs} procs",)
        told(
            Outcome(
                test=test.name,
                clause=test.clause,
                level=test.level,
                title=test.title,
                verdict=verdict,
                why=why,
                conversation=said,
            )
        )


@pytest.fixture
def desk() -> Desk:
    return Desk(TESTS, perform)


@pytest.fixture
def client(desk: Desk) -> FlaskClient:
    return page(desk, "mine <1>", "mpirun {server}", 2, "secret").test_client()


def test_the_page_names_all_tests(client: FlaskClient) -> None:
    answer = client.get("/secret/")
    assert answer.status_code == 200
    assert all(f'data-test="{test.name}"' in answer.text for test in TESTS)
    assert "mine &lt;1&gt;" in answer.text
    assert "mpirun {server}" in answer.text
    for name in ("page.css", "page.js"):
        with client.get(f"/secret/static/{name}") as file:
            assert file.status_code == 200


def test_without_the_secret_there_is_nothing(client: FlaskClient) -> None:
    for path in ("/", "/news", "/other/news", "/static/page.js"):
        assert client.get(path).status_code == 404
    assert client.post("/start", json={"tests": [NAME], "procs": 2}).status_code == 404


def test_tests_are_run_and_told(client: FlaskClient, desk: Desk) -> None:
    assert (
        client.post(
            "/secret/start", json={"tests": [NAME, TESTS[0].name], "procs": 3}
        ).status_code
        == 204
    )
    desk.wait()
    news = client.get("/secret/news?run=1&since=0")
    assert news.json is not None
    assert news.json["ended"] == 2
    assert news.json["outcomes"][0] == {
        "test": NAME,
        "verdict": "broken",
        "why": "SYNCACK does not come <b>",
    }
    told = client.get(f"/secret/test/{NAME}")
    assert told.mimetype == "text/plain"
    for text in (
        "SYNCACK does not come <b>",
        "-> DATASYNC of 3 procs",
        "S0 -> I0: DATASYNC srqid=77",
    ):
        assert text in told.text
    assert (
        json.loads(client.get("/secret/report.json").text)["implementation"]
        == "mine <1>"
    )
    assert "does not come &lt;b&gt;" in client.get("/secret/report.html").text
    assert client.get("/secret/report.junit").mimetype == "application/xml"


def test_a_test_that_was_not_run_shows_its_steps(client: FlaskClient) -> None:
    assert "S0 -> I0: DATASYNC srqid=77" in client.get(f"/secret/test/{NAME}").text
    assert (
        "every packet of every job counts"
        in client.get("/secret/test/3.7.1/in-every-job").text
    )
    assert client.get("/secret/test/9/none").status_code == 404
    assert client.get("/secret/report.pdf").status_code == 404


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"tests": ["9/none"], "procs": 2}, "no test is named '9/none'"),
        ({"tests": [NAME], "procs": 1}, "give 2 to 64"),
        ({"procs": 2}, "tests"),
        ({"tests": [NAME], "procs": "x"}, "invalid literal"),
        ({"tests": [NAME], "procs": float("inf")}, "cannot convert float infinity"),
    ],
)
def test_a_wish_that_makes_no_sense(
    wish: dict[str, object], why: str, client: FlaskClient
) -> None:
    answer = client.post("/secret/start", json=wish)
    assert answer.status_code == 400
    assert why in answer.text


def test_a_run_is_stopped(
    client: FlaskClient, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[bool] = []
    monkeypatch.setattr(desk, "stop", lambda: stops.append(True))
    assert client.post("/secret/stop").status_code == 204
    assert stops == [True]


@pytest.fixture
def served(desk: Desk) -> Iterator[Page]:
    shown = Page(desk, "mine", "", 2, "127.0.0.1", 0)
    thread = threading.Thread(target=shown.serve)
    thread.start()
    yield shown
    shown.close()
    thread.join()


def test_another_host_in_the_request_is_refused(served: Page) -> None:
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    parts = urlsplit(served.url)
    for host, code in ((parts.netloc, 200), ("elsewhere.example", 400)):
        connection = HTTPConnection(parts.netloc, timeout=10)
        connection.request("GET", parts.path, headers={"Host": host})
        assert connection.getresponse().status == code
        connection.close()


def test_a_port_that_is_taken(served: Page, desk: Desk) -> None:
    port = int(served.url.split(":")[2].partition("/")[0])
    with pytest.raises(
        LaunchError,
        match=f"cannot listen on 127.0.0.1 port {port}: Address already in use",
    ):
        Page(desk, "mine", "", 2, "127.0.0.1", port)


@pytest.mark.proof
def test_a_browser_runs_tests(served: Page, browser: Any, tmp_path: Path) -> None:
    shown = browser.new_page()
    troubles = troubles_of(shown)
    shown.goto(served.url)
    shown.click("[data-choose=none]")
    assert shown.is_disabled("#start")
    shown.fill("#filter", "synchronous-short")
    assert shown.locator("li:visible").count() == 1
    shown.click("[data-choose=all]")
    shown.click("#start")
    row = shown.locator(f"li[data-test='{NAME}']")
    row.locator(".verdict.broken").wait_for()
    assert shown.inner_text("section:visible .sum") == "broken"
    row.locator(".name").click()
    shown.locator("#conversation", has_text="-> DATASYNC of 2 procs").wait_for()
    assert "SYNCACK does not come <b>" in shown.inner_text("#conversation")
    assert shown.inner_text("#counts") == "1 broken"
    assert shown.is_visible("text=JUnit")
    assert troubles == []
    shown.screenshot(path=str(tmp_path / "page.png"))


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_for_everybody(
    width: int, scheme: str, served: Page, browser: Any
) -> None:
    """No finding of axe, nothing to scroll sideways, and a conversation that comes into sight."""
    shown = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    shown.goto(served.url)
    shown.click("#start")
    row = shown.locator(f"li[data-test='{NAME}']")
    row.locator(".verdict.broken").wait_for()
    check_for_everybody(shown, width)
    row.locator(".name").click()
    shown.locator("#conversation", has_text="SYNCACK does not come").wait_for()
    shown.wait_for_function(
        "document.querySelector('#conversation').getBoundingClientRect().top < innerHeight"
    )
