"""Tests of modules are at mirrored paths, and each module has one that imports it, or a row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from sources import ROOT, modules, name_of

ALIKE = ("impi.lab.programs", "impi.tools.bench.programs")
"""Programs that jobs run: their tests are the cells and the benchmarks that start them."""
MIRRORED = 0.85
"""Least share of modules whose test is at the mirrored path."""
HELD = {
    "impi.rank.api.collective.algorithms": (
        "tests/rank/api/collective/test_algorithms.py",
        "tuned.py",
    ),
    "impi.rank.api.collective.blocking": (
        "tests/rank/api/collective/test_client_local.py",
        "",
    ),
    "impi.rank.api.collective.nonblocking": ("tests/rank/api/test_signatures.py", ""),
    "impi.rank.api.collective.on_objects": (
        "tests/rank/api/collective/test_on_buffers.py",
        "semantics.py",
    ),
    "impi.rank.api.collective.persistent": ("tests/rank/api/test_signatures.py", ""),
    "impi.rank.api.collective.reduction_plan": (
        "tests/rank/api/collective/test_client_local.py",
        "",
    ),
    "impi.rank.api.comms.comm": ("tests/rank/api/comms/test_comm.py", "MPI.Comm"),
    "impi.rank.api.comms.communicator": (
        "tests/rank/api/comms/test_communicator.py",
        "communicators.py",
    ),
    "impi.rank.api.comms.dynamic": (
        "tests/rank/api/comms/test_dynamic.py",
        "meeting.py",
    ),
    "impi.rank.api.comms.lcos.endpoints": (
        "tests/rank/api/comms/lcos/test_endpoints.py",
        "endpoints.py",
    ),
    "impi.rank.api.comms.intercomm": (
        "tests/rank/api/comms/test_intercomm.py",
        "MPI.Intercomm",
    ),
    "impi.rank.api.comms.lcos.lco": (
        "tests/rank/api/comms/lcos/test_lco.py",
        "lcos.py",
    ),
    "impi.rank.api.comms.mitigation": (
        "tests/rank/api/comms/test_mitigation.py",
        "Shrink",
    ),
    "impi.rank.api.comms.session": (
        "tests/rank/api/comms/test_session.py",
        "sessions.py",
    ),
    "impi.rank.api.comms.topocomm": (
        "tests/rank/api/comms/test_topocomm.py",
        "MPI.Cartcomm",
    ),
    "impi.rank.api.comms.world": ("tests/rank/api/comms/test_world.py", "COMM_WORLD"),
    "impi.rank.api.environment": ("tests/rank/api/test_environment.py", "Compute_dims"),
    "impi.rank.api.files.access": (
        "tests/rank/api/files/test_access.py",
        "Read_at_all",
    ),
    "impi.rank.api.files.file": ("tests/rank/api/files/test_file.py", "files.py"),
    "impi.rank.api.files.filestate": (
        "tests/rank/api/files/test_filestate.py",
        "Set_view",
    ),
    "impi.rank.api.files.opening": (
        "tests/rank/api/files/test_opening.py",
        "MPI.File.Open",
    ),
    "impi.rank.api.p2p.bsend": ("tests/rank/api/comms/test_groups.py", ""),
    "impi.rank.api.p2p.completion": (
        "tests/rank/api/p2p/test_point_to_point.py",
        "p2p.py",
    ),
    "impi.rank.api.p2p.generalized": ("tests/rank/api/p2p/test_grequest.py", ""),
    "impi.rank.api.p2p.matched_message": (
        "tests/rank/api/p2p/test_point_to_point.py",
        "p2p.py",
    ),
    "impi.rank.api.p2p.point_to_point": (
        "tests/rank/api/p2p/test_point_to_point.py",
        "p2p.py",
    ),
    "impi.rank.api.p2p.psend": ("tests/rank/api/p2p/test_point_to_point.py", "p2p.py"),
    "impi.rank.api.types.constructors": (
        "tests/rank/api/types/test_constructors.py",
        "",
    ),
    "impi.rank.api.windows.helper": (
        "tests/rank/api/windows/test_helper.py",
        "impi windows",
    ),
    "impi.rank.api.windows.synchronization": (
        "tests/rank/api/windows/test_synchronization.py",
        "",
    ),
    "impi.rank.api.windows.spread": (
        "tests/rank/api/windows/test_spread.py",
        "MPI.Win.Allocate",
    ),
    "impi.rank.api.windows.winstate": ("tests/rank/api/windows/test_winstate.py", ""),
    "impi.tools.bench.measures.rma": ("tests/tools/bench/measures/test_rma.py", ""),
    "impi.cabi.calls.connection": (
        "tests/cabi/calls/test_connection.py",
        "impi.cabi.calls.connection",
    ),
    "impi.cabi.calls.file_calls": ("tests/cabi/calls/test_file_calls.py", "files"),
    "impi.cabi.calls.front_side": ("tests/cabi/calls/test_front_side.py", "fatal-self"),
    "impi.cabi.objects.front_tables": (
        "tests/cabi/objects/test_front_tables.py",
        "front mode",
    ),
    "impi.cabi.calls.program_life": ("tests/cabi/calls/test_program_life.py", "ends"),
    "impi.cli.conform": ("tests/cli/test_conform.py", "conform"),
    "impi.cli.lab.net": ("tests/cli/lab/test_net.py", ""),
    "impi.cli.lab.plan": ("tests/cli/lab/test_plan.py", ""),
    "impi.cli.lab.play": ("tests/cli/lab/test_play.py", ""),
    "impi.cli.lab.past_runs.repro": ("tests/cli/lab/past_runs/test_repro.py", ""),
    "impi.cli.simulate": ("tests/cli/test_simulate.py", ""),
    "impi.lab.conform.job.interpreter": ("tests/cli/test_conform.py", "conform"),
    "impi.lab.conform.script.script_check": ("tests/cli/test_conform.py", "conform"),
    "impi.rank.engine.channels.host_socket": (
        "tests/rank/engine/channels/test_channels.py",
        "",
    ),
    "impi.rank.engine.channels.host_ways": ("tests/rank/engine/test_engine.py", ""),
    "impi.rank.engine.library_call": ("tests/rank/api/p2p/test_routes.py", ""),
    "impi.rank.engine.losses": (
        "tests/rank/engine/job/test_surviving.py",
        "survive_calls.py",
    ),
    "impi.rank.engine.other_jobs": (
        "tests/rank/api/comms/test_dynamic.py",
        "meeting.py",
    ),
    "impi.rank.engine.windows.target": (
        "tests/rank/engine/windows/test_target.py",
        "windows_random.py",
    ),
    "impi.launch.client.session": ("tests/launch/client/test_session.py", "-client"),
    "impi.launch.hook.sitecustomize": (
        "tests/launch/hook/test_sitecustomize.py",
        "sitecustomize",
    ),
    "impi.protocol.semantics.values.external32": (
        "tests/protocol/semantics/values/test_external32.py",
        "",
    ),
    "impi.tools.simulate.plots": ("tests/tools/simulate/test_plots.py", ""),
    "impi.protocol.startup.client_labels": (
        "tests/protocol/startup/test_client.py",
        "",
    ),
    "impi.lab.backends.docker.inventory": (
        "tests/lab/backends/docker/test_inventory.py",
        "",
    ),
    "impi.lab.backends.docker.doctor": ("tests/lab/backends/docker/test_doctor.py", ""),
    "impi.lab.backends.docker.sidecar_capture": (
        "tests/lab/backends/docker/test_sidecar_capture.py",
        "",
    ),
    "impi.lab.backends.docker.stack_spy": (
        "tests/lab/backends/docker/test_stack_spy.py",
        "",
    ),
    "impi.lab.backends.loopback.inventory": (
        "tests/lab/backends/loopback/test_inventory.py",
        "",
    ),
    "impi.lab.backends.reaper_process": (
        "tests/lab/backends/test_reaper_process.py",
        "reaper",
    ),
    "impi.lab.backends.ssh.lab": ("tests/lab/backends/ssh/test_lab.py", ""),
    "impi.lab.pytest_plugin": (
        "tests/lab/test_pytest_plugin.py",
        "impi.lab.pytest_plugin",
    ),
    "impi.lab.run.byhand": ("tests/lab/run/test_byhand.py", "by_hand"),
    "impi.lab.run.compiled_twins": ("tests/lab/run/test_compiled_twins.py", "abi="),
    "impi.protocol.transfer.path": ("tests/protocol/transfer/test_machine.py", ""),
    "impi.tools.tune.measure": ("tests/tools/tune/test_measure.py", "measure._pairs"),
}
"""Tests of modules that no test imports by name. If the test does not import a module that imports
it, the text names what it runs: a program, a command, a verb."""


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
    for module, names in re.findall(
        r"^ *from (impi[\w.]*) import (\([^)]*\)|.*)", text, flags=re.M
    ):
        found.add(module)
        found.update(f"{module}.{name}" for name in re.findall(r"\w+", names))
    return found


@cache
def imports_of(test: str) -> set[str]:
    return imported(ast.parse((ROOT / test).read_text()))


@cache
def graph() -> dict[str, set[str]]:
    return {name_of(path): imported(tree) for path, tree in modules().items()}


def reaches(test: str, module: str) -> bool:
    """Whether a test imports what imports a module: itself, by one step, or by two."""
    first = imports_of(test) & graph().keys()
    second = set().union(*(graph()[name] for name in first)) & graph().keys()
    return module in first | second or any(module in graph()[name] for name in second)


@cache
def whole() -> list[str]:
    """Paths of modules that have a test of their own."""
    own = [
        path
        for path in modules()
        if Path(path).name not in ("__init__.py", "__main__.py")
    ]
    return [path for path in own if not name_of(path).startswith(ALIKE)]


def mirror(path: str) -> str:
    """The path of a module's test: ``impi/a/b.py`` has ``tests/a/test_b.py``."""
    return str(
        Path("tests", *Path(path).parts[1:]).with_name(f"test_{Path(path).name}")
    )


