"""A runner of GitHub Actions on this machine: it does the steps of a workflow in order.

Steps with ``run:`` are run by their shell. Actions of GitHub are played: caches and artifacts are
folders, a checkout takes nothing. An action of our own (``./.impi``) is run step by step.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).parents[2]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
NAME = re.compile(r"[a-z]+(?:\.[\w-]+)+|'[^']*'")
STUB = """#!/bin/sh
# The packages of this environment, in place of those that a package index would send.
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
    for name in impilab impi impirun; do
        printf '#!/bin/sh\\nexec "%s" -m impi.cli.%s "$@"\\n' "{python}" "$name" > "$3/bin/$name"
        chmod 755 "$3/bin/$name"
    done
    exit
fi
if [ "$1 $2" = "-m pip" ]; then
    echo "$*" >> "$RUNNER_TEMP/pip"
    exit
fi
exec "{python}" "$@"
"""


class StepError(AssertionError):
    """A job that did not end as its steps should; the text is all that they said."""


@dataclass
class Ended:
    """A job at its end: outputs, and what a person sees of it."""

    outputs: dict[str, str]
    failed: bool = False
    said: str = ""
    summary: str = ""
    done: list[str] = field(default_factory=list)


class GitHubRunner:
    """Machines that share caches and artifacts; each job begins in an empty folder."""

    def __init__(self, home: Path, *, offline: bool = True) -> None:
        self.home = home
        self.artifacts = home / "artifacts"
        self.caches: list[Path] = []  # in the order in which they were saved
        self.offline = offline
        self.runs = 0

    def workflow(
        self, path: Path, inputs: Mapping[str, object]
    ) -> dict[str, list[Ended]]:
        """Call a workflow: jobs in order, each once for every row of its matrix."""
        told: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
        # YAML 1.1 takes the key "on" for True.
        declared = told[True]["workflow_call"]["inputs"]
        given = {name: row["default"] for name, row in declared.items()} | dict(inputs)
        assert given.keys() == declared.keys()
        self.runs += 1
        shutil.rmtree(self.artifacts, ignore_errors=True)

        ended: dict[str, list[Ended]] = {}
        for name, job in told["jobs"].items():
            needs = (
                {
                    each: {
                        "outputs": ended[each][0].outputs,
                        "result": "failure"
                        if any(one.failed for one in ended[each])
                        else "success",
                    }
                    for each in [job["needs"]]
                    if each
                }
                if "needs" in job
                else {}
            )
            context = {"inputs": given, "needs": needs}
            matrix = job.get("strategy", {}).get("matrix", {})
            ended[name] = [
                self._job(
                    f"{self.runs}-{name}-{number}", job, context | {"matrix": row}
                )
                for number, row in enumerate(_rows_of(matrix, context))
            ]
        return ended

    def action(self, name: str, inputs: Mapping[str, object]) -> Ended:
        """Run action.yml alone, as the only step of a job."""
        self.runs += 1
        step = {"uses": "./.impi", "with": dict(inputs), "id": "own"}
        outputs = {
            name: f"${{{{ steps.own.outputs.{name} }}}}" for name in ("folder", "code")
        }
        return self._job(
            f"{self.runs}-{name}", {"steps": [step], "outputs": outputs}, {}
        )

    def folder(self, name: str) -> Path:
        """Return the folder in which the job of this name worked."""
        return self.home / "jobs" / name / "work"

    def _job(
        self, name: str, job: Mapping[str, Any], context: Mapping[str, Any]
    ) -> Ended:
        run = _Job(self, self.folder(name), context)
        run.steps(job["steps"], context, run.ended)
        run.ended.outputs = {
            name: run.value_of(text, context)
            for name, text in job.get("outputs", {}).items()
        }
        return run.ended


class _Job:
    """A job on a machine of its own."""

    def __init__(
        self, runner: GitHubRunner, work: Path, context: Mapping[str, Any]
    ) -> None:
        self._runner = runner
        self._work = work
        self._temp = work.parent / "temp"
        self.ended = Ended({})
        self._results: dict[str, Any] = {}
        work.mkdir(parents=True)
        self._temp.mkdir()
        tools = work.parent / "tools"
        tools.mkdir()
        if runner.offline:
            python = tools / "python"
            python.write_text(STUB.replace("{python}", sys.executable), "utf-8")
            python.chmod(0o755)
        else:
            (tools / "python").symlink_to(sys.executable)
        for file in ("output", "summary", "path"):
            (self._temp / file).touch()
        self._environ = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "HOME": str(self._temp),
            "LANG": "C.UTF-8",
            "PATH": f"{tools}:{os.defpath}",
            "RUNNER_TEMP": str(self._temp),
            "GITHUB_OUTPUT": str(self._temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self._temp / "summary"),
            "GITHUB_PATH": str(self._temp / "path"),
            "GITHUB_WORKSPACE": str(work),
        }

    def steps(
        self, listed: list[dict[str, Any]], context: Mapping[str, Any], into: Ended
    ) -> None:
        """Do the steps; after one that failed, only those that ask for always()."""
        self._results = context.setdefault("steps", {})  # type: ignore[attr-defined]
        for step in listed:
            condition = str(step.get("if", "success()"))
            if into.failed and "always()" not in condition:
                continue
            if not self._evaluate(condition, context):
                continue
            name = step.get("name") or step.get("uses") or "run"
            into.done.append(str(name))
            given = {
                key: self.value_of(value, context)
                for key, value in (step.get("env") or step.get("with") or {}).items()
            }
            if "run" in step:
                outputs, good = self._shell(step, given, into)
            else:
                outputs, good = self._use(step["uses"], given, into)
            if "id" in step:
                context["steps"][step["id"]] = {"outputs": outputs}
            into.failed |= not good

    def value_of(self, text: object, context: Mapping[str, Any]) -> str:
        """Return the text with the values of its expressions."""
        return EXPRESSION.sub(
            lambda found: _text_of(self._evaluate(found[1], context)), _text_of(text)
        )

    def _shell(
        self, step: Mapping[str, Any], given: Mapping[str, str], into: Ended
    ) -> tuple[dict[str, str], bool]:
        output = self._temp / "output"
        output.write_text("", "utf-8")
        added = (self._temp / "path").read_text("utf-8").split()
        path = ":".join([*reversed(added), self._environ["PATH"]])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self._work,
            env={**self._environ, "PATH": path, **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        into.said += done.stdout
        into.summary = (self._temp / "summary").read_text("utf-8")
        lines = output.read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines), done.returncode == 0

    def _use(
        self, name: str, given: dict[str, str], into: Ended
    ) -> tuple[dict[str, str], bool]:
        if name == "./.impi":
            return self._own_action(given, into)
        play: Callable[[dict[str, str]], None] = {
            "actions/checkout": self._checkout,
            "actions/setup-python": lambda _given: None,
            "actions/cache/restore": self._restore,
            "actions/cache/save": self._save,
            "actions/upload-artifact": self._upload,
            "actions/upload-pages-artifact": lambda given: self._upload(
                {"name": "github-pages", **given}
            ),
            "actions/download-artifact": self._download,
        }[name.partition("@")[0]]
        play(given)
        return {}, True

    def _own_action(
        self, given: dict[str, str], into: Ended
    ) -> tuple[dict[str, str], bool]:
        """Run our action.yml: its steps do not see those of the job that uses it."""
        action = yaml.safe_load((TOP / "action.yml").read_text("utf-8"))
        inputs = {name: row["default"] for name, row in action["inputs"].items()}
        assert given.keys() <= inputs.keys()
        context: dict[str, Any] = {"inputs": inputs | given}
        self._environ["GITHUB_ACTION_PATH"] = str(TOP)
        inner = Ended({})
        self.steps(action["runs"]["steps"], context, inner)
        into.said += inner.said
        into.summary = inner.summary
        into.done += [f"  {name}" for name in inner.done]
        outputs = {
            name: self.value_of(row["value"], context)
            for name, row in action["outputs"].items()
        }
        return outputs, not inner.failed

    def _checkout(self, given: dict[str, str]) -> None:
        if "path" in given:
            assert given["repository"], "the action is that of the called workflow"
            (self._work / given["path"]).symlink_to(TOP)

    def _restore(self, given: dict[str, str]) -> None:
        """Take the newest cache whose key begins so."""
        stem = given["restore-keys"].replace("/", "%")
        there = [path for path in self._runner.caches if path.name.startswith(stem)]
        if there:
            shutil.copytree(there[-1], self._work / given["path"], dirs_exist_ok=True)

    def _save(self, given: dict[str, str]) -> None:
        cache = self._runner.home / "caches" / given["key"].replace("/", "%")
        shutil.copytree(self._work / given["path"], cache)
        self._runner.caches.append(cache)

    def _upload(self, given: dict[str, str]) -> None:
        to = self._runner.artifacts / given["name"]
        shutil.copytree(self._work / given["path"], to, dirs_exist_ok=True)

    def _download(self, given: dict[str, str]) -> None:
        there = list(self._runner.artifacts.glob(given["pattern"]))
        assert there, f"no artifact is {given['pattern']}"
        for folder in there:
            shutil.copytree(folder, self._work / given["path"] / folder.name)

    def _evaluate(self, text: str, context: Mapping[str, Any]) -> Any:
        """Return the value of an expression: our files use names, texts and few signs."""
        always: dict[str, Any] = {
            "github": {
                "run_id": self._runner.runs,
                "run_attempt": 1,
                "ref_name": "main",
                "event": {"repository": {"default_branch": "main"}},
            },
            "job": {"workflow_repository": "owner/impi", "workflow_sha": "0" * 40},
        }
        known = {**always, **context}

        def value(found: re.Match[str]) -> str:
            if found[0].startswith("'"):
                return repr(found[0][1:-1])
            here: Any = known
            for part in found[0].split("."):
                # GitHub has an empty text for a name that is not there.
                here = here.get(part, "") if isinstance(here, dict) else ""
            return repr(here)

        python = NAME.sub(value, text).replace("&&", " and ").replace("||", " or ")
        calls = {
            "always": lambda: True,
            "success": lambda: True,
            "fromJSON": json.loads,
        }
        return eval(python, {"__builtins__": {}}, calls)


def _rows_of(
    matrix: Mapping[str, Any], context: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    if not matrix:
        yield {}
    for name, values in matrix.items():
        found = EXPRESSION.fullmatch(values)
        assert found, values
        path = re.fullmatch(r"fromJSON\(needs\.(\w+)\.outputs\.(\w+)\)", found[1])
        assert path, values
        for value in json.loads(context["needs"][path[1]]["outputs"][path[2]]):
            yield {name: value}


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
