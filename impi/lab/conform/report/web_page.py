"""The web page of the tester: choose tests, start them, watch verdicts, open conversations.

A page can start commands on this machine. So its address has a secret part, without which nothing
is answered, and the host in a request must be the one that the server listens on: a page of
another site, or another user of this machine, knows no such address.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
from collections.abc import Sequence
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.base.files import MALFORMED
from impi.lab.conform.outcomes import Outcome
from impi.lab.conform.report import verdict_reports
from impi.lab.conform.report.desk import Desk
from impi.lab.conform.report.verdict_reports import TITLES
from impi.lab.conform.script.script_files import Test
from impi.lab.visitors import FewVisitors, Visitor

try:
    from flask import Flask, Response, abort, render_template, request
    from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
except (
    ImportError
) as missing:  # pragma: no cover  (the environments of the project have it)
    raise UsageError(
        "--web needs the package flask: pip install 'impilab[web]'"
    ) from missing

_SECRET_OCTETS: Final = 16
_REPORTS: Final = {
    "json": (verdict_reports.as_json, "application/json"),
    "junit": (verdict_reports.as_junit, "application/xml"),
    "html": (verdict_reports.as_html, "text/html"),
}


def page(desk: Desk, name: str, command: str, procs: int, secret: str) -> Flask:
    """Return the application.

    Args:
        desk: runs the tests.
        name: of the implementation.
        command: shown; empty: the client is started by hand.
        procs: what the page proposes.
        secret: the first part of each path.
    """

    app = Flask(
        __name__,
        template_folder="web",
        static_folder="web",
        static_url_path=f"/{secret}/static",
    )

    @app.get(f"/{secret}/")
    def index() -> str:
        return render_template(
            "page.html",
            name=name,
            command=command,
            procs=procs,
            groups=_groups(desk.tests),
            titles=TITLES,
        )

    @app.get(f"/{secret}/news")
    def news() -> Response:
        seen = desk.news(
            request.args.get("run", 0, type=int), request.args.get("since", 0, type=int)
        )
        return Response(
            json.dumps(seen),
            mimetype="application/json",
            headers={"Cache-Control": "no-store"},
        )

    @app.post(f"/{secret}/start")
    def start() -> tuple[str, int]:
        wish = request.get_json()
        try:
            desk.start([str(test) for test in wish["tests"]], int(wish["procs"]))
        except (UsageError, *MALFORMED) as error:
            return str(error), 400

        return "", 204

    @app.post(f"/{secret}/stop")
    def stop() -> tuple[str, int]:
        desk.stop()
        return "", 204

    @app.get(f"/{secret}/test/<path:test>")
    def conversation(test: str) -> Response:
        return Response(
            _known_of_test(test, desk.tests, desk.outcomes()), mimetype="text/plain"
        )

    @app.get(f"/{secret}/report.<form>")
    def report(form: str) -> Response:
        if form not in _REPORTS:
            abort(404)

        write, kind = _REPORTS[form]
        return Response(write(name, desk.outcomes()), mimetype=kind)

    return app


def _groups(tests: Sequence[Test]) -> dict[str, list[Test]]:
    found: dict[str, list[Test]] = {}
    for test in tests:
        found.setdefault(test.clause, []).append(test)

    return found


def _known_of_test(
    name: str, tests: Sequence[Test], outcomes: Sequence[Outcome]
) -> str:
    """Return all that is known of a test: verdict, conversation, and its steps."""

    test = next((test for test in tests if test.name == name), None)
    if test is None:
        abort(404)

    lines = [f"{test.name} ({test.level}): {test.title}", f"job {test.setup}", ""]
    for outcome in (outcome for outcome in outcomes if outcome.test == name):
        lines += [verdict_reports.line(outcome), *verdict_reports.details(outcome)[1:]]
        lines += ["", "conversation:", *outcome.conversation, ""]

    return "\n".join(
        [*lines, "steps:", *test.steps]
        if test.steps
        else [*lines, "every packet of every job counts"]
    )


class Page:
    """Serves the page of a desk.

    Args:
        desk: runs the tests.
        name: of the implementation.
        command: as :func:`page`.
        procs: likewise.
        address: to listen on.
        port: likewise; 0: any free one.

    Raises:
        LaunchError: the port is taken, or the address is not this machine's.
    """

    def __init__(
        self, desk: Desk, name: str, command: str, procs: int, address: str, port: int
    ) -> None:
        # no log: it would have a line for each request
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        secret = secrets.token_urlsafe(_SECRET_OCTETS)

        app = page(desk, name, command, procs, secret)
        try:
            # Bound here: werkzeug ends the process if it cannot bind.
            listener = socket.create_server((address, port), family=_family(address))
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "that is not a name"
            raise LaunchError(
                f"--web: cannot listen on {address} port {port}: {why}"
            ) from error

        port = listener.getsockname()[1]

        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        if address not in ("0.0.0.0", "::"):  # noqa: S104  (else each name of this machine is right)
            app.config["TRUSTED_HOSTS"] = [host, f"localhost:{port}"]

        with listener:
            self._server = _PageServer(
                address, port, app, _PageAnswer, fd=listener.fileno()
            )

        self.url = f"http://{host}/{secret}/"

    def serve(self) -> None:
        self._server.serve_forever()

    def close(self) -> None:
        """End :meth:`serve`, from another thread, and close the port."""
        self._server.shutdown()
        self._server.server_close()


class _PageAnswer(Visitor, WSGIRequestHandler):
    protocol_version = "HTTP/1.1"


class _PageServer(FewVisitors, ThreadedWSGIServer):
    pass


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
