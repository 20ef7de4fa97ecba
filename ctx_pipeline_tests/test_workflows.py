"""The one check command, and what runs it: every step of it counts, on every Python that we say we support."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctx_pipeline_tests.attack import __main__ as attack

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

STUB = """#!/bin/sh
# stands for every program that the check starts: notes what was asked, and fails where it is told to
name=$(basename "$0")
printf '%s %s\\n' "$name" "$*" >> "$ASKED"
case "$name $*" in *"$FAILS"*) exit 1;; esac
case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin"
    for tool in python pip lint-imports ctx; do cp "$0" "$3/bin/$tool"; done;;
  "-m build "*) mkdir -p "$4"; : > "$4/ctx_pipeline-1-py3-none-any.whl"; : > "$4/ctx_pipeline-1.tar.gz";;
esac
"""

STEPS = (
    "python3 -m venv ",
    "pip install -q -e .[dev]",
    "python -m ruff format --check .",
    "python -m ruff check .",
    "python -m mypy",
    "lint-imports",
    "python .ci/names.py",
    "python -m mkdocs build --strict",
    "python -m pytest",
    "python -m ctx_pipeline_tests.attack ",
    "python -m build ",
    "python .ci/sbom.py",
    "python -m twine check --strict ",
    "ctx run --json",
    "ctx run --demo --json",
    "ctx ui --check",
)
"""What the check asks for, in this order."""


def checked(folder: Path, fails: str = "nothing does") -> tuple[int, list[str]]:
    """Run the check with a stub in the place of every program; return its exit code and what it asked for."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in ("python3", "chromium", "npm"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "mkdocs.yml", folder / "docs")
    environ = {
        "PATH": f"{programs}:{os.defpath}",
        "ASKED": str(folder / "asked"),
        "FAILS": fails,
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    done = subprocess.run(["bash", str(folder / ".ci" / "run")], env=environ, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, (folder / "asked").read_text().splitlines()


@pytest.mark.feature("package.one-check")
def test_one_command_asks_for_every_check_in_a_fresh_environment_and_tries_the_wheel_in_an_empty_one(tmp_path: Path):
    code, asked = checked(tmp_path)

    assert code == 0
    at = [next((n for n, line in enumerate(asked) if line.startswith(step)), None) for step in STEPS]
    assert None not in at, dict(zip(STEPS, at, strict=True))
    assert at == sorted(at)
    environments = [line.split()[-1] for line in asked if line.startswith("python3 -m venv ")]
    assert len(set(environments)) == 2
    (wheel,) = [line for line in asked if line.startswith("pip install") and line.endswith(".whl")]
    assert "-e" not in wheel.split()
    assert not any(Path(folder).exists() for folder in environments), "the environments are left behind"


@pytest.mark.feature("package.one-check")
@pytest.mark.parametrize("step", STEPS)
def test_a_check_that_fails_fails_the_command_and_ends_it(step: str, tmp_path: Path):
    code, asked = checked(tmp_path, step)

    assert code != 0
    assert any(line.startswith(step) for line in asked)
    later = STEPS[STEPS.index(step) + 1 :]
    assert [line for line in asked if line.startswith(later)] == []


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))


def commands(job: dict[str, Any]) -> list[str]:
    return [step.get("run") or step.get("uses") for step in job["steps"]]


@pytest.mark.feature("package.pythons")
def test_every_python_that_we_name_runs_the_one_check_on_linux_and_one_does_on_macos():
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", c)]
    job = workflow("ci")["jobs"]["check"]
    matrix = job["strategy"]["matrix"]

    assert matrix["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert matrix["os"] == ["ubuntu-latest"]
    assert [extra["os"] for extra in matrix["include"]] == ["macos-latest"]
    assert job["strategy"]["fail-fast"] is False
    assert commands(job)[-1] == "bash .ci/run"
    assert "if" not in job
    assert {"push", "pull_request"} <= set(workflow("ci")[True])  # YAML reads the key `on` as true


@pytest.mark.feature("package.nightly-attack")
def test_every_night_files_are_damaged_commands_killed_and_homes_hostile_for_ten_minutes_each_and_the_matrix_is_tried_whole():
    nightly = workflow("nightly")
    asked = [command for command in commands(nightly["jobs"]["attack"]) if "ctx_pipeline_tests.attack" in command]

    assert nightly[True]["schedule"]
    modes = [{word for word in command.split() if word in ("--kills", "--homes", "--matrix")} for command in asked]
    assert modes == [set(), {"--kills"}, {"--homes"}, {"--matrix"}]
    for command in asked[:3]:
        assert '--minutes 10 --seed "$(date +%j)" --shuffle' in command
        words = shlex.split(command.partition(" -m ")[2].replace("$(date +%j)", "7"))[1:]
        assert attack.parser().parse_args(words).minutes == 10


@pytest.mark.feature("package.audit")
def test_every_night_all_libraries_of_the_bill_of_materials_are_audited():
    asked = commands(workflow("nightly")["jobs"]["audit"])
    (installed,) = [shlex.split(command)[4] for command in asked if command.startswith("python -m pip install ")]
    bills = [shlex.split(command.partition(">")[0]) for command in asked if command.startswith("python .ci/sbom.py ")]
    audit = shlex.split(asked[-1])

    assert [words[2] for words in bills] == [f"ctx-pipeline{installed.removeprefix('.')}"] * 2
    assert [words[3:] for words in bills] == [[], ["--requirements"]]
    assert audit[0].endswith("/pip-audit")
    assert audit[1:] == ["--strict", "--disable-pip", "--no-deps", "-r", "$RUNNER_TEMP/requirements.txt"]


@pytest.mark.feature("package.audit")
def test_what_is_audited_are_the_libraries_of_the_bill_of_materials_at_their_versions():
    def printed(*words: str) -> str:
        command = [sys.executable, str(ROOT / ".ci" / "sbom.py"), "ctx-pipeline[all]", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=250).stdout

    bill = {(re.sub(r"[-_.]+", "-", one["name"]).lower(), one["version"]) for one in json.loads(printed())["components"]}
    audited = {tuple(line.split("==")) for line in printed("--requirements").splitlines()}

    assert {name for name, _ in bill - audited} == {"ctx-pipeline"}
    assert audited <= bill
    assert {"click", "duckdb", "pyarrow", "dagster", "cryptography"} & {name for name, _ in audited} >= {"click", "duckdb", "pyarrow"}


@pytest.mark.feature("package.audit")
def test_a_library_that_is_found_already_is_asked_again_for_the_extras_that_another_one_wants(tmp_path):
    requirements = {
        "root": ["first", "second"],
        "first": ["part"],
        "second": ["part[more]"],
        "part": ["extra-one; extra == 'more'"],
        "extra-one": [],
    }
    for order in (requirements["root"], requirements["root"][::-1]):
        for name, needed in {**requirements, "root": order}.items():
            folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
            folder.mkdir(exist_ok=True)
            lines = [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                "Version: 1.0",
                *(f"Requires-Dist: {one}" for one in needed),
                "Provides-Extra: more",
            ]
            (folder / "METADATA").write_text("\n".join(lines) + "\n")
        command = [sys.executable, str(ROOT / ".ci" / "sbom.py"), "root", "--requirements"]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)}
        ).stdout

        assert printed.split() == ["extra-one==1.0", "first==1.0", "part==1.0", "second==1.0"]


