"""What is learned from published sessions quotes what really happened there."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.mining.error_resolutions import extract
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS, SESSIONS, TOOL_CALLS
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories.homes import parse_home


def views(key):
    for session_id, parsed in parse_home(discovery.host(key), CORPUS / key).items():
        row = dict.fromkeys(SESSIONS.names) | {"session_id": session_id, "host": key, "cwd": parsed.facts.cwd, "events": len(parsed.events)}
        yield SessionView(
            SESSIONS.row(**row), [EVENTS.row._make(r) for r in parsed.events], [TOOL_CALLS.row._make(r) for r in parsed.tool_calls]
        )


@corpus
@pytest.mark.feature("mining.error-resolution-edit")
@pytest.mark.parametrize(("key", "least"), [("claude", 8), ("codex", 3)])
def test_every_lesson_quotes_its_own_evidence(key, least):
    found = 0
    for view in views(key):
        for lesson in extract(view):
            found += 1
            texts = [view.by_event[e].text or "" for e in lesson.evidence_refs]
            quoted = clean(" ".join(texts))
            error = lesson.structured["error"].rstrip("…")
            assert error[-60:] in quoted or error[:40] in quoted
            assert lesson.subject.split()[0] in lesson.text
            runs = [run for e in lesson.evidence_refs if (run := runs_by_call(view).get(e)) is not None]
            assert (runs[0].result, runs[-1].result) == ("failed", "passed")
    assert found >= least


@corpus
@pytest.mark.feature("mining.conventions", "mining.procedures")
def test_what_sessions_prove_together_quotes_commands_and_files_that_are_in_its_evidence():
    seen = [(view, key) for key in ("claude", "codex") for view in views(key)]
    texts = {e.event_id: e.text or "" for view, _ in seen for e in view.events}
    paths = {c.call_event: " ".join(c.paths) for view, _ in seen for c in view.tool_calls}
    for name, least in (("project_conventions", 5), ("memp_procedural", 0)):
        method = discovery.methods()[name]
        drawn = [c for view, _ in seen for c in draw(method, view)[0]]
        memories = consolidate(method.combine(drawn) if method.combine else drawn)
        assert len(memories) >= least
        assert len({(m.repository or m.cwd, m.text) for m in memories}) == len(memories)
        for memory in memories:
            body = json.loads(memory.structured)
            quoted = " ".join(f"{texts[e]} {paths.get(e, '')}" for e in memory.evidence)
            if body.get("fact"):
                assert all(word in quoted for word in (body["manager"], body["command"], *body["parts"][:1]))
                continue
            said = [w for c in body.get("commands", body.get("files", []))[:1] for w in c.rpartition("&& ")[2].split()] or body.get(
                "steps", []
            )[:1]
            assert said or body["narrowed"]
            if name != "project_conventions" or "commands" in body:
                assert [word for word in said if word not in quoted] == [], memory
