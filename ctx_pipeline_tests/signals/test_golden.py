"""Readings of the shipped samples and of the published corpus are those that were looked at and kept."""

from __future__ import annotations

import pytest

from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.signals import golden

ACCEPT = "if that is right: python -m ctx_pipeline_tests.signals.golden, and look at the diff"


@pytest.mark.feature("signals.golden")
def test_readings_of_the_samples_did_not_move(tmp_path):
    found = golden.of_samples(golden.readings(tmp_path, golden.SAMPLES / "claude", golden.SAMPLES / "codex"))
    moved = golden.delta(golden.kept("samples"), found)
    assert not moved, "\n".join([*moved[:40], f"{len(moved)} readings moved; {ACCEPT}"])


@corpus
@pytest.mark.feature("signals.golden")
def test_readings_of_the_corpus_did_not_move(tmp_path):
    found = golden.of_corpus(golden.readings(tmp_path, CORPUS / "claude", CORPUS / "codex"))
    moved = golden.delta(golden.kept("corpus"), found)
    assert not moved, "\n".join([*moved[:40], f"{len(moved)} readings moved; {ACCEPT}"])
    # failures that people counted by hand; accepting new readings must not lose them
    checks, outcomes = found["checks"], found["outcomes"]
    assert checks["failed_test_run_count"]["claude"]["sum"] >= 20
    assert checks["failed_test_run_count"]["codex"]["sum"] >= 3
    assert outcomes["failed_command_count"]["claude"]["sum"] >= 75
    assert outcomes["failed_command_count"]["codex"]["sum"] >= 40


@pytest.mark.feature("signals.golden")
def test_a_reading_that_moves_is_told():
    before = {"risk": {"unknown_event_count": {"claude/a": 0, "claude/b": 2}}}
    after = {"risk": {"unknown_event_count": {"claude/a": 0, "claude/b": 3}, "new": {"claude/a": 1}}}
    assert golden.delta(before, after) == ["risk.new claude/a: None -> 1", "risk.unknown_event_count claude/b: 2 -> 3"]