@pytest.mark.feature("rot.dspy-versions")
def test_the_oldest_dspy_that_we_name_runs_the_tests_of_the_callback_as_the_newest_does():
    (named,) = PROJECT["optional-dependencies"]["dspy"]
    oldest = re.fullmatch(r"dspy>=([\d.]+)", named)
    assert oldest

    asked = commands(workflow("ci")["jobs"]["oldest-dspy"])
    pinned = [v for command in asked for v in re.findall(r"'dspy==([\d.]+)'", command)]

    assert pinned == [oldest[1]]
    assert asked[-1] == "python -m pytest ctx_pipeline_tests/rot"


@pytest.mark.feature("package.oldest-requirements")
def test_the_oldest_of_each_library_that_the_command_line_needs_is_installed_and_runs_a_demo_and_tests():
    asked = commands(workflow("ci")["jobs"]["oldest-requirements"])

    assert "uv pip install --system --resolution lowest-direct ." in asked
    assert "ctx_pipeline run --demo" in asked[-2]
    assert asked[-1].startswith("python -m pytest ")
    assert all((ROOT / word).exists() for word in asked[-1].split() if word.startswith("ctx_pipeline_tests"))
    assert all(re.match(r"[\w-]+>=[\d.]+(?:;|$)", need) for need in PROJECT["dependencies"])


@pytest.mark.feature("dagster.versions")
def test_the_oldest_dagster_that_we_name_runs_the_tests_of_the_graph_as_the_newest_does():
    oldest = {
        name: version
        for need in _needs("graph", "postgres", "workers", "dev")
        for name, version in re.findall(r"^(dagster[\w-]*)>=([\d.]+)", need)
    }

    asked = commands(workflow("ci")["jobs"]["oldest-dagster"])
    pinned = dict(pin for command in asked for pin in re.findall(r"'(dagster[\w-]*)==([\d.]+)'", command))

    assert pinned == {name: f"{version}.0" for name, version in oldest.items()}
    assert len(pinned) == 6
    assert asked[-1] == "python -m pytest ctx_pipeline_tests/defs ctx_pipeline_tests/loopback"


def _needs(*extras: str) -> list[str]:
    return [need for extra in extras for need in PROJECT["optional-dependencies"][extra]]


@pytest.mark.feature("package.publish")
def test_a_release_builds_checks_and_publishes_what_its_tag_names():
    job = workflow("publish")["jobs"]["publish"]
    asked = commands(job)

    assert workflow("publish")[True] == {"release": {"types": ["published"]}}
    assert job["permissions"]["id-token"] == "write"
    build = next(n for n, command in enumerate(asked) if "python -m build" in command)
    assert "twine check --strict" in asked[build]
    assert asked[-1].startswith("pypa/gh-action-pypi-publish@")
    assert build == len(asked) - 2


@pytest.mark.feature("package.publish")
@pytest.mark.parametrize(("tag", "code"), [(f"v{PROJECT['version']}", 0), (PROJECT["version"], 0), ("v99.0", 1), ("", 1)])
def test_a_tag_that_is_not_the_version_is_not_published(tag: str, code: int):
    (script,) = [step["run"] for step in workflow("publish")["jobs"]["publish"]["steps"] if step.get("name") == "the tag is the version"]
    environ = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "TAG": tag}

    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=ROOT, env=environ, capture_output=True, check=False, timeout=250)

    assert done.returncode == code
