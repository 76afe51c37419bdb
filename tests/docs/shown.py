"""Each command of a page that no mark makes a test run (``pages.py``), and the test that runs it.

A page names files, hosts and cells that its reader has. Here stand the names that a test has in
their place, and the options that make a run short. What cannot be run has a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CLIENT = (
    "impirun -client {client} {server} -auth 1,0 -np {np} --vendor pure {interpreter}"
)


@dataclass(frozen=True)
class Here:
    """The command is run in a folder that has the files of :func:`test_shown.scene`."""

    more: str = ""
    """Options behind it."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Words that stand for others."""
    codes: tuple[int, ...] = (0,)
    """Exit codes, one of which the command has to have."""
    before: str = ""
    """A shell line that makes what the command needs."""
    needs: tuple[str, ...] = ()
    """MPI libraries, or ``docker``."""


@dataclass(frozen=True)
class Elsewhere:
    """Other tests run it, with more to look at than an exit code."""

    tests: str
    word: str = ""
    """A word that they have; empty: the verb, or its first argument."""


@dataclass(frozen=True)
class NotHere:
    """It cannot be run by a test."""

    why: str


Fate = Here | Elsewhere | NotHere

BOTH = ("mpich", "openmpi")
LOCAL = "--backend local --parties pure+pure"
MAKE = NotHere("a verb of the Makefile, which installs and takes minutes; CI calls it")
PIP = Elsewhere("tests/package/test_installed.py")
SSH = Elsewhere("tests/lab/backends/ssh/test_host_checks.py")
BUNDLES = Elsewhere("tests/cli/lab/past_runs/test_hand_on.py")
VENDOR = Elsewhere("tests/lab/run/test_vendor_check.py")
KUBERNETES = Elsewhere("tests/kubernetes/test_kubernetes_labs.py")
SWARM = Elsewhere("tests/swarm/test_swarm_labs.py")
RING = f"p2p.ring {LOCAL}"
A_CELL = "run --backend local p2p.ring/pure+pure/1x2+1x2"
QUICK = "--quick --vendors pure"
BOUNDS = (0, 1)
"""1: a busy machine does not hold a bound of the benchmark."""
CONFORM_ONE = Here("3.7.2/send-long", {"...": CLIENT})

