"""The pages of one run over HTTP, for browsers of this machine; nothing can be written.

The pages have output of users' programs. So the address has a secret part, without which nothing is
answered, and the host in a request must be the one that the server listens on. A page of another
site, or another user of this machine, knows no such address.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from socket import socket
from socketserver import BaseServer
from typing import Final
from urllib.parse import unquote, urlsplit

from impi.base.errors import LaunchError, UsageError
from impi.lab.report.live.so_far import results_so_far, state_of
from impi.lab.report.pages.run_pages import PAGE, cell_page, render, statics
from impi.lab.report.pages.views import RunView
from impi.lab.visitors import FewVisitors, Visitor

ADDRESS: Final = "127.0.0.1"
_SECRET_OCTETS: Final = 16
_KINDS: Final = {
    **dict.fromkeys((".stdout", ".stderr", ".txt", ".sh", ".jsonl", ".md"), "plain"),
    ".html": "html",
    ".css": "css",
    ".js": "javascript",
    ".xml": "xml",
}
"""The kinds of text, by the ending of a file; a browser keeps other files on disk."""
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
}


class RunServer:
    """Serves the pages of a run.

    Args:
        folder: of the run.
        port: to listen on; 0: any free one.

    Raises:
        UsageError: there is no such run.
        LaunchError: the port is taken.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        results_so_far(folder)  # a mistake shows before anybody looks
        prefix = f"/{secrets.token_urlsafe(_SECRET_OCTETS)}/"
        answer = partial(_Answer, _Pages(folder.resolve()), prefix)
        try:
            self._server = _Server((ADDRESS, port), answer)
        except OSError as error:
            raise LaunchError(
                f"--port {port}: cannot listen on {ADDRESS}: {error.strerror}"
            ) from error

        self.url = f"http://{ADDRESS}:{self._server.server_port}{prefix}"

    def __enter__(self) -> RunServer:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.server_close()

    def serve(self) -> None:
        self._server.serve_forever()

    def stop(self) -> None:
        """End :meth:`serve`, from another thread."""
        self._server.shutdown()


class _Pages:
    """The pages and files of a run, by their paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._statics = statics()

    def state(self) -> str:
        return state_of(self._folder)

    def find(self, path: str) -> str | Path | None:
        """Return the text of a page, or a file; None: there is neither."""
        if path in self._statics:
            return self._statics[path]

        if path in ("", PAGE):
            return render(PAGE, run=self._run(), root="", history=False)

        file = (self._folder / path).resolve()
        if not file.is_relative_to(self._folder):
            return None

        if file.name == PAGE and file.parent.is_dir():
            run = self._run()
            for cell in run.cells:
                if cell.page == path:
                    return cell_page(run, cell, file.parent)

        return file if file.is_file() else None

    def _run(self) -> RunView:
        return RunView(results_so_far(self._folder))


class _Server(FewVisitors, ThreadingHTTPServer):
    pass


class _Answer(Visitor):
    """Answers GET alone: ``http.server`` refuses a method without a function."""

    def __init__(
        self,
        pages: _Pages,
        prefix: str,
        request: socket,
        address: tuple[str, int],
        server: BaseServer,
    ) -> None:
        self._pages, self._prefix = pages, prefix
        super().__init__(request, address, server)

    def do_GET(self) -> None:
        with contextlib.suppress(ConnectionError):  # a browser may leave at any time
            self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if not self._is_known(path):
            self.send_error(HTTPStatus.NOT_FOUND)
            return

        tag = f'"{self._pages.state()}"'
        if self.headers.get("If-None-Match") == tag:
            self._head(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            return

        try:
            found = self._pages.find(path[len(self._prefix) :])
        except (UsageError, OSError, ValueError):
            # Between two looks, a file may be half written or gone; a path may have a NUL.
            found = None

        if found is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif isinstance(found, str):
            kind = _kind(path if path.endswith((".css", ".js")) else PAGE)
            octets = found.encode()
            self._head(
                HTTPStatus.OK,
                {"ETag": tag, "Content-Type": kind, "Content-Length": str(len(octets))},
            )
            self.wfile.write(octets)
        else:
            with found.open("rb") as file:
                self._head(HTTPStatus.OK, {"Content-Type": _kind(found.name)})
                shutil.copyfileobj(file, self.wfile)

    def _is_known(self, path: str) -> bool:
        """Whether the request is of a user of this address, by the host and the secret in it."""
        port = self.connection.getsockname()[1]
        begin, host = path[: len(self._prefix)], self.headers.get("Host")

        return host in (
            f"{ADDRESS}:{port}",
            f"localhost:{port}",
        ) and secrets.compare_digest(begin.encode(), self._prefix.encode())

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)

        self.end_headers()

    def version_string(self) -> str:
        return "impilab"

    def log_message(self, *_: object) -> None:
        """Say nothing: there would be a line for each request."""


def _kind(name: str) -> str:
    suffix = Path(name).suffix
    if suffix == ".json":
        return "application/json"

    kind = _KINDS.get(suffix)
    return f"text/{kind}; charset=utf-8" if kind else "application/octet-stream"
