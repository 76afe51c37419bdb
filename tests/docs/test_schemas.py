"""Schemas of files that people write: files of the project fulfil them, wrong ones do not."""

from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pages import TOP

from impi.base import manifests
from impi.base.errors import UsageError
from impi.lab.judge import expectations
from impi.lab.plan import clusters

FILES = {
    "cluster": sorted((TOP / "clusters").glob("*.toml")),
    "expectations": [TOP / "ci/expectations.toml"],
    "manifest": [
        path
        for path in (TOP / "images").glob("*/*.toml")
        if path.stem == path.parent.name
    ],
}
READERS = {
    "cluster": clusters._read,
    "expectations": expectations.load,
    "manifest": manifests.read,
}
CLIENT = "[[client]]\nnodes = 1\nprocs_per_node = 2\n"
EXPECT = '[[expect]]\ncells = "*/lam+*/**"\nissue = "https://a.example/1"\nuntil = 2027-01-01\n'
VENDOR = 'title = "Acme"\nkind = "backed"\n'
WRONG = [
    ("cluster", 'description = "no client"'),
    ("cluster", "[[client]]\nnodes = 1"),
    ("cluster", CLIENT.replace("1", "0")),
    ("cluster", CLIENT + 'colour = "red"'),
    ("cluster", 'reach = "far"\n' + CLIENT),
    ("cluster", CLIENT * 2 + '[[link]]\ndelay = "20ms"'),
    ("cluster", CLIENT * 2 + '[[link]]\nbetween = ["c0", "c1"]\nspeed = "1"'),
    ("cluster", CLIENT + '[[event]]\nat = "lunch"\ndo = "partition"'),
    ("expectations", EXPECT),
    ("expectations", EXPECT + 'result = "maybe"'),
    ("expectations", EXPECT + 'result = "fail"\nphase = "lunch"'),
    ("expectations", EXPECT + 'result = "fail"\ncount = 0'),
    ("expectations", EXPECT.replace("https", "see") + 'result = "fail"'),
    ("expectations", EXPECT + 'result = "fail"\nwhose = "ours"'),
    ("manifest", 'title = "Acme"'),
    ("manifest", VENDOR + 'tier = "top"'),
    ("manifest", VENDOR + 'launcher = "rocket"'),
    ("manifest", VENDOR + "libraries = 1"),
    ("manifest", VENDOR + '[settings.sometimes]\nA = "1"'),
    ("manifest", VENDOR + '[leaves]\nletters = ["a"]'),
    ("manifest", VENDOR + '[[unsupported]]\ncells = "*"'),
]


def validator(name: str) -> Any:
    path = TOP / "docs/reference" / f"{name}.schema.json"
    return jsonschema.Draft7Validator(json.loads(path.read_text("utf-8")))


def as_json(text: str) -> object:
    """TOML as editors hand it to a validator: dates are texts."""
    return json.loads(json.dumps(tomllib.loads(text), default=datetime.date.isoformat))


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_project_fulfil_their_schema(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(validator(name).schema)
    assert FILES[name]
    for path in FILES[name]:
        validator(name).validate(as_json(path.read_text("utf-8")))


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_what_the_reader_refuses_the_schema_does(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(UsageError):
        READERS[name](path)
    assert not validator(name).is_valid(as_json(text))


def test_editors_are_told_of_every_schema() -> None:
    rules = tomllib.loads((TOP / ".taplo.toml").read_text("utf-8"))["rule"]
    told = {rule["schema"]["path"]: rule["include"] for rule in rules}
    assert set(told) == {f"docs/reference/{name}.schema.json" for name in FILES}
    for name, files in FILES.items():
        globs = told[f"docs/reference/{name}.schema.json"]
        found = {path for glob in globs for path in TOP.glob(glob)}
        assert found >= set(files)
