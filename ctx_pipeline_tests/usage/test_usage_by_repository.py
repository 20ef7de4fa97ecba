"""Two repositories of one short name are two projects, whether their calls come from the tables or from the homes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline import run
from ctx_pipeline.pipeline.page.page_records import current
from ctx_pipeline.sessions.listing import listed
from ctx_pipeline.sessions.reports.gain import gain
from ctx_pipeline.sessions.reports.work import work
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.limits import outcomes
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import codex


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


@pytest.mark.feature("usage.project-is-a-repository")
def test_a_worktree_has_the_name_of_its_checkout_on_every_surface(environ):
    settings = settings_module.load(environ)
    for number, folder in enumerate(("", "/.worktrees/2", "/.claude/worktrees/fix-it/src"), 1):
        _session(environ, number, f"/home/dev/shop{folder}")
    expected = [("shop", "/home/dev/shop", 3)]
    assert _projects(settings) == expected
    with open_store(settings) as store:
        run.run_stages(store, settings)
    assert _projects(settings, stored=True) == expected
    assert [(one.key, one.sessions) for one in outcomes("project", settings=settings)[0]] == [("shop", 3)]
    assert [(p.project, p.sessions) for p in current(settings).projects] == [("shop", 3)]
    assert {row["project"] for row in listed(settings=settings)[0]} == {"shop"}


@pytest.mark.feature("usage.project-is-a-repository")
def test_two_remotes_of_one_name_are_two_rows_and_a_filter_takes_each(environ):
    settings = settings_module.load(environ)
    for number, remote in enumerate(("one", "two", "two"), 1):
        thread = f"{number:08d}-0000-7000-8000-000000000001"
        records = codex.session(thread, begin=number * 1_000)
        records[0]["payload"]["git"] = {"repository_url": f"https://github.com/{remote}/web.git"}
        codex.write(Path(environ["CODEX_HOME"]), records, thread)
    with open_store(settings) as store:
        run.run_stages(store, settings)
    assert sorted((one.key, one.sessions) for one in outcomes("project", settings=settings)[0]) == [("one/web", 1), ("two/web", 2)]
    assert [one.sessions for one in outcomes("project", project="two/web", settings=settings)[0]] == [2]
    assert gain("all", project="two/web", settings=settings).sessions == 2
    calls = [work(project=f"{remote}/web", settings=settings)[0].tool_calls.times for remote in ("one", "two")]
    assert calls[1] == 2 * calls[0] > 0
