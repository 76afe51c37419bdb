"""Write what an installation consists of, from the locks, as CycloneDX: ``make sbom``.

A file for each environment that users install: impi with its extras of ``ci/locks/lab.txt``.
Usage: ci/sbom.py [FOLDER], by default ``build``.

cyclonedx-bom 7.5 ("cyclonedx-py requirements") was tried on the same lock. Its root has no version,
which is not in pyproject.toml, and depends on nothing. Its references are numbers of lines, so that
one more package changes many. Conditions such as ``python_version`` are lost, and each component
repeats all its hashes as a description. A reproducible bill has no serial number. It would bring 13
packages for the 50 lines that are here, and what it lacks would have to be written all the same.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(TOP))

from impi import __version__  # noqa: E402

LOCKS = ("lab",)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]*?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def pins(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield name, version, condition and hashes of each package of a lock file.

    Raises:
        ValueError: a line is neither a package nor a hash of one.
    """
    found: tuple[str, str, str, list[str]] | None = None
    for line in text.splitlines():
        if pin := _PIN.match(line):
            if found is not None:
                yield found
            found = (pin[1].lower(), pin[2], (pin[3] or "").strip(), [])
        elif (digest := _HASH.search(line)) and found is not None:
            found[3].append(digest[1])
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"no line of a lock file: {line}")
    if found is not None:
        yield found


def component(
    name: str, version: str, condition: str, hashes: list[str]
) -> dict[str, Any]:
    """Return a package as a component."""
    purl = f"pkg:pypi/{re.sub(r'[._]', '-', name)}@{version}"
    files = [{"alg": "SHA-256", "content": each} for each in hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "scope": "required" if not condition else "optional",
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": files}],
        **(
            {"properties": [{"name": "impi:condition", "value": condition}]}
            if condition
            else {}
        ),
    }


def bill(lock: str) -> dict[str, Any]:
    """Return the bill of materials of a lock file's text; equal ones have equal bills."""
    components = [component(*pin) for pin in pins(lock)]
    own = f"pkg:pypi/impilab@{__version__}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "impilab",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": sorted(each["bom-ref"] for each in components)}
        ],
    }


def main() -> int:
    """Write the files; return the exit code."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build")
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOCKS:
        path = folder / f"impilab-{__version__}-{name}.cdx.json"
        text = (TOP / "ci/locks" / f"{name}.txt").read_text("utf-8")
        path.write_text(json.dumps(bill(text), indent=1) + "\n", "utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
