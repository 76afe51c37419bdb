"""Every module of impi has a test that imports it by name, or the one named in this table."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache

import pytest
from sources import ROOT, modules, name_of

HELD = {
    "impi.agent.__main__": ("agent/test_agent_process.py", "impi.agent"),
    "impi.agent.cutter": ("agent/test_router.py", ""),
    "impi.cabi.*": ("cabi/test_compiled.py", "impi.cabi"),
    "impi.testbed.run.compiled_twins": ("testbed/run/test_run_compiled.py", "abi="),
    "impi.api.collective.algorithms": ("jobs/test_tables_in_jobs.py", "tuned.py"),
    "impi.api.collective.blocking": ("api/collective/test_client_local.py", ""),
    "impi.api.collective.derived": ("api/test_signatures.py", ""),
    "impi.api.collective.native_specs": ("api/collective/test_client_local.py", ""),
    "impi.api.collective.neighborhood": ("jobs/test_communicators_across_vendors.py", "communicators.py"),
    "impi.api.collective.on_*": ("jobs/test_semantics_across_vendors.py", "semantics.py"),
    "impi.api.collective.reduction_plan": ("api/collective/test_client_local.py", ""),
    "impi.api.comms.commctx": ("api/test_signatures.py", "impi.MPI"),
    "impi.api.comms.session": ("api/comms/test_groups.py", ""),
    "impi.api.comms.*": ("jobs/test_communicators_across_vendors.py", "communicators.py"),
    "impi.api.environment": ("jobs/test_start_in_jobs.py", "MPI"),
    "impi.api.files.*": ("jobs/test_files_in_jobs.py", "files.py"),
    "impi.api.handles.*": ("api/test_signatures.py", "impi.MPI"),
    "impi.api.p2p.bsend": ("api/comms/test_groups.py", ""),
    "impi.api.p2p.generalized": ("api/p2p/test_grequest.py", ""),
    "impi.api.p2p.*": ("jobs/test_point_to_point_in_jobs.py", "p2p.py"),
    "impi.api.types.constructors": ("api/types/test_constructors.py", ""),
    "impi.api.types.marshalling": ("api/p2p/test_routes.py", ""),
    "impi.api.types.typestate": ("api/types/test_datatypes.py", ""),
    "impi.api.types.specs": ("architecture/test_any.py", "signatures"),
    "impi.api.windows.*": ("api/windows/test_window.py", ""),
    "impi.bench.programs.*": ("bench/test_bench_verb.py", "bench"),
    "impi.bench.ratio_plot": ("bench/test_bench_verb.py", ""),
    "impi.bench.terminal_table": ("bench/test_bench_verb.py", ""),
    "impi.bench.*": ("bench/test_experiment.py", ""),
    "impi.cli.bench.*": ("bench/test_bench_verb.py", ""),
    "impi.cli.compiling": ("cabi/test_fortran.py", "impifort"),
    "impi.cli.lab.keep": ("cli/lab/test_lab_interrupts.py", ""),
    "impi.cli.lab.enter": ("cli/lab/test_lab_repro.py", "impi.cli.lab.repro.enter"),
    "impi.cli.lab.*": ("cli/lab/test_impilab.py", ""),
    "impi.cli.simulate": ("simulate/test_simulate_command.py", ""),
    "impi.collectives.layout": ("collectives/test_layout.py", ""),
    "impi.collectives.packing": ("collectives/test_packing.py", ""),
    "impi.collectives.reproducible": ("collectives/test_reproducible.py", ""),
    "impi.collectives.*": ("collectives/test_tuned_movement.py", ""),
    "impi.dissect.capture": ("dissect/test_vectors.py", ""),
    "impi.cli.conform": ("conform/test_conform_command.py", "conform"),
    "impi.conform.*": ("conform/test_conform_command.py", "conform"),
    "impi.dissect.pending": ("dissect/test_ledger.py", ""),
    "impi.dissect.problem": ("dissect/test_ledger.py", ""),
    "impi.engine.library_call": ("api/p2p/test_routes.py", ""),
    "impi.engine.turns": ("engine/test_several_threads.py", ""),
    "impi.engine.served": ("jobs/test_windows_in_jobs.py", "windows_random.py"),
    "impi.engine.windows.*": ("jobs/test_windows_in_jobs.py", "windows_random.py"),
    "impi.semantics.places": ("api/windows/test_window.py", ""),
    "impi.engine.interrupted": ("jobs/test_survival_in_jobs.py", "survive_calls.py"),
    "impi.engine.recovery": ("jobs/test_survival_in_jobs.py", "survive_steps.py"),
    "impi.engine.surviving": ("jobs/test_survival_in_jobs.py", "survive_calls.py"),
    "impi.launch.survival": ("jobs/test_survival_in_jobs.py", "survive_steps.py"),
    "impi.engine.visited": ("jobs/test_processes_that_come_later.py", "meeting.py"),
    "impi.engine.visitors": ("jobs/test_processes_that_come_later.py", "meeting.py"),
    "impi.engine.local": ("engine/test_engine.py", ""),
    "impi.engine.partitioned": ("api/p2p/test_request.py", ""),
    "impi.launch.hook.sitecustomize": ("launch/test_hook.py", "sitecustomize"),
    "impi.launch.interrupts": ("launch/test_server.py", ""),
    "impi.launch.planning": ("launch/test_client.py", "-client"),
    "impi.launch.standin": ("launch/test_hook.py", "standin"),
    "impi.plotting": ("bench/test_bench_verb.py", ""),
    "impi.remote.*": ("remote/test_supervised.py", ""),
    "impi.semantics.external32": ("semantics/test_external32.py", ""),
    "impi.simulate.local_phases": ("simulate/test_simulated_collectives.py", ""),
    "impi.simulate.counted": ("simulate/test_simulated_collectives.py", ""),
    "impi.simulate.transfer_machines": ("simulate/test_simulated_collectives.py", ""),
    "impi.simulate.*": ("simulate/test_simulate_command.py", "simulate"),
    "impi.testbed.backends.reaper_process": ("testbed/backends/lifecycle/test_reaper.py", "reaper"),
    "impi.testbed.backends.docker.*": ("testbed/backends/docker/test_docker_backend.py", ""),
    "impi.testbed.backends.ssh.ssh_lab": ("testbed/backends/ssh/test_ssh_lab.py", ""),
    "impi.testbed.backends.kubernetes.*": ("kubernetes/test_kubernetes_backend.py", ""),
    "impi.testbed.backends.placed.*": ("kubernetes/test_kubernetes_backend.py", ""),
    "impi.testbed.backends.swarm.*": ("swarm/test_swarm_labs.py", ""),
    "impi.testbed.backends.loopback.*": ("testbed/backends/loopback/test_loopback_backend.py", ""),
    "impi.testbed.cases.*": ("testbed/judge/test_verdict.py", ""),
    "impi.testbed.evidence.stack_frames": ("testbed/judge/test_hang.py", ""),
    "impi.testbed.evidence.traffic": ("testbed/judge/test_verdict.py", ""),
    "impi.testbed.judge.items_*": ("testbed/judge/test_verdict.py", ""),
    "impi.testbed.judge.waits": ("testbed/judge/test_hang.py", ""),
    "impi.testbed.programs.*": ("cli/lab/test_impilab_real.py", "local"),
    "impi.testbed.pytest_plugin": ("testbed/test_pytest_plugin.py", "impi.testbed.pytest_plugin"),
    "impi.testbed.report.hang_report": ("testbed/report/test_cell_timeline.py", ""),
    "impi.testbed.run.byhand": ("testbed/run/test_byhand.py", "by_hand"),
    "impi.transfer.*": ("transfer/test_transfer.py", ""),
    "impi.tune.measure": ("tune/test_tune_command.py", "measure"),
    "impi.vendors._mesh": ("vendors/test_pure.py", ""),
    "impi.vendors.*": ("vendors/test_contract.py", "contract.py"),
    "impi.wire.commands": ("wire/test_commands.py", ""),
}
"""Tests of modules, by name or pattern; the first that fits counts. If the test does not import a
module that imports it, the text names what it runs: a program, a command, a verb."""


def imported(tree: ast.Module) -> set[str]:
    """All that a module may import, lazily or for types too; ``from a import b`` is a and a.b."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def named_in(text: str) -> set[str]:
    """Names that :func:`imported` finds, but of impi alone, and several times as fast."""
    found: set[str] = set(re.findall(r"^ *import (impi[\w.]*)", text, flags=re.M))
    for module, names in re.findall(r"^ *from (impi[\w.]*) import (\([^)]*\)|.*)", text, flags=re.M):
        found.add(module)
        found.update(f"{module}.{name}" for name in re.findall(r"\w+", names))
    return found


