"""The commands of a job in a lab."""

import secrets

import pytest

from impi.lab.nodes.job_commands import authentication, random_key
from impi.protocol.startup.auth import Method, find_credentials


@pytest.mark.parametrize("drawn", [0, -1], ids=["least", "greatest"])
@pytest.mark.parametrize(
    ("setting", "method"),
    [("key", Method.KEY), ("wrong", Method.KEY), ("challenge", Method.CHALLENGE)],
)
def test_whatever_key_is_drawn_a_server_takes_it(
    monkeypatch: pytest.MonkeyPatch, drawn: int, setting: str, method: Method
) -> None:
    # A key of fewer than 16 digits was refused as a secret: one cell in nine thousand failed.
    monkeypatch.setattr(secrets, "randbits", lambda bits: range(1 << bits)[drawn])
    monkeypatch.setattr(secrets, "randbelow", lambda end: range(end)[drawn])
    find_credentials(authentication(setting, random_key(), last=True), (method,))
