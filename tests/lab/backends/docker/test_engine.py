"""The container engine's faults in one form."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from impi.base.errors import LabError
from impi.lab.backends.docker import engine
from impi.lab.backends.docker.engine import (
    NoEngine,
    connect,
    engine_fault,
    ignore_missing,
)


@pytest.mark.parametrize("error", [APIError("no room"), OSError("no room")])
def test_a_refusal_is_the_labs_fault(error: Exception) -> None:
    said = r"^the lab cannot be made: the container engine says: no room"
    with pytest.raises(LabError, match=said), engine_fault("the lab cannot be made"):
        raise error


def test_a_mistake_of_our_own_is_not_the_engines() -> None:
    with pytest.raises(ValueError, match="ours"), engine_fault("x"):
        raise ValueError("ours")


def test_only_what_is_gone_is_ignored() -> None:
    with ignore_missing():
        raise NotFound("gone")
    with pytest.raises(APIError), ignore_missing():
        raise APIError("busy")


def test_a_socket_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(
        LabError,
        match=r"does not answer \(.*/none.sock: No such file or directory\); start it",
    ):
        connect()


class _Socket(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "engine", 0

    def get_request(self) -> tuple[Any, Any]:
        return self.socket.accept()[0], ("", 0)


class _Engine(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (
            b"OK"
            if self.path.endswith("_ping")
            else json.dumps({"ApiVersion": "1.44"}).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def listening(path: Path) -> Iterator[str]:
    """An engine that answers at a socket, as far as anybody asks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _Socket(str(path), _Engine) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No engine anywhere, and no docker; a short path, because those of sockets are."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engine, "_SOCKET", str(tmp_path / "docker.sock"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_where_nothing_is_installed(nothing: Path) -> None:
    with pytest.raises(
        NoEngine,
        match=r"\(no container engine is installed\); install Docker or Podman, or choose",
    ):
        connect()


@pytest.mark.parametrize("name", ["docker.sock", "podman/podman.sock"])
def test_a_rootless_engine_is_found(name: str, nothing: Path) -> None:
    with listening(nothing / "run" / name) as url:
        assert connect().api.base_url.startswith("http+")
        assert engine.sockets()[1:3] == [
            f"{nothing}/run/docker.sock",
            f"{nothing}/run/podman/podman.sock",
        ]
        assert Path(url.removeprefix("unix://")).exists()


def test_a_context_of_docker_is_taken_and_never_passed_over(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    with (
        pytest.raises(NoEngine, match="docker has no context 'elsewhere'"),
        listening(nothing / "docker.sock"),
    ):
        connect()


def test_a_context_of_docker_is_asked(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    with listening(nothing / "other.sock") as url:
        told = {
            "Name": "elsewhere",
            "Metadata": {},
            "Endpoints": {"docker": {"Host": url, "SkipTLSVerify": False}},
        }
        place = nothing / "contexts/meta" / hashlib.sha256(b"elsewhere").hexdigest()
        place.mkdir(parents=True)
        (place / "meta.json").write_text(json.dumps(told))
        assert connect().ping()


def test_a_refusal_names_the_group_and_the_way(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = nothing / "docker.sock"
    path.touch()

    def refuse(self: socket.socket, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    class Refused(socket.socket):
        connect = refuse  # type: ignore[assignment]

    monkeypatch.setattr(socket, "socket", Refused)
    monkeypatch.setattr(Path, "group", lambda self: "dockers")
    said = r"docker.sock: Permission denied\); join its group by 'sudo usermod -aG dockers \$USER', then log in again"
    with pytest.raises(NoEngine, match=said):
        connect()
    monkeypatch.setattr(Path, "group", lambda self: "root")
    with pytest.raises(NoEngine, match="ask who runs the engine for access"):
        connect()


def test_an_engine_that_is_named_answers(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(nothing / "named.sock") as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        assert connect().ping()
