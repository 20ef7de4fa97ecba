"""A store of two small months, and pipelines whose steps fail where a test wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline_tests.factories.months import settings_of, write_month


@pytest.fixture
def home(environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(root, "2026-03", 1)
    write_month(root, "2026-04", 2)
    return root


@pytest.fixture
def settings(environ, home, monkeypatch):
    """Settings of the two months; the environment of this process says the same, as a daemon would read it."""
    made = settings_of(environ)
    for name in ("CTX_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(name, made.environ[name])
    return made


class Holding(Pipeline):
    """A pipeline one of whose steps holds a cell back."""

    def __init__(self, settings, step, cell, **options):
        super().__init__(settings, **options)
        self.bad = (step, cell)

    def step(self, name, **options):
        from ctx_pipeline.pipeline import HELD, CellReport

        bad_step, bad_cell = self.bad
        cells = list(options.get("cells") or ())
        if name != bad_step or bad_cell not in cells:
            return super().step(name, **options)
        reports = super().step(name, **{**options, "cells": [cell for cell in cells if cell != bad_cell]})
        reports[-1].cells[bad_cell.key] = CellReport(HELD, error="rows break the contract")
        return reports


@pytest.fixture
def holding():
    return Holding


def placed(settings):
    """Make the cells of the two months known to the instance, as the sensor does at its first tick; return the instance's folder."""
    from ctx_pipeline.defs import launch, partitions
    from ctx_pipeline.model.raw import Cell

    with launch.instance(settings) as instance:
        partitions.add(instance, [Cell("claude", "2026-03"), Cell("claude", "2026-04")])
    return launch.prepare_home(settings)
