"""Names that a text must not give away when you hand it on, and words that stay readable."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from impi.lab.report.folder import sanitize
from impi.lab.report.folder.sanitize import (
    NAMES,
    Sanitizer,
    hosts_of,
    names_here,
    secrets_here,
    write_names,
)

KNOWN = {
    "/home/zoë": "HOME",
    "zoë": "USER",
    "/home/zoë/mpi": "HERE",
    "alpha-7": "HOST",
    "10.1.2.3": "ADDRESS",
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/home/zoë/mpi/runs and /home/zoë/x", "HERE/runs and HOME/x"),
        ("zoë@alpha-7: ssh", "USER@HOST: ssh"),
        (
            "zoëlla, alpha-77 and 10.1.2.30 are others",
            "zoëlla, alpha-77 and 10.1.2.30 are others",
        ),
        ("10.1.2.3:4000", "ADDRESS:4000"),
        ("/home/zo%C3%AB/mpi", "HERE"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nx",
            "(private key)\nx",
        ),
        ("-----BEGIN PRIVATE KEY-----\nabc", "(private key)"),
        ("nothing", "nothing"),
    ],
)
def test_names_go_and_the_rest_stays(text: str, wanted: str) -> None:
    assert Sanitizer(KNOWN).text(text) == wanted


def test_without_names_nothing_changes() -> None:
    assert Sanitizer({}).text("alpha-7") == "alpha-7"


def test_json_stays_json_with_its_keys() -> None:
    value = {"alpha-7": ["zoë", 3, None], "/home/zoë/lib.so": {"zoë": "x zoë"}}
    octets = json.dumps(value).encode()  # with escapes, as a run writes it
    found = json.loads(Sanitizer(KNOWN).octets("evidence.json", octets))
    assert found == {"alpha-7": ["USER", 3, None], "HOME/lib.so": {"zoë": "x USER"}}
    lines = Sanitizer(KNOWN).octets("results.jsonl", octets + b"\n" + octets + b"\n")
    assert [json.loads(line) for line in lines.splitlines()] == [found, found]


def test_escapes_in_a_page() -> None:
    text = f"<script>{json.dumps('/home/zoë')}</script>"
    assert Sanitizer(KNOWN).text(text) == '<script>"HOME"</script>'


def test_octets_that_are_no_text_stay() -> None:
    assert (
        Sanitizer(KNOWN).octets("client0.stdout", b"\xff alpha-7 \xfe")
        == b"\xff HOST \xfe"
    )
    assert Sanitizer(KNOWN).octets("broken.json", b"{ alpha-7") == b"{ HOST"


def test_a_folder_is_rewritten_but_for_captures_and_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("alpha-7")
    folder = tmp_path / "run"
    (folder / "cells").mkdir(parents=True)
    (folder / "cells/a.txt").write_text("alpha-7")
    (folder / "cells/a.pcap").write_text("alpha-7")
    (folder / "link.txt").symlink_to(outside)
    Sanitizer(KNOWN).tree(folder)
    assert (folder / "cells/a.txt").read_text() == "HOST"
    assert (folder / "cells/a.pcap").read_text() == outside.read_text() == "alpha-7"


def test_secrets_are_known_by_the_names_of_their_variables() -> None:
    environ = {
        "IMPI_AUTH_SECRET": "sixteen characters",
        "GITHUB_TOKEN": "ghp_0123456789",
        "DB_PASSWORD": "short",
        "API_KEY": "k" * 20,
        "PATH": "/usr/bin:/bin",
        "KEYBOARD": "a long word",
    }
    assert sorted(secrets_here(environ)) == [
        "ghp_0123456789",
        "k" * 20,
        "sixteen characters",
    ]


def test_names_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "alpha-7.example.org")
    monkeypatch.setattr(socket, "getfqdn", lambda: "alpha-7.example.org")
    monkeypatch.setattr(
        sanitize,
        "_user",
        lambda: {"root": "USER", "Zoë Z.": "USER", "": "USER", "1000": "USER"},
    )
    monkeypatch.chdir(tmp_path)
    found = names_here()
    assert {
        "alpha-7.example.org",
        "alpha-7",
        "Zoë Z.",
        str(tmp_path),
        str(Path.home()),
    } <= found.keys()
    assert not {"root", "", "1000", "/"} & found.keys()
    assert not [name for name in found if name.startswith("127.") or name == "::1"]


def test_a_run_has_the_names_of_where_it_ran(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere-1")
    write_names(tmp_path)
    assert stat.S_IMODE((tmp_path / NAMES).stat().st_mode) == 0o600
    monkeypatch.undo()
    assert (
        Sanitizer.of(tmp_path, {"beta": "HOST-1"}).text("elsewhere-1 and beta")
        == "HOST and HOST-1"
    )
    (tmp_path / NAMES).write_text("[]")
    assert Sanitizer.of(tmp_path).text("elsewhere-1") == "elsewhere-1"


def test_hosts_that_exist_become_nodes() -> None:
    evidence = {
        "addresses": {"c0n0": "192.0.2.7", "c1n0": "127.77.1.1", "c1n1": "no address"}
    }
    assert hosts_of(evidence, ["beta.example.org"]) == {
        "192.0.2.7": "ADDRESS-OF-c0n0",
        "beta.example.org": "HOST-0",
    }
    assert hosts_of({}) == {}
