"""A secret of every detector, planted wherever text can stand, is in no file that is derived."""

import json
import random
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline import run
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import codex, dspy_store
from ctx_pipeline_tests.factories.stored_text import contents, files_with


@pytest.mark.feature("redaction.nothing-leaks")
def test_planted_secrets_are_in_raw_only(environ):
    rng = random.Random(11)
    planted = [detector.plant(rng) for detector in DETECTORS]
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    for number, one in enumerate(planted):
        session = home.session(f"{number:08d}-0000-4000-8000-000000000001", mark=f"m{number}")
        session.prompt(one.text)
        session.answer(build.text(f"I see {one.text}"), build.thinking(one.text))
        session.call(f"toolu_{number}", "Bash", f"out: {one.text}", command=f"echo '{one.text}'", is_error=True)
        session.plain("custom-title", customTitle=one.text, sessionId=f"{number:08d}-0000-4000-8000-000000000001")
        session.plain("never-seen-before", payload=one.text)
        session.raw(json.dumps({"type": "odd", "deep": {"deeper": json.dumps({"x": one.text})}}).encode() + b"\n")
        session.save()
        thread = f"019c{number:04d}-0000-7000-8000-000000000001"
        codex.write(Path(environ["CODEX_HOME"]), codex.session(thread, prompt=one.text), thread)
    settings = settings_module.load(environ)
    with open_store(settings) as store:
        run.run_stages(store, settings)
        rows = [e.text or "" for cell in store.lake.manifests("normalized") for e in store.lake.read_rows("events", cell, "normalized")]
    text = "\n".join(rows)
    assert {d.name for d in DETECTORS if f"[REDACTED:{d.name}]" not in text} == set()
    secrets = {d.name: one.secret.encode() for d, one in zip(DETECTORS, planted, strict=True)}
    derived = dict(contents(settings.home, skip=("raw",)))
    leaked = [(name, rel) for rel, data in derived.items() for name, secret in secrets.items() if secret in data]
    assert leaked == []
    assert any(rel.startswith("lake/events/") for rel in derived)
    raw = b"".join(data for _, data in contents(settings.home / "raw"))
    assert [one.secret for one in planted if json.dumps(one.secret)[1:-1].encode() not in raw] == []


SESSION = "abcdef01-0000-4000-8000-000000000009"
THREAD = "019cffff-0000-7000-8000-000000000009"


@pytest.mark.feature("redaction.nothing-leaks")
def test_secrets_beside_the_transcripts_are_in_raw_only(environ):
    """Spilled results, side files, the thread database of Codex and a callback store."""
    rng = random.Random(12)
    places = ("spill", "meta", "todos", "history", "index", "state", "dspy", "tool", "program")
    planted = {place: next(d for d in DETECTORS if d.name == "github-token").plant(rng) for place in places}
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    session = home.session(SESSION)
    session.prompt("show the log")
    spilled = home.file(f"projects/-home-dev-shop/{SESSION}/tool-results/toolu_9.txt", f"the whole log\n{planted['spill'].text}\nend\n")
    stub = f"<persisted-output>\nOutput too large (60KB). Full output saved to: {spilled}\n\nPreview (first 2KB):\nthe whole log\n"
    session.call("toolu_9", "Bash", f"{stub}</persisted-output>", command="cat log")
    session.save()
    agent = home.agent("a1", SESSION)
    agent.prompt("look")
    agent.answer(build.text("seen"))
    agent.save()
    home.file(
        f"projects/-home-dev-shop/{SESSION}/subagents/agent-a1.meta.json", {"agentType": "looker", "description": planted["meta"].text}
    )
    home.file(f"todos/{SESSION}-agent-{SESSION}.json", [{"content": planted["todos"].text, "status": "pending"}])
    home.file(
        "history.jsonl", json.dumps({"display": planted["history"].text, "timestamp": 1, "project": "/p", "sessionId": SESSION}) + "\n"
    )
    home.file("projects/-home-dev-shop/sessions-index.json", {"entries": [{"sessionId": SESSION, "summary": planted["index"].text}]})
    root = Path(environ["CODEX_HOME"])
    codex.write(root, codex.session(THREAD), THREAD)
    codex.state_database(root / "state_5.sqlite", [{"id": THREAD, "title": planted["state"].text}])
    rows = dspy_store.react()
    spoken = [r._replace(payload={**r.payload, "completions": [planted["dspy"].text]}) if r.kind == "lm_call" else r for r in rows]
    spoken = [r._replace(payload={**r.payload, "output": planted["tool"].text}) if r.kind == "tool_call" else r for r in spoken]
    spoken = [r._replace(payload={**r.payload, "mode": planted["program"].text}) if r.kind == "session_start" else r for r in spoken]
    dspy_store.write_log(Path(environ["HOME"]) / "calls.db", spoken)
    dspy_store.write_legacy(Path(environ["HOME"]) / "ctxrot.db")
    settings = settings_module.load({**environ, "CTX_CALLBACK_STORE": str(Path(environ["HOME"]) / "calls.db")})
    with open_store(settings) as store:
        run.run_stages(store, settings)
        texts = [e.text or "" for cell in store.lake.manifests("normalized") for e in store.lake.read_rows("events", cell, "normalized")]
        threads = [t.title for cell in store.lake.manifests("normalized") for t in store.lake.read_rows("threads", cell, "normalized")]
    assert any(text.startswith("the whole log") and "[REDACTED:github-token]" in text for text in texts)
    assert sum("[REDACTED:github-token]" in text for text in (*texts, *filter(None, threads))) >= 5
    leaked = {place: files_with(settings.home, one.secret, skip=("raw",)) for place, one in planted.items()}
    assert {place: files for place, files in leaked.items() if files} == {}
    assert {place for place, one in planted.items() if not files_with(settings.home / "raw", one.secret)} == set()
