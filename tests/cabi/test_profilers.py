"""Profilers and other tools by MPI's profiling interface: preloaded, linked, or the program itself.

What they count over all clients is what they count where one vendor has all ranks.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from cabi_programs import PROGRAMS, ROOT

CLIENTS = (["mpich:2", "openmpi:2"], ["mpich:2", "pure:2"], ["pure:2", "openmpi:2"])
COUNTS = "{}: 4 ranks, 4 inits, 22 sends, 22 recvs, 24 allreduces"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vendor("mpich"),
    pytest.mark.vendor("openmpi"),
]


@pytest.fixture
def tool(tmp_path):
    """``tool(abi, *flags) -> path``: a profiler to be preloaded."""

    def make(abi: str, title: str, *flags: str) -> str:
        out, prefix = tmp_path / f"lib{title}-{abi}.so", ROOT / ".mpi" / abi
        argv = [
            "cc",
            "-shared",
            "-fPIC",
            f'-DTITLE="{title}"',
            *flags,
            f"-I{prefix}/include",
            "-o",
            str(out),
        ]
        argv += [
            str(PROGRAMS / "tool.c"),
            f"-L{prefix}/lib",
            f"-Wl,-rpath,{prefix}/lib",
            "-lmpi",
            "-ldl",
        ]
        subprocess.run(argv, check=True)
        return str(out)

    return make


def lines(rows: str) -> list[str]:
    return sorted(row for row in rows.splitlines() if row)


def alone(abi: str, argv: list[str], tools: str) -> list[str]:
    """Return what a program prints as a job of its vendor alone."""
    prefix = ROOT / ".mpi" / abi
    more = dict.fromkeys(
        ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1"
    )
    more["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    more["OMPI_MCA_btl"] = "^ofi,tcp"
    if abi == "mpich":
        more["HWLOC_XMLFILE"] = "/dev/null"
    env = {**os.environ, **more, "LD_LIBRARY_PATH": f"{prefix}/lib"}
    preload = ["env", f"LD_PRELOAD={tools}"] if tools else []
    argv = [f"{prefix}/bin/mpiexec", "-n", "4", *preload, *argv]
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, check=True, timeout=120
    )
    return lines(done.stdout)


def right(done, titles, abi, argv, tools=""):
    assert done.codes == [0] * len(done.codes), done
    expected = [
        f"rank {rank} of 4: sums 30, {5 if rank > 1 else 1}" for rank in range(4)
    ]
    found = lines(done.out)
    assert found == sorted([*expected, *map(COUNTS.format, titles)]), done
    assert found == alone(abi, argv, tools)


def options(*more: str) -> dict[int, list[str]]:
    return {0: [*more], 1: [*more]}


@pytest.mark.parametrize("clients", CLIENTS, ids="+".join)
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_a_preloaded_profiler_sees_all_ranks(abi, clients, compiled, run_job, tool):
    program, profiler = compiled("watched", abi), tool(abi, "profiler")
    done = run_job([program], clients, options=options("-x", f"LD_PRELOAD={profiler}"))
    right(done, ["profiler"], abi, [program], profiler)


@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_a_profiler_of_env_and_one_behind_a_script(
    abi, compiled, run_job, tool, tmp_path
):
    own = ROOT / ".mpi" / abi / "lib"
    program, profiler = (
        compiled("watched", abi, f"-Wl,-rpath,{own}"),
        tool(abi, "profiler"),
    )
    right(
        run_job(["env", f"LD_PRELOAD={profiler}", program], CLIENTS[0]),
        ["profiler"],
        abi,
        [program],
        profiler,
    )
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\nexport LD_PRELOAD={profiler}\nexec {program}\n")
    script.chmod(0o755)
    right(run_job([str(script)], CLIENTS[0]), ["profiler"], abi, [program], profiler)


@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_several_tools_in_a_row(abi, compiled, run_job, tool):
    program = compiled("watched", abi)
    tools = f"{tool(abi, 'first', '-DNEXT')} {tool(abi, 'second')}"
    done = run_job([program], CLIENTS[0], options=options("-x", f"LD_PRELOAD={tools}"))
    right(done, ["first", "second"], abi, [program], tools)


@pytest.mark.parametrize("clients", CLIENTS[:2], ids="+".join)
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_two_tools_in_a_row_and_one_linked_in(abi, clients, compiled, run_job, tool):
    source = str(PROGRAMS / "tool.c")
    program = compiled("watched", abi, source, '-DTITLE="linked"', "-DNEXT", "-ldl")
    tools = f"{tool(abi, 'first', '-DNEXT')} {tool(abi, 'second', '-DNEXT')}"
    done = run_job([program], clients, options=options("-x", f"LD_PRELOAD={tools}"))
    # A program's own functions come before those of LD_PRELOAD, as under the vendor alone.
    right(done, ["first", "linked", "second"], abi, [program], tools)


@pytest.mark.parametrize("way", ["PMPI", "NEXT"])
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
def test_functions_of_the_program_itself(abi, way, compiled, run_job):
    """A profiler that is linked in, and a program with an MPI_Init and MPI_Send of its own."""
    program = compiled(
        "watched", abi, str(PROGRAMS / "tool.c"), '-DTITLE="linked"', f"-D{way}", "-ldl"
    )
    done = run_job([program], CLIENTS[0], options=options("--explain"))
    right(done, ["linked"], abi, [program])
    # Front mode would have been possible
    err = done.clients[0 if abi == "mpich" else 1].err
    assert (
        "stand-in mode" in err
        and " calls MPI by PMPI_ names, or has MPI functions of its own" in err
    ), done


def test_a_profiler_in_a_library_of_the_program(run_job, tool, tmp_path):
    profiler, prefix, program = (
        tool("mpich", "library"),
        ROOT / ".mpi" / "mpich",
        str(tmp_path / "program"),
    )
    argv = [
        "cc",
        f"-I{prefix}/include",
        "-o",
        program,
        str(PROGRAMS / "watched.c"),
        profiler,
    ]
    subprocess.run(
        [*argv, f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lmpi"], check=True
    )
    right(run_job([program], CLIENTS[0]), ["library"], "mpich", [program])
