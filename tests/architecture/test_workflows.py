"""Workflows, ours and those to copy: they are well formed, and what they call is there.

actionlint is a program that no package index has, so it runs in CI (.github/workflows/tests.yml).
Here is what it cannot know: our own action, and the command line of impilab.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from impi.cli.impilab import parser_of_all

TOP = Path(__file__).parents[2]
OURS = TOP / ".github/workflows/tests.yml"
CALLED = TOP / ".github/workflows/interop.yml"
RELEASE = TOP / ".github/workflows/release.yml"
GITHUB = TOP / "examples/ci/github.yml"
GITLAB = TOP / "examples/ci/gitlab.yml"
GUIDE = TOP / "docs/guides/your-library.md"
ACTION: dict[str, Any] = yaml.safe_load((TOP / "action.yml").read_text("utf-8"))
WORKFLOWS = (OURS, CALLED, RELEASE, GITHUB)
OUR_ACTION = ("./", "./.impi", "OWNER/")
of_github = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
KEYWORDS = {"stages", "default"}
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
INPUT = re.compile(r"\$\[\[ inputs\.(\w+) \]\]")


def loaded(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return value


def inputs_of_called() -> dict[str, dict[str, Any]]:
    """The inputs of the workflow that others call; YAML 1.1 takes the key "on" for True."""
    found: dict[str, dict[str, Any]] = loaded(CALLED)[True]["workflow_call"]["inputs"]  # type: ignore[index]
    return found


def of_gitlab() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Its inputs, and the pipeline with their defaults in it."""
    head, text = GITLAB.read_text("utf-8").split("\n---\n")
    inputs: dict[str, dict[str, Any]] = yaml.safe_load(head)["spec"]["inputs"]
    return inputs, yaml.safe_load(
        INPUT.sub(lambda found: str(inputs[found[1]]["default"]), text)
    )


def filled(text: str) -> str:
    """Text with defaults in the place of inputs, and numbers in that of other expressions."""
    given = inputs_of_called()

    def value(found: re.Match[str]) -> str:
        kind, _, name = found[1].partition(".")
        return str(given[name]["default"]) if kind == "inputs" else "1"

    return EXPRESSION.sub(value, text)


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = loaded(path)["jobs"]
    return jobs


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs_of(path).values():
        yield from job.get("steps", [])


def calls_of_workflow(path: Path) -> list[dict[str, Any]]:
    return [job for job in jobs_of(path).values() if "uses" in job]


def calls_of_action(path: Path) -> list[dict[str, Any]]:
    return [
        step for step in steps_of(path) if step.get("uses", "").startswith(OUR_ACTION)
    ]


def scripts() -> Iterator[str]:
    """All that shells run."""
    for path in WORKFLOWS:
        yield from (step["run"] for step in steps_of(path) if "run" in step)
    yield from (step["run"] for step in ACTION["runs"]["steps"] if "run" in step)
    for job in of_gitlab()[1].values():
        if isinstance(job, dict):
            yield from (
                line
                for part in ("before_script", "script", "after_script")
                for line in job.get(part, [])
            )


def commands() -> Iterator[list[str]]:
    """The words that follow impilab, wherever it is called."""
    for path in WORKFLOWS:
        for call in (*calls_of_action(path), *calls_of_workflow(path)):
            yield shlex.split(filled(call["with"]["arguments"]))
    for script in scripts():
        for found in re.findall(
            r"(?<![\w.$\"'/-])impilab ((?:[^\n;&|]|\"[^\"]*\")+)", script
        ):
            yield shlex.split(found.replace("$CI_NODE_INDEX/$CI_NODE_TOTAL", "1/3"))


@of_github
def test_jobs_need_jobs_that_there_are(path: Path) -> None:
    jobs = jobs_of(path)
    for job in jobs.values():
        needs = (
            [job["needs"]]
            if isinstance(job.get("needs"), str)
            else job.get("needs", [])
        )
        assert set(needs) <= set(jobs)
        for name in re.findall(r"needs\.(\w+)\.", str(job)):
            assert name in needs


@of_github
def test_a_step_does_one_thing_and_each_action_has_a_version(path: Path) -> None:
    for step in steps_of(path):
        assert ("run" in step) != ("uses" in step), step
        if "uses" in step and step["uses"] != "./":
            assert re.fullmatch(
                r"(actions/[\w/-]+@v\d+|\./\.impi|docker://[\w/]+:[\d.]+)",
                step["uses"],
            ), step


def test_our_action_has_the_inputs_that_are_given() -> None:
    used = calls_of_action(CALLED)
    assert len(used) == 2
    for step in used:
        assert set(step["with"]) <= set(ACTION["inputs"])
        assert filled(step["with"].get("fails", "red")) in ("red", "worse", "later")


