"""docs/features.tsv against the marks on the tests and the rows of the benchmark: no feature loses its proof, no mark is free-floating."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline_tests.bench.budgets import BUDGETS, Budget

ROOT = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("ctx_docs", ROOT / ".ci" / "docs.py")
assert _spec is not None
assert _spec.loader is not None
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)


def unkept(features, budgets: dict[str, Budget]) -> list[str]:
    """Return what the benchmark does not keep of features that it is to measure: a row that is gone, a number that is another one."""
    found = []
    for feature in features:
        for name in feature.measured_by:
            if name not in budgets:
                found.append(f"{feature.id}: the benchmark has no row {name!r}")
            elif (most := budgets[name].most) is not None and f" {most:g} {budgets[name].unit}".rstrip() not in feature.sentence:
                found.append(f"{feature.id}: {most:g} {budgets[name].unit}".rstrip() + f" of {name!r} does not stand in its sentence")
    return found


def test_every_feature_that_is_not_open_has_a_test_or_is_measured():
    proofs = docs.marks()
    rows = docs.rows()

    unproven = [row.id for row in rows if not row.mark and row.id not in proofs]

    assert len(rows) > 40, "docs/features.tsv lost its rows, or their form changed"
    assert unproven == []


def test_no_row_is_called_open_while_a_test_proves_it():
    proofs = docs.marks()

    assert [row.id for row in docs.rows() if row.is_open and row.id in proofs] == []


def test_every_mark_names_a_row_and_every_row_stands_once():
    keys = [row.id for row in docs.rows()]

    assert sorted(set(docs.marks()) - set(keys)) == []
    assert sorted({key for key in keys if keys.count(key) > 1}) == []


@pytest.mark.feature("docs.budgets")
def test_what_the_benchmark_is_to_measure_has_its_row_and_its_number():
    measured = [row for row in docs.rows() if row.measured_by]

    assert unkept(measured, BUDGETS) == []
    assert len(measured) > 20, "docs/features.tsv lost its measured rows, or their form changed"


@pytest.mark.feature("docs.budgets")
@pytest.mark.parametrize(
    ("sentence", "mark", "wrong"),
    [
        ("It takes 8 s at most, and 0.55 of it.", "bench: a; c", []),
        ("It takes 6 s at most.", "bench: a", ["x.y: 8 s of 'a' does not stand in its sentence"]),
        ("It takes 18 s at most.", "bench: a", ["x.y: 8 s of 'a' does not stand in its sentence"]),
        ("It takes 8 s at most.", "bench: a; z", ["x.y: the benchmark has no row 'z'"]),
        ("It is a figure.", "bench: b", []),
        ("Something.", "open", []),
    ],
)
def test_a_row_that_is_gone_and_a_number_that_changed_are_noticed(sentence: str, mark: str, wrong: list[str]):
    budgets = {"a": Budget(8, megabytes=500), "b": Budget(None), "c": Budget(0.55, "")}

    assert unkept([docs.Feature("x.y", sentence, mark)], budgets) == wrong


@pytest.mark.feature("docs.reference")
def test_the_reference_pages_say_what_the_code_says():
    assert {"tables", "signals", "methods", "hosts", "cli"} <= set(docs.PAGES)
    assert {"features/index", "features/search"} <= set(docs.features())
    done = subprocess.run([sys.executable, str(ROOT / ".ci" / "docs.py"), "--check"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
