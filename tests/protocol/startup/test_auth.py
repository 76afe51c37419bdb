"""Authentication of IMPI 2.3.3."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.protocol.startup.auth import (
    Credentials,
    Method,
    choose_method,
    decode_mask,
    encode_mask,
    find_credentials,
    none_warning,
    parse_key,
    parse_preference,
    relay_key,
)

NONE, KEY, TLS, CHALLENGE = Method.NONE, Method.KEY, Method.TLS, Method.CHALLENGE
LARGE = 2**64 - 1
OCTETS = LARGE.to_bytes(8, "big")
SECRET = "correct horse battery"


@pytest.mark.clause("2.3.3")
@pytest.mark.clause("2.2.4")
@pytest.mark.parametrize(
    ("environ", "preference", "expected"),
    [
        ({"IMPI_AUTH_NONE": ""}, None, Credentials((NONE,))),
        ({"IMPI_AUTH_NONE": "0"}, None, Credentials((NONE,))),
        (
            {"IMPI_AUTH_KEY": str(LARGE)},
            None,
            Credentials((CHALLENGE, TLS, KEY), LARGE, OCTETS),
        ),
        (
            {"IMPI_AUTH_KEY": "0xFfffFFFFffffFFFF", "IMPI_AUTH_NONE": ""},
            None,
            Credentials((CHALLENGE, TLS, KEY, NONE), LARGE, OCTETS),
        ),
        (
            {"IMPI_AUTH_KEY": str(LARGE), "IMPI_AUTH_NONE": ""},
            (NONE, KEY),
            Credentials((NONE, KEY), LARGE),
        ),
        (
            {"IMPI_AUTH_KEY": str(LARGE)},
            (CHALLENGE,),
            Credentials((CHALLENGE,), 0, OCTETS),
        ),
        (
            {"IMPI_AUTH_SECRET": f" {SECRET} "},
            None,
            Credentials((CHALLENGE, TLS), 0, SECRET.encode()),
        ),
        (
            {"IMPI_AUTH_SECRET": SECRET, "IMPI_AUTH_KEY": str(LARGE)},
            None,
            Credentials((CHALLENGE, TLS), 0, SECRET.encode()),
        ),
        (
            {"IMPI_AUTH_SECRET": SECRET, "IMPI_AUTH_KEY": "1"},
            (CHALLENGE,),
            Credentials((CHALLENGE,), 0, SECRET.encode()),
        ),
        (
            {"IMPI_AUTH_SECRET": "s", "IMPI_AUTH_WEAK": ""},
            None,
            Credentials((CHALLENGE, TLS), 0, b"s"),
        ),
        ({"IMPI_AUTH_SECRET": SECRET}, (TLS,), Credentials((TLS,), 0, SECRET.encode())),
        ({"IMPI_AUTH_KEY": "5", "IMPI_AUTH_WEAK": ""}, (KEY,), Credentials((KEY,), 5)),
        ({"IMPI_AUTH_KEY": "", "IMPI_AUTH_NONE": ""}, None, Credentials((NONE,))),
        (
            {"IMPI_AUTH_KEY": "no number", "IMPI_AUTH_NONE": ""},
            (NONE,),
            Credentials((NONE,)),
        ),
    ],
)
def test_what_is_available(
    environ: dict[str, str],
    preference: tuple[Method, ...] | None,
    expected: Credentials,
) -> None:
    assert find_credentials(environ, preference) == expected


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize(
    ("environ", "preference"),
    [
        ({}, None),
        ({"IMPI_AUTH_KEY": " "}, None),
        ({"IMPI_AUTH_KEY": "1"}, (NONE,)),
        ({"IMPI_AUTH_NONE": ""}, ()),
    ],
)
def test_nothing_available(
    environ: dict[str, str], preference: tuple[Method, ...] | None
) -> None:
    with pytest.raises(UsageError) as caught:
        find_credentials(environ, preference)
    words = "No authentication methods available for negotiation. Aborting."
    assert (
        str(caught.value)
        == f"{words} Set IMPI_AUTH_SECRET, the same for the server and all clients."
    )


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"IMPI_AUTH_KEY": str(2**32 - 1)},
            "IMPI_AUTH_KEY is below 2^32, so it can be guessed",
        ),
        (
            {"IMPI_AUTH_SECRET": "fifteen letters"},
            "IMPI_AUTH_SECRET has fewer than 16 characters",
        ),
        (
            {"IMPI_AUTH_SECRET": "@/no/such/file"},
            "IMPI_AUTH_SECRET: /no/such/file cannot be read: No such file",
        ),
    ],
)
def test_secrets_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        find_credentials(environ)
    assert "letters" not in str(caught.value)


def test_a_secret_in_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    environ = {"IMPI_AUTH_SECRET": f"@{file}"}
    file.chmod(0o640)
    with pytest.raises(
        UsageError, match=f"can be read by others: 'chmod 600 {re.escape(str(file))}'"
    ):
        find_credentials(environ)
    file.chmod(0o600)
    assert find_credentials(environ).secret == SECRET.encode()
    file.write_bytes(b"\xff" * 20)
    with pytest.raises(UsageError, match="is not text in UTF-8"):
        find_credentials(environ)


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize(
    ("text", "key"),
    [("0", 0), ("18446744073709551615", 2**64 - 1), (" 0x162E ", 5678), ("010", 10)],
)
def test_keys(text: str, key: int) -> None:
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "18446744073709551616",
        "0x",
        "1_0",
        "secret",
        "1.0",
        "٣",
        "9" * 5000,
        "0x1" + "0" * 16,
    ],
)
def test_keys_refused_without_showing_them(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_credentials({"IMPI_AUTH_KEY": text})
    words = "IMPI_AUTH_KEY must be a number from 0 to 2^64-1, decimal or 0x and hexadecimal (IMPI 2.3.3)"
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("1", (KEY,)),
        ("0", (NONE,)),
        ("3,1-0", (KEY, NONE)),
        ("0-3", (NONE, KEY)),
        ("99999999999-0", (CHALLENGE, TLS, KEY, NONE)),
        ("31", (CHALLENGE,)),
        ("0,1,0-1", (NONE, KEY)),
        (" 1 , 0 ", (KEY, NONE)),
        ("7", ()),
    ],
)
def test_preference(text: str, methods: tuple[Method, ...]) -> None:
    assert parse_preference(text) == methods


@pytest.mark.parametrize("text", ["", ",", "1,", "a", "1-", "-1", "1-0-1", "1;0"])
def test_preference_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-auth"):
        parse_preference(text)


def test_masks_of_the_clause() -> None:
    assert encode_mask([NONE]).hex() == "00000001"
    assert encode_mask([KEY]).hex() == "00000002"
    assert encode_mask([KEY, NONE, KEY]).hex() == "00000003"


@given(st.frozensets(st.integers(0, 127)))
def test_masks_of_many_words(methods: frozenset[int]) -> None:
    words = [
        sum(1 << (m - 32 * w) for m in methods if m // 32 == w).to_bytes(4, "big")
        for w in range(4)
    ]
    assert decode_mask(b"".join(words)) == methods


@pytest.mark.parametrize("payload", [b"", b"\0\0\1", bytes(5)])
def test_no_mask(payload: bytes) -> None:
    assert decode_mask(payload) is None


@pytest.mark.parametrize(
    ("preference", "offered", "chosen"),
    [
        ((KEY, NONE), {0, 1}, KEY),
        ((NONE, KEY), {0, 1}, NONE),
        ((KEY, NONE), {0, 31}, NONE),
        ((KEY,), {0, 2}, None),
    ],
)
def test_choice(
    preference: tuple[Method, ...], offered: set[int], chosen: Method | None
) -> None:
    assert choose_method(preference, offered) is chosen


def test_warning_of_the_clause() -> None:
    assert (
        none_warning("client1.foo.com", "12.34.56.78")
        == "Warning: client1.foo.com (12.34.56.78) has authenticated with IMPI_AUTH_NONE."
    )


def test_a_python_without_ssl_has_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impi.protocol.startup.auth.find_spec", lambda _name: None)
    assert find_credentials({"IMPI_AUTH_SECRET": SECRET}).methods == (CHALLENGE,)


def test_a_relay_has_a_key_of_its_own_by_the_secret_or_the_key() -> None:
    keys = {
        relay_key({"IMPI_AUTH_SECRET": SECRET}),
        relay_key({"IMPI_AUTH_SECRET": f"another {SECRET}"}),
        relay_key({"IMPI_AUTH_KEY": str(LARGE)}),
    }
    assert len(keys) == 3
    assert relay_key({"IMPI_AUTH_SECRET": SECRET, "IMPI_AUTH_NONE": "1"}) in keys
    with pytest.raises(
        UsageError,
        match="a relay needs a secret, or anyone could use it: set IMPI_AUTH_SECRET",
    ):
        relay_key({"IMPI_AUTH_NONE": "1"})
