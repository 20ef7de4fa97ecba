"""The page "Add a host in an hour", done as it stands."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from subprocess import PIPE

import pytest

from ctx_pipeline_tests import processes

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "docs" / "add-a-host.md").read_text("utf-8")
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The blocks of the page as files, named as an installer would name them, with the sample as the home."""
    site = tmp_path / "site"
    for rel, said in _BLOCK.findall(PAGE):
        (site / rel).parent.mkdir(parents=True, exist_ok=True)
        (site / rel).write_text(said)
    project = tomllib.loads((site / "pyproject.toml").read_text())["project"]
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    (about / "entry_points.txt").write_text("".join([f"[{group}]\n", *(f"{name} = {value}\n" for name, value in entries.items())]))
    more = {"PYTHONPATH": str(site), "QUAIL_HOME": str(site / "samples/quail/home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **more}


def outputs(environment: dict[str, str], block: str) -> list[str]:
    """Run the commands of a block; return what each prints."""
    found = []
    for line in block.splitlines():
        words = shlex.split(line.removeprefix("$ "))
        command = [sys.executable, "-m", "ctx_pipeline", *words[1:]] if words[0] == "ctx" else [sys.executable, *words[1:]]
        process = processes.start(command, env=environment, cwd=CHECKOUT, stdout=PIPE, stderr=PIPE, text=True)
        said, wrong = process.communicate(timeout=250)
        assert process.returncode == 0, line + said + wrong
        found.append(str(said))
    return found


@pytest.mark.timeout(400)
@pytest.mark.feature("hosts.walk")
def test_the_walk_adds_a_host_that_passes_the_contract_and_is_shown(installed: dict[str, str]) -> None:
    contract, use = _CONSOLE.findall(PAGE)

    of_parser, of_pipeline = outputs(installed, contract)
    assert re.search(r"\b(1[89]|2\d) passed", of_parser), of_parser
    assert re.search(r"\b([7-9]|1\d) passed", of_pipeline), of_pipeline
    _, listed, used, shown, formats = outputs(installed, use)
    assert "count the eggs" in listed
    assert re.search(r"quail +gpt-5 +1 +40 +12 +0 +60", used)
    assert "quail --again q-1" in shown
    assert "hatched" in formats
