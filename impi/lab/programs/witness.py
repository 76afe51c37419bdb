"""Looks at a node's ranks from outside; JSON lines on standard output.

``witness.py CELL_FOLDER COUNT TIMEOUT`` waits until COUNT ranks have reported that MPI is
initialised. It reads from /proc the MPI library that each has mapped, and hashes the files of its
impi modules, prints both and opens the gate. Then it waits until COUNT ranks have ended, and prints
all files of the cell and the MPI calls of the ranks. On SIGTERM it asks the ranks for stacks,
prints all and ends. With ``--outside`` at the end the ranks report nothing: it looks at what their
wrappers have started until they end. ``witness.py --libraries PREFIX...`` prints the hashes of the
MPI libraries in the prefixes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

# an isolated Python does not look into its own folder
sys.path.insert(0, str(Path(__file__).parent))

from kernel_tables import listeners  # type: ignore[import-not-found]

_LIBRARY = re.compile(r"lib(mpi(ch|_abi)?\.so[.0-9]*|impi_front\.so)$")
_TURN_S = 0.02  # each look reads a folder, and a node's disk may be slow to answer
_STACK_S = 0.5
_MOST_CALLS = 1 << 19
_RESTLESS_S = 10.0
_SELDOM_S = 0.5
_hashes: dict[str, str] = {}
_told_to_end = False


# A hash tells the very library, where a path may be a link or a build in its place.
def _sha256(path: str) -> str:
    if path not in _hashes:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                _hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            _hashes[path] = f"unreadable: {error}"

    return _hashes[path]


def _libraries_in(prefixes: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for prefix in prefixes:
        for path in sorted(Path(prefix).glob("lib*/libmpi*")):
            if _LIBRARY.fullmatch(path.name):
                found.setdefault(prefix, {})[str(path)] = _sha256(str(path))

    return found


def _mapped(pid: int) -> dict[str, Any]:
    """Return the MPI libraries that a process has mapped, or the error of the look."""
    try:
        maps = os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes())
    except OSError as error:
        return {"pid": pid, "error": f"/proc/{pid}/maps: {error}", "libraries": {}}

    paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}

    return {
        "pid": pid,
        "shared": _shared(maps),
        "libraries": {
            p: _sha256(p) for p in sorted(paths) if _LIBRARY.fullmatch(Path(p).name)
        },
    }


def _shared(maps: str) -> list[str]:
    """Return segments that a process may share with others to move messages, with their inodes."""
    found = set()
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        # Files named pmix are Open MPI's description of the job, which its
        # launcher shares: no messages.
        if (
            len(fields) == 6
            and fields[1].startswith("rw")
            and fields[1].endswith("s")
            and "pmix" not in fields[5]
        ):
            # With device and inode: two processes share a segment, not just a name.
            found.add(f"{fields[3]}/{fields[4]} {fields[5]}")

    return sorted(found)


def _files(folder: Path, kind: str = "*") -> dict[str, Any]:
    found = {}
    for path in sorted(folder.glob(f"{kind}-*.json")):
        try:
            found[path.stem] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            found[path.stem] = {"error": str(error)}

    return found


def _count(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}-*.json")))


def _ended(folder: Path) -> int:
    return sum(
        value.get("status") is not None for value in _files(folder, "wrap").values()
    )


def _say(kind: str, value: object) -> None:
    print(json.dumps({"kind": kind, "value": value}), flush=True)


def _identify(folder: Path) -> None:
    found = []
    for name, value in _files(folder).items():
        if name.startswith("init-"):
            sources = {
                module: _sha256(path)
                for module, path in value.get("sources", {}).items()
            }
            pid = int(name.split("-")[1])
            found.append(
                {
                    **_mapped(pid),
                    "sources": sources,
                    "ancestors": _ancestors(pid),
                    "listens": _listening(pid),
                }
            )

    _say("identity", found)


def _ancestors(pid: int) -> list[str]:
    """Return the programs above a process, as far as this user may see them."""
    found: list[str] = []
    try:
        while (
            pid := int(
                Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1]
            )
        ) > 1:
            found.append(_program(pid))
    except (OSError, ValueError, IndexError):
        pass

    return found


def _program(pid: int) -> str:
    """Return the file that a process runs; of an emulator the program that it emulates."""
    path = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    if not path.rpartition("/")[2].startswith("qemu-"):
        return path

    return os.path.realpath(
        os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1])
    )


def _listening(pid: int) -> list[str]:
    inodes: set[str] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        pass

    return [each.end for each in listeners(pid) if each.inode in inodes]


def _watch(folder: Path, count: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout

    # From before MPI_Init on: a host's listener may close as soon as its channels are there.
    ends = {each.end for each in listeners()}
    while (
        _count(folder, "init") < count
        and not _told_to_end
        and time.monotonic() < deadline
    ):
        time.sleep(_TURN_S)
        ends.update(each.end for each in listeners())

    _say("listeners", sorted(ends))
    _identify(folder)

    # Only now may ranks go on: what was seen is what they run with, whatever they do later.
    (folder / "gate").write_text("open", "utf-8")
    while _ended(folder) < count and not _told_to_end and time.monotonic() < deadline:
        time.sleep(_TURN_S)

    if _told_to_end:
        _say("stacks", _stacks(folder))
        # After the stacks, which ask living processes.
        _abort_mute(folder)

    _say("files", _files(folder))
    _say(
        "calls",
        {
            path.stem.split("-")[1]: _tail(path)
            for path in sorted(folder.glob("calls-*.jsonl"))
        },
    )


def _follow(folder: Path, count: int, timeout: float) -> None:
    """Watch ranks that report nothing, by all that each has ever mapped."""

    deadline, changed, told, over = (
        time.monotonic() + timeout,
        time.monotonic(),
        False,
        False,
    )
    seen: dict[int, dict[str, Any]] = {}

    known = 0
    while not over:
        over = _told_to_end or time.monotonic() > deadline or _ended(folder) >= count
        for wrap in _files(folder, "wrap").values():
            if wrap.get("pid") and wrap.get("status") is None:
                _add(seen, int(wrap["pid"]))

        if not told and sum(bool(look["libraries"]) for look in seen.values()) >= count:
            told = True
            _say("identity", list(seen.values()))

        # A short program has its client's library for a moment; of a long one all is known soon.
        now = sum(len(look["libraries"]) for look in seen.values())

        changed, known = (
            (time.monotonic(), now) if now != known or not told else (changed, known)
        )
        if not over:
            time.sleep(
                _TURN_S if time.monotonic() < changed + _RESTLESS_S else _SELDOM_S
            )

    _say("identity", list(seen.values()))
    _say("files", _files(folder))
    _say("calls", {})


def _add(seen: dict[int, dict[str, Any]], pid: int) -> None:
    """Add what a process has mapped now to what it had before."""

    look = {**_mapped(pid), "ancestors": _ancestors(pid), "listens": _listening(pid)}
    if "error" in look:
        return  # it has just ended, or it begins

    before = seen.get(
        pid, {"libraries": {}, "shared": [], "ancestors": [], "listens": []}
    )

    look["libraries"] = {**before["libraries"], **look["libraries"]}
    for name in ("shared", "listens"):
        look[name] = sorted({*before[name], *look[name]})

    look["ancestors"] = look["ancestors"] or before["ancestors"]
    seen[pid] = look


def _tail(path: Path) -> str:
    """Return a file's last lines; all of them unless there are very many."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MOST_CALLS))
        text = file.read().decode("utf-8", "replace")

    return text if size <= _MOST_CALLS else text.partition("\n")[2]


