"""docs/features.md against the marks on the tests: no feature loses its test, no mark is free-floating."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("ctx_docs", ROOT / ".ci" / "docs.py")
assert _spec is not None
assert _spec.loader is not None
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)


def test_every_feature_that_is_not_open_has_a_test():
    proofs = docs.marks()
    rows = docs.rows()

    unproven = [key for key, _, is_open in rows if not is_open and key not in proofs]

    assert len(rows) > 40, "docs/features.md lost its rows, or their form changed"
    assert unproven == []


def test_no_row_is_called_open_while_a_test_proves_it():
    proofs = docs.marks()

    assert [key for key, _, is_open in docs.rows() if is_open and key in proofs] == []


def test_every_mark_names_a_row_and_every_row_stands_once():
    keys = [key for key, _, _ in docs.rows()]

    assert sorted(set(docs.marks()) - set(keys)) == []
    assert sorted({key for key in keys if keys.count(key) > 1}) == []


@pytest.mark.feature("docs.reference")
def test_the_reference_pages_say_what_the_code_says():
    assert {"tables", "signals", "methods", "hosts", "cli", "features"} <= set(docs.PAGES)
    done = subprocess.run([sys.executable, str(ROOT / ".ci" / "docs.py"), "--check"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