# The key begins the command, without a folder before the program; the longest one counts.
FATES: Mapping[str, Fate] = {
    "make": MAKE,
    "pip install": PIP,
    # -- mixed jobs
    "impirun -n 2 --vendor mpich ./a : -n 2 --vendor openmpi ./b": Here(needs=BOTH),
    "impirun -n 2 --vendor mpich : -n 2 --vendor openmpi : -n 1 examples": Here(
        needs=BOTH
    ),
    "impirun --explain -n 2": Here(needs=BOTH),
    "impirun -n 2 --vendor mpich : -n 2 --vendor openmpi ./a.out": Here(needs=BOTH),
    "impirun -n 2 --vendor mpich : -n 2 --vendor openmpi ./run.sh": Here(needs=BOTH),
    "impirun -n 2 --vendor mpich : -n 2 --vendor pure prog.py": Here(needs=BOTH[:1]),
    "impirun -n 4 --vendor openmpi -host b": Elsewhere(
        "tests/jobs/test_one_command.py", "-host"
    ),
    "impirun -n 2 --vendor mpich --handles openmpi": Elsewhere(
        "tests/cabi/library/test_mpi4py_extension.py", "handles"
    ),
    "impirun -client 0 192.0.2.2:41525 -np 2 --handles": Elsewhere(
        "tests/cabi/library/test_mpi4py_extension.py", "handles"
    ),
    "impirun -client 0 192.0.2.2:41525 -np 2 --vendor mpich --explain": Here(
        needs=BOTH[:1]
    ),
    "impirun -client 0 192.0.2.2:41525 -np 2 -x LD_PRELOAD": Here(
        instead={"LD_PRELOAD=/opt/libprofiler.so": "LD_PRELOAD=$PWD/libprofiler.so"}
    ),
    "impirun -client 0 192.0.2.2:41525 -np 2 env LD_PRELOAD": Here(
        instead={"LD_PRELOAD=/opt/libprofiler.so": "LD_PRELOAD=$PWD/libprofiler.so"}
    ),
    "impirun -np 2 --vendor mpich": Here(needs=BOTH[:1]),
    "impirun -np 4 --vendor mpich --launcher pmi": Elsewhere(
        "tests/launch/test_ways_to_run.py", "--nodes"
    ),
    "impirun -server 2": Elsewhere("tests/docs/pages.py", "server"),
    "impirun -client 0 HOST:PORT -np 2 --vendor mpich": Here(needs=BOTH[:1]),
    "impirun -client 1 HOST:PORT -np 2 --vendor openmpi": Here(
        instead={"1": "0"}, needs=BOTH[1:]
    ),
    "impirun -relay": Elsewhere("tests/jobs/test_relay_in_jobs.py"),
    "impirun -client 0 SERVER --relay": Elsewhere("tests/jobs/test_relay_in_jobs.py"),
    "impifort": Elsewhere("tests/cli/test_impifort.py"),
    # -- cells
    "impilab demo": Here(),
    "impilab run p2p.*/mpich+openmpi/*": Here(
        "--backend local",
        {"p2p.*/mpich+openmpi/*": "p2p.ring/mpich+openmpi/*"},
        needs=BOTH,
    ),
    "impilab repro CELL --keep": Here(
        instead={"CELL": "p2p.ring/pure+pure/1x2+1x2"},
        before=f"impilab {A_CELL}",
    ),
    "impilab run --program mine.py": Here(LOCAL),
    "impilab run --program ./a.out": Here(
        LOCAL, {"result.txt": "input.txt"}, codes=(1,)
    ),
    "impilab run --backend local --program solve.py": Here("--parties pure+pure"),
    "impilab repro program.a/mpich+openmpi/1x2+1x2": Here(
        instead={
            "program.a/mpich+openmpi/1x2+1x2": "program.mine/pure+pure/1x2+1x2",
            "runs/20261128T132912-abca": "runs/latest",
        },
        before=f"impilab run --program mine.py {LOCAL}",
    ),
    "impilab run --failed": Here(
        "--backend local",
        before=f"impilab run --program fails.py {LOCAL}; test $? = 1",
        codes=(1,),
    ),
    # A run that has all its cells has nothing left to resume.
    "impilab run --resume": Here(before=f"impilab {A_CELL}", codes=(5,)),
    "impilab run --tier pairs --shard 1/3": Here(
        RING, {"1/3": "1/1", "--tier": "", "pairs": ""}
    ),
    "impilab merge shards": Here(
        before=f"impilab run {RING} --shard 1/1 --runs shards/one"
    ),
    "impilab run --tier smoke --backend local --replace": Here(
        "p2p.ring/mpich+mpich/*",
        {"mpich=$HOME/build/mpich": "mpich=$MPIS/mpich", "--tier": "", "smoke": ""},
        needs=BOTH[:1],
    ),
    "impilab diff": Here(
        instead={"20261128T084918-ba86": "latest"}, before=f"impilab {A_CELL}"
    ),
    "impilab up 2x2+1x4 --parties mpich+openmpi": Here(needs=("docker",)),
    "impilab run p2p.ring/lam+mpich": NotHere("LAM's image takes 20 minutes to build"),
    "impilab run --tier natives": NotHere("LAM's image takes 20 minutes to build"),
    "impilab run p2p.ring/pure+remote": Elsewhere("tests/lab/run/test_remote_party.py"),
    "impilab run --tier pairs": NotHere("hours of cells; make weekly runs them"),
    "impilab run --backend docker soak.messages": NotHere("a million messages"),
    "impilab run --backend docker soak.windows": NotHere("minutes of operations"),
    "impilab run --with acme": VENDOR,
    "impilab vendor-ci": Elsewhere("tests/cli/lab/test_vendor.py"),
    "impilab check": VENDOR,
    "impilab new vendor": VENDOR,
    "impilab plan": Elsewhere("tests/docs/test_pages.py"),
    "impilab ls": Here(),
    "impilab serve": Elsewhere("tests/cli/lab/past_runs/test_report.py"),
    "impilab bundle": BUNDLES,
    "impilab unbundle": BUNDLES,
    "impilab repro p2p.ring/mpich+openmpi/1x2+1x2 --run runs/bundle": BUNDLES,
    "impilab bisect": BUNDLES,
    "impilab abi": Elsewhere("tests/cli/lab/test_abi.py"),
    "impilab doctor --backend ssh": SSH,
    "impilab run --backend ssh": Elsewhere("tests/lab/backends/ssh/test_backend.py"),
    "impilab doctor --backend kubernetes": KUBERNETES,
    "impilab run --backend kubernetes": KUBERNETES,
    "impilab doctor --backend swarm": SWARM,
    "impilab run --backend swarm": SWARM,
    # -- tools
    "impi decode": Elsewhere("tests/cli/test_decode.py"),
    "impi conform --client impirun": Here("3.7.2/send-long"),
    "impi conform --client ...": CONFORM_ONE,
    "impi conform --server": Here("2.2.1/server-of-one"),
    "impi conform --interpreter ./interpreter --client": Here(
        "3.7.2/send-long", {"...": CLIENT, "--interpreter": "", "./interpreter": ""}
    ),
    "impi conform 2.3/interpreter": Here(instead={"...": CLIENT}),
    "impi conform --web": Elsewhere("tests/lab/conform/report/test_web_page.py"),
    "impi conform --replay": Here(codes=(1,)),  # recorded from an old implementation
    "impi conform --interpreter ./interpreter --name LAM": NotHere("needs LAM/MPI"),
    "impi bench latency --vendors pure": Here("--quick", codes=BOUNDS),
    "impi bench rma": Here("--quick", codes=BOUNDS),
    "impi bench blocked bandwidth bidirectional": Here(QUICK, codes=BOUNDS),
    "impi bench local local-only": Here(
        "--quick", {"mpich,openmpi": "mpich"}, codes=BOUNDS, needs=BOTH[:1]
    ),
    "impi bench local-only": Here(
        "--quick", {"mpich,openmpi": "mpich"}, codes=BOUNDS, needs=BOTH[:1]
    ),
    "impi bench startup memory": Here(QUICK, {"3": "1"}, codes=BOUNDS),
    "impi bench startup": Here("--quick", codes=BOUNDS, needs=BOTH[:1]),
    "impi bench latency rate": Here(QUICK, codes=BOUNDS),
    "impi bench --json RUN.json": Here(f"{QUICK} latency", codes=BOUNDS),
    "impi bench page": Elsewhere("tests/tools/bench/test_pages.py"),
    "impi bench compare": Elsewhere("tests/tools/bench/test_compare.py"),
    "impi bench osu": Elsewhere("tests/tools/bench/measures/test_osu.py", "osu"),
}


def fate(text: str) -> Fate | None:
    """Return what becomes of a command; None: nobody has said it."""
    keys = [key for key in FATES if f"{text} ".startswith((f"{key} ", key))]
    return FATES[max(keys, key=len)] if keys else None
