"""The benchmark prints what it says it prints; its figures are nobody's test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.feature("bench.help", "bench.rows")
def test_a_row_has_its_figure_its_budget_and_its_share_of_it(tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "a.jsonl").write_text('{"type": "user"}\n' * 50)
    done = subprocess.run(
        [sys.executable, "-m", "ctx_pipeline_tests.bench", "--home", str(tmp_path), "--only", "help_rows"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )

    lines = done.stdout.splitlines()
    assert lines[0].startswith("floor: read and decode 0 MB in one process: 0.00 s")
    (row,) = [line for line in lines if line.startswith("ctx --help, whole process")]
    measured, unit, budget, _, share, ratio = row.removeprefix("ctx --help, whole process").split()[:6]
    assert 0 < float(measured) < 60
    assert (unit, budget) == ("s", "0.120")
    assert float(share) == pytest.approx(float(measured) / 0.12, abs=0.02)
    assert float(ratio) > 0