def test_the_called_workflow_has_the_inputs_that_are_given_and_uses_each() -> None:
    given = inputs_of_called()
    for path in (OURS, GITHUB):
        [call] = calls_of_workflow(path)
        assert (
            call["uses"]
            .partition("@")[0]
            .endswith(str(CALLED.relative_to(TOP)).removeprefix("."))
        )
        assert set(call["with"]) <= set(given)
    text = CALLED.read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(given)
    for told in given.values():
        assert {"description", "type", "default"} == set(told)
    for name in re.findall(r"\| `([\w-]+)` \|", GUIDE.read_text("utf-8")):
        assert name in given, f"{GUIDE.name} has {name}"


def test_actionlint_sees_all_workflows() -> None:
    [args] = [
        step["with"]["args"]
        for step in jobs_of(OURS)["workflows"]["steps"]
        if "actionlint" in step.get("uses", "")
    ]
    named = {word for word in shlex.split(args) if word.endswith(".yml")}
    there = [*(TOP / ".github/workflows").iterdir(), GITHUB]
    assert named == {str(path.relative_to(TOP)) for path in there}


def test_the_action_is_that_of_the_called_workflow_itself() -> None:
    """Without this the action would be another commit's, or the caller's."""
    for job in jobs_of(CALLED).values():
        used = [step.get("uses") for step in job["steps"]]
        if "./.impi" in used:
            [own] = [
                step["with"]
                for step in job["steps"][: used.index("./.impi")]
                if "repository" in step.get("with", {})
            ]
            assert own["ref"] == "${{ job.workflow_sha }}"
            assert own["path"] == ".impi"


def test_shards_have_names_that_no_other_call_has() -> None:
    """Calls named a and a-b must not take the shards, or the cache, of each other."""
    shard, merge = calls_of_action(CALLED)
    [download] = [s for s in steps_of(CALLED) if "download" in s.get("uses", "")]
    stem = download["with"]["pattern"].removesuffix("*")
    assert shard["with"]["name"].startswith(stem)
    assert stem == merge["with"]["name"] + ".shard-"
    for text in (CALLED.read_text("utf-8"), (TOP / "action.yml").read_text("utf-8")):
        for key in re.findall(r"restore-keys: (.*)", text):
            assert key.endswith("/${{ inputs.name }}/")


def test_numbers_of_shards_are_a_list_of_json() -> None:
    [step] = jobs_of(CALLED)["plan"]["steps"]
    done = subprocess.run(
        ["bash", "-c", step["run"].replace('>> "$GITHUB_OUTPUT"', "")],
        env={"SHARDS": "3", "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    name, _, value = done.stdout.partition("=")
    assert (name, json.loads(value)) == ("shards", [1, 2, 3])


@of_github
def test_workflows_have_few_rights(path: Path) -> None:
    assert loaded(path)["permissions"] == {"contents": "read"}
    wider = [
        job["permissions"] for job in jobs_of(path).values() if "permissions" in job
    ]
    # A called workflow cannot have more than its caller gives, so it asks for nothing.
    assert (path in (GITHUB, RELEASE)) == (len(wider) == 1)


def test_inputs_and_outputs_of_the_action() -> None:
    text = (TOP / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    ids = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert {
        name for name, _ in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text)
    } == ids
    script = (TOP / "ci/action.sh").read_text("utf-8")
    for output in ACTION["outputs"]:
        assert f"{output}=" in script
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) == (step.get("shell") == "bash")
        # Text of others reaches a shell as a variable, never as text of the script.
        assert "${{" not in step.get("run", "")


def test_no_text_of_others_is_part_of_a_script() -> None:
    for path in WORKFLOWS:
        for step in steps_of(path):
            assert not EXPRESSION.search(step.get("run", "")), step


def test_scripts_are_shell() -> None:
    found = [*scripts(), (TOP / "ci/action.sh").read_text("utf-8")]
    assert len(found) > 15
    for script in found:
        done = subprocess.run(
            ["bash", "-n"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert done.returncode == 0, (script, done.stderr)


def test_commands_of_impilab_are_ones_that_there_are() -> None:
    found = list(commands())
    assert len(found) >= 9
    assert {words[0] for words in found} >= {"run", "merge", "diff", "publish"}
    for words in found:
        parser_of_all().parse_args(words)


def test_jobs_of_gitlab_have_a_stage_and_need_jobs_that_there_are() -> None:
    inputs, value = of_gitlab()
    assert set(INPUT.findall(GITLAB.read_text("utf-8"))) == set(inputs)
    jobs = {name: job for name, job in value.items() if name not in KEYWORDS}
    for job in jobs.values():
        assert job["stage"] in value["stages"]
        assert job["script"]
        assert set(job.get("needs", [])) <= set(jobs)
