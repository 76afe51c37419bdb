"""HMAC-SHA256 as RFC 4231 and the standard library have it."""

from __future__ import annotations

import hashlib
import hmac as standard
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.proofs import hmac, sha256


@pytest.mark.parametrize(
    ("key", "text", "digest"),
    [  # RFC 4231, 4.2, 4.3, 4.4 and 4.8
        (
            b"\x0b" * 20,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            b"\xaa" * 20,
            b"\xdd" * 50,
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            b"\xaa" * 131,
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
            b"be hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ],
)
def test_the_vectors_of_rfc_4231(key: bytes, text: bytes, digest: str) -> None:
    assert hmac(key, text).hex() == digest


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_the_standard_library_has_the_same(key: bytes, text: bytes) -> None:
    assert hmac(key, text) == standard.digest(key, text, "sha256")
    assert sha256(text).digest() == hashlib.sha256(text).digest()


def test_openssl_is_not_loaded() -> None:
    program = "import impi.protocol.startup.client, impi.protocol.startup.server, sys; print('_hashlib' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert out == "False\n"
