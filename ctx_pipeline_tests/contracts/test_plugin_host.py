"""A host that another package brings: one file, found by entry point, held to the same contract."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from ctx_pipeline_tests import processes

PLUGIN = Path(__file__).resolve().parents[1] / "samples" / "plugin"
CONTRACT = Path(__file__).with_name("test_hosts.py")
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The plug-in as an installer would leave it, on the path of a process, with a home of its own."""
    site = tmp_path / "site"
    shutil.copytree(PLUGIN, site)
    about = site / "parrot_agent-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-agent\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ctx_pipeline.hosts]\nparrot = parrot_agent\n")
    shutil.copytree(PLUGIN / "samples/parrot/home", tmp_path / "parrot")
    return {**os.environ, "PYTHONPATH": str(site), "PARROT_HOME": str(tmp_path / "parrot"), "PYTHONDONTWRITEBYTECODE": "1"}


def output_of(environment: dict[str, str], *command: str) -> str:
    process = processes.start([sys.executable, "-m", *command], env=environment, cwd=CHECKOUT, stdout=PIPE, stderr=PIPE, text=True)
    said, wrong = process.communicate(timeout=250)
    assert process.returncode == 0, said + wrong
    return str(said)


@pytest.mark.feature("hosts.plugin")
def test_a_host_of_another_package_passes_the_contract_suite(installed: dict[str, str]) -> None:
    said = output_of(installed, "pytest", "-q", "-p", "no:cacheprovider", str(CONTRACT), "-k", "parrot")
    assert re.search(r"\b(1[89]|2\d) passed", said), said


@pytest.mark.feature("hosts.headless")
def test_a_host_of_another_package_that_can_be_asked_without_a_person_has_its_mining_method(installed: dict[str, str]) -> None:
    methods = {row["method"]: row for row in json.loads(output_of(installed, "ctx_pipeline", "methods", "--json"))["methods"]}

    assert {name for name in methods if name.endswith("_headless")} == {"claude_headless", "codex_headless", "parrot_headless"}
    assert methods["parrot_headless"]["what"].startswith("Lessons that Parrot draws from a session")


@pytest.mark.feature("hosts.plugin")
@pytest.mark.feature("hosts.folder-scan")
def test_a_host_of_another_package_is_captured_counted_and_found(installed: dict[str, str]) -> None:
    def counted(*words: str) -> list[tuple[str, int, int, int]]:
        rows = json.loads(output_of(installed, "ctx_pipeline", "usage", "daily", "--json", *words))["rows"]
        return [(r["date"], r["input_tokens"], r["output_tokens"], r["calls"]) for r in rows]

    assert counted() == [("2026-04-02", 300, 42, 2)]
    output_of(installed, "ctx_pipeline", "sync")
    assert counted("--stored") == [("2026-04-02", 300, 42, 2)]
    listed = output_of(installed, "ctx_pipeline", "list", "--host", "parrot")
    assert "polly-1" in listed
    assert "open the cage" in output_of(installed, "ctx_pipeline", "search", "cage")


@pytest.mark.feature("hosts.groups")
def test_a_plug_in_of_an_earlier_version_is_left_out_and_told_where_its_fields_are_now(installed: dict[str, str], tmp_path: Path) -> None:
    module = tmp_path / "site" / "parrot_agent.py"
    module.write_text(module.read_text().replace("records=Records(parse=parse)", "parse=parse"))

    said = output_of(installed, "ctx_pipeline", "doctor")

    assert "plug-in" in said
    assert "parse is now records=Records(parse=...)" in said