@cache
def imports_of(test: str) -> set[str]:
    return imported(ast.parse((ROOT / "tests" / test).read_text()))


@cache
def graph() -> dict[str, set[str]]:
    return {name_of(path): imported(tree) for path, tree in modules().items()}


def reaches(test: str, module: str) -> bool:
    """Whether a test imports what imports a module: itself, by one step, or by two."""
    first = imports_of(test) & graph().keys()
    second = set().union(*(graph()[name] for name in first)) & graph().keys()
    return module in first | second or any(module in graph()[name] for name in second)


@cache
def unnamed() -> list[str]:
    """Modules that no test imports by name."""
    tests = [file for file in (ROOT / "tests").rglob("*.py") if "architecture" not in file.parts]
    named = set().union(*(named_in(file.read_text()) for file in tests))
    whole = [path for path in modules() if not path.endswith("__init__.py")]
    return [name_of(path) for path in whole if name_of(path) not in named]


def row_of(module: str) -> str | None:
    return next((pattern for pattern in HELD if fnmatch(module, pattern)), None)


def test_every_module_has_a_test_or_a_row() -> None:
    assert [module for module in unnamed() if row_of(module) is None] == []


@pytest.mark.parametrize("pattern", HELD)
def test_rows_are_real(pattern: str) -> None:
    held = [module for module in unnamed() if row_of(module) == pattern]
    assert held, "a test imports it by name, or there is no such module: the row can go"
    test, told = HELD[pattern]
    if told:
        assert told in (ROOT / "tests" / test).read_text()
    else:
        assert [module for module in held if not reaches(test, module)] == []


def test_an_import_is_seen_wherever_it_is() -> None:
    tree = ast.parse("def f():\n    from a.b import c\n\nif True:\n    import d.e as g\n")
    assert imported(tree) == {"a.b", "a.b.c", "d.e"}
    text = "def f():\n    from impi.a import (\n        b,\n        c,\n    )\nimport impi.d as e\nimport other\n"
    assert named_in(text) == {"impi.a", "impi.a.b", "impi.a.c", "impi.d"}
