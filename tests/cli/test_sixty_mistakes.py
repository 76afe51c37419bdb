"""Mistakes at the prompt, over all verbs: one sentence with what is wrong, where, and the cure.

Each row is typed as it stands, in a folder with ``ok.py``, ``data.txt`` and ``bad.toml``.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
from pathlib import Path

import pytest

from impi.cli.guard import guarded

# (command line, what and where, cure[, exit code]); $ stands for the server's way without a secret
STARTS = re.compile(
    "(impilab|impi|impi bench|impi simulate|impirun|impicc|impifort|Error): "
)
LONG = "n" * 300
MISTAKES: list[tuple[str, str, str] | tuple[str, str, str, int]] = [
    # names of verbs and options
    ("impilab", "VERB", "impilab --help"),
    ("impilab rnu", "'rnu'", "did you mean run?"),
    ("impi decod x.pcap", "'decod'", "did you mean decode?"),
    ("impilab conform", "'conform' of impilab", "did you mean 'impi conform'?"),
    ("impi run", "'run' of impi", "did you mean 'impilab run'?"),
    ("impilab fly", "no verb 'fly'", "impilab --help"),
    ("impi", "VERB", "impi --help"),
    ("impirun", "name a program", "-server COUNT"),
    ("impilab ls bugs", "'bugs'", "choose from 'cases', 'tags', 'vendors'"),
    ("impilab ls", "required: what", "impilab ls --help"),
    ("impilab run --json", "--json", "only other verbs have that"),
    ("impilab run --topolgy 1x1", "--topolgy", "did you mean --topology?"),
    ("impilab abi --libary m=/", "--libary", "did you mean --library?"),
    ("impi bench --quik", "--quik", "did you mean --quick?"),
    ("impirun -client 0 h:1 --hiwatr 5 ok.py", "--hiwatr", "did you mean --hiwater?"),
    ("impilab run -x", "-x/--exclude: expected one argument", "impilab run --help"),
    ("impilab net", "required: set|show|reset", "impilab net --help"),
    ("impilab net set wna", "'wna'", "did you mean wan?"),
    ("impi simulate colective", "'colective'", "did you mean collective?"),
    ("impi bench nosuch", "no measure 'nosuch'", "the choices are latency, rate"),
    # names of cells, cases, tags, vendors, topologies, tests
    ("impilab run p2p.rnig", "no cell is 'p2p.rnig'", "did you mean 'p2p.ring'?", 5),
    ("impilab plan nothing.*", "'nothing.*'", "'impilab plan' shows what there is", 5),
    ("impilab run @smok", "'@smok'", "did you mean smoke?"),
    ("impilab run --tier smok", "'smok'", "did you mean smoke?"),
    ("impilab run --parties mpcih+pure", "vendor 'mpcih'", "did you mean mpich?"),
    ("impilab run --with acme", "vendor 'acme'", "the vendors are pure, mpich"),
    ("impilab check mpcih", "vendor 'mpcih'", "did you mean mpich?"),
    ("impilab check mpich@9.9", "no version '9.9'", "it has 5.0"),
    ("impilab vendor-ci mpcih", "vendor 'mpcih'", "did you mean mpich?"),
    ("impilab new vendor Acme!", "'Acme!'", "write small letters and digits"),
    ("impilab new vendor mpich", "'mpich' is taken", "images/mpich"),
    ("impilab run --topology 2y2", "'2y2' is not NODESxPROCS", "write a client"),
    ("impilab up tow-nodes", "'tow-nodes'", "did you mean two-nodes?"),
    ("impilab up 1x1+1x1 --parties mpich", "has 2 clients", "a vendor for each"),
    ("impi conform 9.9", "no test is named '9.9'", "'impi conform list' shows all"),
    ("impi tune --layout mpcih:2,pure:2", "'mpcih'", "did you mean mpich?"),
    ("impi tune --layout pure", "has 1 client", "needs at least 2"),
    ("impi simulate collective bcst", "'bcst'", "there are barrier, bcast"),
    # values and formats
    ("impilab run --jobs many", "--jobs 'many'", "write a whole number, such as 2"),
    ("impilab run --jobs 0", "--jobs 0", "from 1 to 64"),
    ("impilab run --seed x", "--seed 'x'", "write a whole number"),
    ("impilab run --shard 4/3", "--shard 4/3", "write I/N"),
    ("impilab run --retries -1", "--retries -1", "a number from 0 on"),
    ("impilab run --timeout-scale 0", "--timeout-scale 0.0", "from 0.01 to 1000"),
    ("impilab run --program ok.py --limit soon", "--limit soon", "such as 90s"),
    ('impilab run --program ok.py --args "\'a"', "--args 'a", "as in a shell"),
    ("impilab run --program ok.py --exit-code 999", "--exit-code 999", "0 to 255"),
    ("impilab run --program ok.py --tolerance x", "--tolerance 'x'", "write a number"),
    ("impilab up 1x1 --ttl 1s", "--ttl 1s", "give 10s or more"),
    ("impilab up 1x1 --name 'a b'", "--name 'a b'", "lower-case letters"),
    ("impilab net set --delay 20", "delay 20: '20' is not a time", "such as 50us"),
    ("impilab net set", "net set needs one of", "such as --delay 20ms"),
    ("impilab clean --label x", "--label x", "write NAME or NAME=VALUE"),
    ("impilab clean --older-than soon", "--older-than soon", "such as 90s"),
    ("impilab expect update --until soon", "--until soon", "write a date such as"),
    ("impilab expect update --until 2020-01-01", "is over already", "a date to come"),
    ("impilab expect update --issue here", "'here' is not a link", "https://..."),
    ("impilab run --replace mpich", "--replace mpich", "write VENDOR=PREFIX"),
    ("impilab abi --library mine", "'mine'", "--library is NAME=PREFIX"),
    ("impilab run --backend podman", "'podman'", "choose from docker, local"),
    ("impi conform --np 1", "--np 1", "give 2 to 64"),
    ("impi conform --client x --server y", "--client or --server", "not both"),
    ("impi decode --only tag ok.py", "'tag' is not a condition", "as in tag=7"),
    ("impi simulate collective bcast --procs 0", "'0'", "give one from 1"),
    ("impirun -client x h:1 ok.py", "not 'x'", "-client takes the number"),
    ("impirun -client 0 h:1 -np x ok.py", "-np: 'x'", "impirun --help"),
    ("impirun -n 1 ok.py : -n 0 ok.py", "client 1: -np is 0", "must be 1 to"),
    ("impirun -n 1 ok.py :", "client 1 is empty", "leave out a colon"),
    ("impirun -server x", "-server: 'x'", "impirun --help"),
    ("impirun -server 2 ok.py", "'ok.py' was named", "a server runs no program"),
    ("impirun -server 2 -client 0 h:1", "-server COUNT", "not both"),
    ("$ impirun -client 0 h:1 --nodes a:x ok.py", "'a:x'", "NODE:SLOTS,NODE:SLOTS"),
    # ports and addresses
    ("impirun -server 2 -port 99999", "-port is 99999", "must be 0 to 65535"),
    ("$ impirun -client 0 nowhere ok.py", "'nowhere'", "that impirun -server prints"),
    ("$ impirun -client 0 127.0.0.1:99999 ok.py", "99999", "impirun -server prints"),
    ("$ impirun -client 0 127.0.0.1:1 ok.py", "127.0.0.1:1", "start 'impirun -s", 1),
    (
        "$ impirun -client 0 h:1 --interface 203.0.113.7 --vendor pure ok.py",
        "203.0.113.7 is not an address",
        "'ip address' shows them",
    ),
    ("$ impirun -server 2 --interface 203.0.113.7", "203.0.113.7", "--interface takes"),
    ("impirun -n 1 --ports 9-1 ok.py", "'9-1'", "such as 20000-20100"),
    ("impi conform --port 99999", "--port 99999", "give 0 to 65535"),
    ("impi conform --web 1234", "--web 1234", "such as 127.0.0.1:8000"),
    # files and folders: missing, of another kind, malformed
    ("impilab run --program none.py", "none.py cannot be read", "write its path"),
    ("impilab run --program .", ". cannot be read: Is a dir", "name a file in it"),
    ("impilab run --topology none.toml", "none.toml", "write its path"),
    ("impilab run --expect none.toml", "expectations none.toml", "write its path"),
    ("impilab expect lint --expect bad.toml", "bad.toml is not TOML", "line 1"),
    ("impilab run --backend ssh:none.toml", "none.toml cannot be", "write its path"),
    ("impilab run --replace mpich=/nowhere", "no folder /nowhere", "name the one that"),
    ("impilab merge none", "no folder none", "'impilab run --shard' has written"),
    ("impilab merge .", "has no run in it", "'impilab run --shard' has written"),
    ("impilab clean --runs none", "--runs none", "name the one that has the runs"),
    ("impilab report none", "no run runs/none", "'impilab ls runs' shows them"),
    ("impilab diff a b", "no run runs/a", "'impilab ls runs' shows them"),
    ("impilab repro abc", "no run yet", "'impilab run' makes one", 125),
    ("impilab repro abc --run ok.py", "ok.py is not a run", "'impilab ls runs'", 125),
    ("impilab bundle abc", "no run yet", "'impilab run' makes one"),
    ("impilab unbundle none.zip", "none.zip cannot be read", "write its path"),
    ("impilab unbundle ok.py", "ok.py is not a bundle", "'impilab bundle'"),
    ("impilab down", "no lab in .impilab/", "'impilab up TOPOLOGY' makes one"),
    ("impilab ssh c0n0", "no lab in .impilab/", "'impilab up TOPOLOGY' makes one"),
    ("impilab exec c0n0", "exec needs a command", "NODE -- COMMAND"),
    ("impi decode none.pcap", "none.pcap cannot be read", "write its path"),
    ("impi decode ok.py", "ok.py is neither", "a capture (pcap, pcapng)"),
    ("impi bench show none.json", "none.json cannot be read", "write its path"),
    ("impi bench show ok.py", "ok.py is not JSON", "'impi bench --json' has written"),
    ("impi tune --from none.json", "none.json cannot be read", "write its path"),
    ("impi conform --replay none", "none cannot be read", "write its path"),
    ("impi conform table none.json", "none.json cannot be read", "write its path"),
    ("$ impirun -client 0 h:1 --vendor pure none.py", "none.py", "write its path"),
    ("$ impirun -client 0 h:1 --vendor pure data.txt", "data.txt", "chmod +x"),
    ("$ impirun -client 0 h:1 --hostfile none ok.py", "--hostfile none", "its path"),
    (
        "$ impirun -client 0 h:1 --prefix /proc --vendor mpich ok.py",
        "--prefix /proc",
        "name",
    ),
    ("$ impirun -server 2 -file none", "-file none cannot be read", "write its path"),
    ("impirun -client 0 h:1 --tuning none ok.py", "--tuning: none", "write its path"),
    (f"impirun -n 1 --vendor pure {LONG}.py", "name too long", "name a shorter one"),
    ("impirun -n 1 --vendor pure ok.py/x.py", "ok.py/x.py", "write its path"),
    ("impirun -n 1 --vendor pure ./loop.py", "./loop.py", "write its path"),
    ("impirun -n 1 --vendor pure ./old.sh", "./old.sh", "/nowhere/sh, which is not"),
    ("impirun -slurm ok.py", "SLURM_JOB_ID is not set", "sbatch or salloc"),
    # libraries that are not there
    (
        "PATH=/nowhere impirun -n 1 --vendor intel ok.py",
        "no mpiexec of intel",
        "--prefix DIR or IMPI_PREFIX_INTEL=DIR",
    ),
    # environment variables
    ("impirun -server 2", "No authentication methods", "Set IMPI_AUTH_SECRET"),
    ("$ IMPI_SPIN=soon impirun -client 0 h:1 ok.py", "IMPI_SPIN: 'soon'", "seconds"),
    ("IMPI_VERIFY=9 impirun -client 0 h:1 ok.py", "IMPI_VERIFY is 9", "must be 0 to 4"),
    ("IMPI_AUTH_KEY=x impirun -server 2", "IMPI_AUTH_KEY", "must be a number"),
    ("IMPI_AUTH_SECRET=@none impirun -server 2", "none cannot be", "write its path"),
    ("IMPI_AUTH_SECRET=@ok.py impirun -server 2", "can be read by others", "chmod 600"),
    (
        "DOCKER_HOST=tcp://127.0.0.1:1 impilab run --backend docker p2p.ring",
        "(DOCKER_HOST=tcp://127.0.0.1:1: Connection refused)",
        "start it",
        3,
    ),
    (
        "DOCKER_HOST=nonsense impilab up 1x1 --backend docker",
        "DOCKER_HOST=nonsense",
        "'docker info' works",
        3,
    ),
    (
        "DOCKER_CONTEXT=nosuch impilab up 1x1 --backend docker",
        "no context 'nosuch'",
        "'docker context ls' shows them",
        3,
    ),
    ("CC=nocc impicc x.c", "CC is nocc", "set CC to a compiler", 1),
    ("impilab run --program ok.c", "ok.c is a source", "compile it by 'impicc'"),
    ("impilab run --program ok.F90", "is a source", "compile it by 'impifort'"),
    # words of a shell that came out empty, or name a thing of another kind
    ("impilab run --parties pure+", "no vendor ''", "the vendors are pure, mpich"),
    ("impilab run --topology ''", "'' is not NODESxPROCS", "write a client"),
    ("impilab run ''", "selector ''", "write CASE/PARTIES/TOPOLOGY"),
    ("impilab plan --topology 0x1+1x1", "'0x1'", "write a client with"),
    ("impilab plan --backend ssh: p2p.ring", "'ssh:'", "ssh:FILE"),
    ("impilab plan --backend local --runs ok.py", "ok.py is a file", "name the folder"),
    ("impilab run --expect ok.py", "ok.py is not TOML", "line 1"),
    ("impilab run --resume --failed", "--resume keeps the plan", "leave out all"),
    ("impilab run --program ok.py --tolerance 1e-9", "--tolerance", "--output FILE"),
    ("impilab run --program ok.py --output /x", "/x", "into its own folder"),
    ("impilab report .", ". is not a run", "'impilab ls runs' shows those"),
    ("impi tune --from data.txt", "data.txt is not a measurement", "has written"),
    ("impi conform table list.json", "list.json is not a report", "has written"),
    ("impi bench latency --sizes 8,banana", "'banana' is not a size", "such as 64KiB"),
    ("impi bench show list.json", "list.json is not of", "impi-bench 1 is needed"),
    ("$ impirun -client 0 h:1 --nodes '' ok.py", "--nodes is empty", "leave it out"),
    ("impirun -n 1 --prefix '' ok.py", "--prefix is empty", "give it DIR"),
    ("impirun -n 1 -host '' ok.py", "client 0: -host takes", "NODE:SLOTS"),
    ("impirun -n 1 --vendor pure:2 ok.py", "'pure:2'", "did you mean pure?"),
    ("impirun -server 33", "-server is 33", "must be 1 to 32"),
    ("IMPI_AUTH_SECRET=short impirun -server 1", "fewer than 16", "openssl rand"),
    ("FC=nofc impifort x.f90", "FC is nofc", "install gfortran, or set FC", 1),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ok.py").write_text("from mpi4py import MPI\n")
    (tmp_path / "ok.py").chmod(0o644)
    (tmp_path / "data.txt").write_text("hello\n")
    (tmp_path / "bad.toml").write_text("[[expect]\n")
    (tmp_path / "list.json").write_text("[]\n")
    for name in ("ok.c", "ok.F90"):
        (tmp_path / name).write_text("int main(void) { return 0; }\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "old.sh").write_text("#!/nowhere/sh\n")
    (tmp_path / "old.sh").chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("IMPI", "SLURM"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("IMPI_CACHE", str(tmp_path.with_name("cache")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code_of(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Type a command line; return its exit code."""
    words = shlex.split(line)
    if words[0] == "$":
        words[0] = "IMPI_AUTH_NONE=1"
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", words)
    command = importlib.import_module(f"impi.cli.{words[0]}")
    try:
        return guarded(words[0], command.main)
    except SystemExit as end:
        assert isinstance(end.code, int), end.code
        return end.code


def test_there_are_sixty_and_more_over_all_commands() -> None:
    lines = [row[0] for row in MISTAKES]
    assert len(set(lines)) == len(lines) >= 60
    for command in ("impirun", "impilab", "impi", "impifort"):
        assert any(f"{command} " in f"{line} " for line in lines)


@pytest.mark.parametrize("row", MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_one_sentence_with_the_cure(
    row: tuple[str, str, str] | tuple[str, str, str, int],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    line, what, cure = row[:3]
    code = row[3] if len(row) == 4 else 4
    before = sorted(folder.rglob("*"))
    found = code_of(line, monkeypatch)
    out, err = capfd.readouterr()
    assert (found, out) == (code, ""), err
    assert err.count("\n") == 1, err
    assert what in err
    assert cure in err
    assert len(err) < 700, err
    assert STARTS.match(err)
    assert sorted(folder.rglob("*")) == before