def _stacks(folder: Path) -> dict[str, list[str]]:
    """Return where the ranks stand that have not ended, innermost frame first."""

    asked = []
    for path in folder.glob("stack-*.txt"):
        try:
            os.kill(int(path.stem.split("-")[1]), signal.SIGUSR1)
            asked.append(path)
        except OSError:
            continue  # this rank is gone

    deadline = time.monotonic() + _STACK_S
    while time.monotonic() < deadline and any(
        not path.stat().st_size for path in asked
    ):
        time.sleep(0.01)

    frames = {
        path.stem: [line.strip() for line in path.read_text("utf-8").splitlines()[1:]]
        for path in asked
    }

    return {name: lines for name, lines in frames.items() if lines}


def _abort_mute(folder: Path) -> None:
    """End ranks that hang before their first report; Python then writes their stack to stderr."""
    for name, value in _files(folder).items():
        pid = value.get("pid")
        if (
            name.startswith("wrap-")
            and value.get("status") is None
            and not (folder / f"init-{pid}.json").exists()
        ):
            try:
                os.kill(int(pid), signal.SIGABRT)
            except (OSError, TypeError, ValueError):
                continue


def _end(_number: int, _frame: object) -> None:
    global _told_to_end
    _told_to_end = True


if __name__ == "__main__":
    if sys.argv[1] == "--libraries":
        _say("libraries", _libraries_in(sys.argv[2:]))
    else:
        signal.signal(signal.SIGTERM, _end)
        os.makedirs(sys.argv[1], exist_ok=True)  # noqa: PTH103
        watch = _follow if sys.argv[4:] == ["--outside"] else _watch
        watch(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
