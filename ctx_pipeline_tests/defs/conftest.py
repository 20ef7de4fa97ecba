"""A store of two small months, and pipelines whose steps fail where a test wants it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline_tests.factories.months import settings_of, write_month

LOCATION = "ctx_pipeline.definitions"

UI = tuple[Callable[..., Any], Any]


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
    from ctx_pipeline.defs import instance_settings, launch, partitions
    from ctx_pipeline.model.raw import Cell

    with launch.instance(settings) as instance:
        partitions.add(instance, [Cell("claude", "2026-03"), Cell("claude", "2026-04")])
    return instance_settings.prepare_home(settings)


@contextmanager
def web_server(settings, **over) -> Iterator[UI]:
    """Give what posts to Dagster's web server, and the workspace of its daemon; runs are made in this process, not in one of their own.

    ``over`` are settings of the instance.
    """
    from dagster import DagsterInstance
    from dagster._core.remote_origin import InProcessCodeLocationOrigin
    from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster_webserver.webserver import DagsterWebserver
    from starlette.testclient import TestClient

    from ctx_pipeline.defs.instance_settings import prepare_home

    home = prepare_home(settings)
    file = home / "dagster.yaml"
    here = {"run_launcher": {"module": "ctx_pipeline_tests.factories.thread_launcher", "class": "ThreadRunLauncher"}, **over}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text("utf-8")) | here), "utf-8")
    origin = InProcessCodeLocationOrigin(LoadableTargetOrigin(executable_path=sys.executable, module_name=LOCATION), location_name=LOCATION)
    with (
        DagsterInstance.from_config(str(home)) as instance,
        WorkspaceProcessContext(instance, InProcessTestWorkspaceLoadTarget(origin)) as workspace,
    ):
        client = TestClient(DagsterWebserver(workspace).create_asgi_app())

        def posted(query: str, **variables: Any) -> Any:
            answer = client.post("/graphql", json={"query": query, "variables": variables}).json()
            assert "errors" not in answer, answer
            (value,) = answer["data"].values()
            return value

        yield posted, workspace


@pytest.fixture
def ui(settings) -> Iterator[UI]:
    """A web server that launches what is clicked at once."""
    coordinator = {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"}
    with web_server(settings, run_coordinator=coordinator, concurrency={}) as made:
        yield made
