"""Make a release in ``dist``: sdist, wheel, notes, bill of materials, checksums: ``make release``.

The version stands in one place, ``impi/__init__.py``. CHANGELOG.md and CITATION.cff must know it,
with one date. Tags of the commit, if it has any, have to name it (``v0.1.0``), and then nothing may
differ from the commit. Notes are the part of CHANGELOG.md about this version.
Usage: ci/release.py [FOLDER], by a Python that has the packages of ci/locks/package.txt.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(TOP))

from impi import __version__  # noqa: E402

OURS = "impilab-*"
SUMS = "SHA256SUMS"


class NoRelease(Exception):
    """A release is not possible; the text says what is wrong, where, and the cure."""


def notes(changelog: str, version: str) -> tuple[str, str]:
    """Return the date of a version, and what changed with it."""
    parts = re.split(r"^## +", changelog, flags=re.M)
    for part in parts[1:]:
        head, _, text = part.partition("\n")
        name, _, when = head.partition(" ")
        if name != version:
            continue
        if not (date := re.fullmatch(r"\((\d{4}-\d\d-\d\d)\)", when)):
            raise NoRelease(
                f"CHANGELOG.md: '## {head}' has no date: write '## {version} (YYYY-MM-DD)'"
            )
        return date[1], text.strip() + "\n"
    raise NoRelease(
        f"CHANGELOG.md has no part about {version}: write '## {version} (YYYY-MM-DD)'"
    )


def standing_alone(text: str, base: str) -> str:
    """Return notes with links into the tree at ``base``; without a base, links are their text.

    The notes are read on the page of a release and beside the wheel: no file of the tree is there.
    """
    links = r"\[([^\]]+)\]\((?![a-z]+:)([^)\s]+)\)"
    return re.sub(links, rf"[\1]({base}/\2)" if base else r"\1", text)


def tree_on_github(version: str) -> str:
    """Return the address of the tagged tree, which a workflow of GitHub knows; empty elsewhere."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY")
    server, repository = (os.environ.get(name, "") for name in names)
    return f"{server}/{repository}/blob/v{version}" if server and repository else ""


def check_citation(text: str, version: str, date: str) -> None:
    """Raise NoRelease unless a CITATION.cff is that of a version and its date."""
    for key, value in (("version", version), ("date-released", date)):
        found = re.search(rf'^{key}: *"?([^"\n]*)"?$', text, flags=re.M)
        if found is None or found[1] != value:
            raise NoRelease(f"CITATION.cff: write '{key}: {value}'")


def check_tags(tags: list[str], changed: list[str], version: str) -> None:
    """Raise NoRelease if tags of versions name another one, or something is not committed."""
    versions = [tag for tag in tags if re.fullmatch(r"v\d.*", tag)]
    if versions and f"v{version}" not in versions:
        raise NoRelease(
            f"the tag {versions[0]} is not that of {version}: write the version into"
            " impi/__init__.py, or remove the tag"
        )
    if versions and changed:
        raise NoRelease(
            f"{changed[0]} is not as in the tagged commit: commit or restore it"
        )


def sums(folder: Path) -> str:
    """Return the checksums of all released files, as sha256sum writes and reads them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.glob(OURS))
    )


def _git(*argv: str) -> list[str]:
    """Lines of git about this checkout; an sdist is none, and has no tags."""
    if not (TOP / ".git").exists():
        return []
    done = subprocess.run(
        ["git", "-C", str(TOP), *argv], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _run(*argv: str, stdout: int | None = None) -> None:
    subprocess.run([sys.executable, *argv], cwd=TOP, stdout=stdout, check=True)


def _made(folder: Path) -> str:
    """Make all files; return the version and its date."""
    changed = [line[3:] for line in _git("status", "--porcelain")]
    check_tags(_git("tag", "--points-at", "HEAD"), changed, __version__)
    date, text = notes((TOP / "CHANGELOG.md").read_text("utf-8"), __version__)
    check_citation((TOP / "CITATION.cff").read_text("utf-8"), __version__, date)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(OURS):
        old.unlink()  # a file of another version would be released, too
    _run("-m", "build", "--no-isolation", "--outdir", str(folder), str(TOP))
    _run("-m", "twine", "check", "--strict", *map(str, folder.glob(OURS)))
    # All files are listed at the end; the name of this one need not come twice.
    _run("ci/sbom.py", str(folder), stdout=subprocess.DEVNULL)
    title = f"# impilab {__version__} ({date})\n\n"
    text = standing_alone(text, tree_on_github(__version__))
    (folder / f"impilab-{__version__}-notes.md").write_text(title + text, "utf-8")
    (folder / SUMS).write_text(sums(folder), "utf-8")
    return f"{__version__} of {date}"


def main() -> int:
    """Make the release; return the exit code."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "dist").absolute()
    try:
        what = _made(folder)
    except NoRelease as error:
        print(f"release: {error}", file=sys.stderr)
        return 4
    except subprocess.CalledProcessError as error:
        print(f"release: {' '.join(error.cmd[:4])} failed: see above", file=sys.stderr)
        return 1
    for path in (*sorted(folder.glob(OURS)), folder / SUMS):
        print(path)
    print(f"release: {what}; try it: pip install '{next(folder.glob('*.whl'))}[lab]'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