@cache
def handed_on() -> dict[str, str]:
    """Names that packages have from modules below them: ``impi.protocol.wire.Command``, and the
    module."""
    found = {}
    for path, tree in modules().items():
        if path.endswith("__init__.py"):
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    found.update(
                        {
                            f"{name_of(path)}.{alias.name}": node.module
                            for alias in node.names
                        }
                    )
    return found


@cache
def unnamed() -> list[str]:
    """Modules that no test imports by name, itself or through its package."""
    tests = [
        file
        for file in (ROOT / "tests").rglob("*.py")
        if "architecture" not in file.parts
    ]
    named = set().union(*(named_in(file.read_text()) for file in tests))
    named |= {handed_on()[name] for name in named & handed_on().keys()}
    return [name_of(path) for path in whole() if name_of(path) not in named]


def test_the_test_of_a_module_is_found_by_its_path() -> None:
    there = [path for path in whole() if (ROOT / mirror(path)).exists()]
    assert len(there) >= MIRRORED * len(whole()), f"{len(there)} of {len(whole())}"


def test_every_module_has_a_test_or_a_row() -> None:
    bare = [module for module in unnamed() if module not in HELD]
    assert not bare, (
        f"{bare[0]}: write {mirror(bare[0].replace('.', '/') + '.py')}, or a row in HELD"
    )


@pytest.mark.parametrize("module", HELD)
def test_rows_are_real(module: str) -> None:
    assert module in unnamed(), (
        "a test imports it by name, or there is no such module: the row can go"
    )
    test, told = HELD[module]
    if told:
        assert told in (ROOT / test).read_text()
    else:
        assert reaches(test, module)


def test_the_mirrored_path() -> None:
    assert mirror("impi/a/b.py") == "tests/a/test_b.py"
    assert mirror("impi/b.py") == "tests/test_b.py"


def test_an_import_is_seen_wherever_it_is() -> None:
    tree = ast.parse(
        "def f():\n    from a.b import c\n\nif True:\n    import d.e as g\n"
    )
    assert imported(tree) == {"a.b", "a.b.c", "d.e"}
    text = "def f():\n    from impi.a import (\n        b,\n        c,\n    )\nimport impi.d as e\nimport other\n"
    assert named_in(text) == {"impi.a", "impi.a.b", "impi.a.c", "impi.d"}
