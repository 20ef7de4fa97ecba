"""Two repositories of one short name are two projects, whether their calls come from the tables or from the homes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline import run
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude as build


def _session(environ, number, cwd):
    transcript = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session(
        f"{number:08d}-0000-4000-8000-000000000001", slug=cwd.replace("/", "-"), cwd=cwd, mark=f"m{number}"
    )
    transcript.prompt("hello there")
    transcript.answer(build.text("hello"))
    transcript.save()


def _projects(settings, **chosen):
    return [(r["project"], r["repository"], r["calls"]) for r in usage("project", settings=settings, **chosen).to_json()["rows"]]


@pytest.mark.feature("usage.project-is-a-repository")
def test_one_short_name_of_two_repositories_is_two_rows(environ):
    settings = settings_module.load(environ)
    _session(environ, 1, "/w-a/api")
    _session(environ, 2, "/w-b/api")
    expected = [("api", "/w-a/api", 1), ("api", "/w-b/api", 1)]
    assert _projects(settings) == expected
    with open_store(settings) as store:
        run.run_stages(store, settings)
    assert _projects(settings, stored=True) == expected
    assert _projects(settings, stored=True, project="/w-b/api") == expected[1:]
    _session(environ, 3, "/w-b/api")
    _session(environ, 4, "/w-c/api")
    assert _projects(settings) == [("api", "/w-a/api", 1), ("api", "/w-b/api", 2), ("api", "/w-c/api", 1)]
    assert _projects(settings, project="/w-b/api") == [("api", "/w-b/api", 2)]
