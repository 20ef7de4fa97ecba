"""The structure: what may be imported by whom, what a fast command may load, how long a file may be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline import discovery

PACKAGE = Path(__file__).resolve().parents[1] / "ctx_pipeline"
HEAVY = ("dagster", "pydantic", "duckdb", "pyarrow", "rich", "dspy", "numpy", "jinja2")


def loaded_by(code: str, environ: dict[str, str] | None = None) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after some code."""
    return {name.partition(".")[0] for name in modules_loaded_by(code, environ)}


def modules_loaded_by(code: str, environ: dict[str, str] | None = None) -> set[str]:
    """Return every module that a fresh interpreter has loaded after some code."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.feature("package.light-import")
def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import ctx_pipeline").isdisjoint({*HEAVY, "click", "msgspec", "fcntl"})


@pytest.mark.feature("cli.help-is-light")
def test_help_loads_nothing_heavy():
    code = (
        "from click.testing import CliRunner\nfrom ctx_pipeline.cli import cli\nassert CliRunner().invoke(cli, ['--help']).exit_code == 0"
    )

    assert loaded_by(code).isdisjoint(HEAVY)


@pytest.mark.feature("team.light")
def test_a_run_and_a_report_load_nothing_that_a_team_needs():
    modules = ("pipeline.run", "pipeline.sync", "usage.engine", "learning.injection", "defs.location")
    code = "\n".join(f"import ctx_pipeline.{name}" for name in modules)

    assert loaded_by(code).isdisjoint({"deltalake", "obstore", "arro3", "moto", "boto3"})


@pytest.mark.feature("package.file-budget")
def test_no_file_is_longer_than_600_lines():
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}

    assert len(lines) > 600
    assert [name for name, count in lines.items() if count > 600] == []


@pytest.mark.feature("package.names")
def test_no_file_has_a_name_that_says_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "core", "base", "misc", "manager", "service"}

    # the documented examples of a signal and a method import from these paths, which people have in their files
    documented = {PACKAGE / room / "base.py" for room in ("signals", "mining")}

    assert [str(p) for p in PACKAGE.rglob("*.py") if p.stem in vague and p not in documented] == []


@pytest.mark.feature("hosts.one-file")
def test_no_code_outside_hosts_names_a_host():
    keys = "|".join(map(re.escape, discovery.hosts()))
    literal = re.compile(rf"""["']({keys})["']""")
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        # a price list names providers, one of which may be called as a host is
        if path.relative_to(PACKAGE).parts[0] not in {"hosts", "pricing"}
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if literal.search(line.partition("#")[0])
    ]

    assert found == []


@pytest.mark.feature("package.top-level")
def test_the_top_level_is_short():
    root = PACKAGE.parent
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = {name.partition("/")[0] for name in listed.stdout.splitlines()}

    assert {n for n in names if not n.startswith(".")} == {
        "LICENSE",
        "README.md",
        "ctx_pipeline",
        "ctx_pipeline_tests",
        "dagster.yaml",
        "docs",
        "pyproject.toml",
        "workspace.yaml",
    }


@pytest.mark.feature("docs.one-place")
def test_the_place_of_each_common_change_is_there():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8").partition("## Adding things")[2]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and not line.startswith("| change")]

    assert len(rows) >= 10
    for change, place in rows:
        named = re.findall(r"`(ctx_pipeline/[\w/.]+)`", place)
        assert named, change
        assert [name for name in named if not (PACKAGE.parent / name).exists()] == [], change
