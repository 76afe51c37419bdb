"""This machine's certificates and pip settings, which reach packages in builds only.

They belong to the machine and not to the project, so they become a layer under the base image.
Everybody who has an image can read that layer, so no user name and no password gets into it.
"""

from __future__ import annotations

import configparser
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_CERTIFICATES: Final = "/etc/impilab/certificates.pem"
_SYSTEM: Final = Path("/etc/pip.conf")
_BUNDLES: Final = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_OWN_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")
_SYSTEM_BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_SETTINGS: Final = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "no-index",
)
_ADDRESSES: Final = ("index-url", "extra-index-url", "proxy")
_AT: Final = re.compile(r"^((?:[a-z+]+://)?)[^/\s]*@", re.IGNORECASE)
_WHEELS: Final = "/etc/impilab/wheels"


def machine_files(
    environ: Mapping[str, str] = os.environ,
    *,
    system: Path = _SYSTEM,
    own_certificates: Path = _OWN_CERTIFICATES,
    bundle: Path = _SYSTEM_BUNDLE,
) -> dict[str, bytes]:
    """Return files by path, with ``!`` for the slash; empty: the machine has no own settings."""

    settings = _settings(environ, system)
    files = {}

    certificates = _certificates(
        environ, settings.pop("cert", ""), own_certificates, bundle
    )
    if certificates:
        files[_CERTIFICATES] = certificates
        settings["cert"] = _CERTIFICATES

    links = []
    for link in settings.pop("find-links", "").split():
        wheels = sorted(Path(link).glob("*.whl")) if Path(link).is_dir() else []

        files.update(
            {f"{_WHEELS}/{wheel.name}": wheel.read_bytes() for wheel in wheels}
        )
        if wheels or "://" in link:
            links.append(_WHEELS if wheels else _without_secrets(link))

    if links:
        settings["find-links"] = "\n".join(dict.fromkeys(links))

    if settings:
        text = io.StringIO()
        config = configparser.RawConfigParser()
        config["global"] = settings
        config.write(text)
        files["/etc/pip.conf"] = text.getvalue().encode()

    return {name.lstrip("/").replace("/", "!"): data for name, data in files.items()}


def _without_secrets(value: str) -> str:
    """Return addresses, separated by white space, without ``user:password@``."""
    return "\n".join(_AT.sub(r"\1", word) for word in value.split())


def _settings(environ: Mapping[str, str], system: Path) -> dict[str, str]:
    """Return the machine's pip settings; later sources win, as in pip."""

    config_home = Path(
        environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/")) / ".config"
    )

    sources = [system, config_home / "pip/pip.conf"]
    if environ.get("PIP_CONFIG_FILE"):
        sources.append(Path(environ["PIP_CONFIG_FILE"]))

    found: dict[str, str] = {}

    wanted = (*_SETTINGS, "cert", "find-links")
    for source in sources:
        config = configparser.RawConfigParser()
        try:
            config.read_string(source.read_text("utf-8"))
        except (OSError, configparser.Error, UnicodeDecodeError):
            continue

        for section in ("global", "install"):
            if config.has_section(section):
                found.update(
                    {
                        name: value
                        for name, value in config.items(section)
                        if name in wanted
                    }
                )

    for name in wanted:
        value = environ.get("PIP_" + name.replace("-", "_").upper())
        if value:
            found[name] = value

    for name in _ADDRESSES:
        if name in found:
            found[name] = _without_secrets(found[name])

    return found


def _certificates(
    environ: Mapping[str, str], setting: str, own: Path, bundle: Path
) -> bytes:
    """Return the bundle that this machine trusts; empty if it is the usual one."""
    for text in (setting, *(environ.get(name, "") for name in _BUNDLES)):
        if text:
            try:
                return Path(text).read_bytes()
            except OSError:
                continue

    if any(own.glob("*.crt")):
        try:
            return bundle.read_bytes()
        except OSError:
            return b""

    return b""
