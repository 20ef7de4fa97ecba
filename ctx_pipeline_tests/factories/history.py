"""A history of two months made by rule, for the page: ordinary sessions and one that attacks its reader."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_of
from ctx_pipeline.pipeline.render import render
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline.usage.repositories import repository_names
from ctx_pipeline_tests.factories.lake_rows import at, call, relations, session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "<!--<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "</title><svg onload=\"document.title='owned'\">",
    "\u2028document.title='owned'\u2029",
    '"><img src=x onerror="document.title=\'owned\'">',
    "{{ 7 * 7 }} __proto__ constructor",
)
"""Texts that took over or blanked a page of this kind elsewhere."""

TITLES = (
    "Make the till round to the nearest cent",
    "Why does the nightly import skip the last file?",
    "Move the session store from pickle to SQLite, keep the old one readable, and write down how to go back",
    "Flaky test in test_checkout.py",
    "Draft the release notes",
    "Rename customer to account everywhere",
)


def tables(sessions: int = 36, *, hostile: bool = True, start: str = "2026-09-20 08:00") -> dict[str, list[dict[str, Any]]]:
    """Return rows of every table for so many sessions, the newest last."""
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("sessions", "threads", "events", "model_calls", "tool_calls", "readings", "memories")
    }
    first = at(start)
    for i in range(sessions):
        _session(found, i, f"{first + timedelta(hours=39 * i):%Y-%m-%d %H:%M}", TITLES[i % len(TITLES)])
    if hostile:
        _attack(found, sessions)
    found["memories"] += [_memory(i) for i in range(5)]
    return found


def _session(found: dict[str, list[dict[str, Any]]], i: int, begun: str, title: str, **more: Any) -> None:
    host = "codex" if i % 3 == 1 else "claude"
    name = more.pop("session_id", f"0198c0de-0000-7000-8000-{i:012d}")
    mark = {"host": host, "session_id": name, "thread_id": name}
    model = more.pop("model", "gpt-5.1-codex" if host == "codex" else ("claude-opus-4-5" if i % 4 == 0 else "claude-sonnet-4-5"))
    tools = 4 + i % 9
    failed = i % 5
    facts = {
        "title": title,
        "project": ("till", "importer", "website")[i % 3],
        "cwd": f"/home/ada/code/{('till', 'importer', 'website')[i % 3]}",
        "branch": "main" if i % 2 else "fix/rounding",
        "models": [model],
        "version": "2.1.7",
        "prompts": 2 + i % 3,
        "tool_calls": tools,
        "failed_tool_calls": failed,
        "events": 4 + 2 * tools,
        "lines": 40 + i,
        "bytes": 40_000 + 977 * i,
    }
    found["sessions"].append(session(name, begun, host=host, **facts | more))
    found["threads"].append(mark | {"kind": "main", "first_ts": at(begun)})
    when = at(begun)
    for n in range(3 + i % 5):
        tokens = (900 + 11 * i, 400 + 37 * n, 9_000, 0, 41_000 + 1_000 * i * n, 90)
        moment = f"{when + timedelta(minutes=7 * n):%Y-%m-%d %H:%M}"
        found["model_calls"].append(
            call(name, f"m{i}-{n}", moment, model, tokens, 31_000_000 + 4_000_000 * i * (n + 1), host=host, price="list")
        )
    words = [
        ("prompt", "user", f"{title}\n\nPlease look at the tests first."),
        ("answer", "assistant", "I looked at the tests. Two of them fail."),
    ]
    seq = 0
    for kind, actor, text in words:
        found["events"].append(
            mark | {"event_id": f"{i}.{seq}", "stream": str(i), "seq": seq, "ts": when, "kind": kind, "actor": actor, "text": text}
        )
        seq += 1
    for n in range(tools):
        asked, answered = f"{i}.{seq}", f"{i}.{seq + 1}"
        moment = when + timedelta(seconds=40 * n + 5)
        wrong = n < failed
        command = ("uv run pytest -x -q tests/test_checkout.py", "git diff --stat", "rg -n 'round\\(' src")[n % 3]
        output = ("E   assert Decimal('0.10') == Decimal('0.1')\n" * 9) if wrong else "ok"
        found["events"] += [
            mark
            | {
                "event_id": asked,
                "stream": str(i),
                "seq": seq,
                "ts": moment,
                "kind": "tool_call",
                "actor": "assistant",
                "text": command,
                "call_id": f"t{n}",
            },
            mark
            | {
                "event_id": answered,
                "stream": str(i),
                "seq": seq + 1,
                "ts": moment,
                "kind": "tool_result",
                "actor": "tool",
                "text": output,
                "call_id": f"t{n}",
            },
        ]
        found["tool_calls"].append(
            mark
            | {"call_id": f"t{n}", "seq": seq, "tool": "Bash", "action": "shell", "argv": [command], "exit": int(wrong), "is_error": wrong}
            | {
                "started": moment,
                "ended": moment + timedelta(seconds=3),
                "out_chars": len(output),
                "call_event": asked,
                "result_event": answered,
            }
        )
        seq += 2
    for kind, actor, text in (("prompt", "user", "Good. Commit it."), ("answer", "assistant", "Committed as 4f1c2ab.")):
        found["events"].append(
            mark
            | {
                "event_id": f"{i}.{seq}",
                "stream": str(i),
                "seq": seq,
                "ts": when + timedelta(hours=1),
                "kind": kind,
                "actor": actor,
                "text": text,
            }
        )
        seq += 1
    found["readings"] += _readings(mark, i, tools, failed)


def _readings(mark: dict[str, Any], i: int, tools: int, failed: int) -> list[dict[str, Any]]:
    """Return what five declared signals read in the session, from figures that a test can work out."""
    broke = [f"{i}.{2 * n + 3}" for n in range(failed)]
    corrected = 4 if 45 <= i < 60 else 0  # the last month of sixty sessions is worse
    rows = [
        ("failed_command_ratio", "outcomes", "numeric", failed / tools, None, "ratio", broke),
        ("session_grade", "outcomes", "categorical", None, "ABCDF"[failed], "", broke),
        ("user_correction_count", "outcomes", "numeric", i % 3 + corrected, None, "messages", []),
        ("trajectory_step_count", "trajectory", "numeric", tools, None, "steps", []),
        ("trajectory_validation_presence", "validation", "boolean", i % 2, None, "", []),
    ]
    names = ("signal", "family", "kind", "value", "label", "unit", "evidence")
    return [mark | dict(zip(names, row, strict=True)) | {"confidence": 1.0} for row in rows]


def _attack(found: dict[str, list[dict[str, Any]]], i: int) -> None:
    """Add sessions whose every text tries to become markup or script."""
    for n, text in enumerate(HOSTILE):
        _session(
            found, 3 * (i + n), f"2026-11-2{n % 2} 1{n}:00", text, session_id=f"{text}.{n}", model=text, project=text, branch=text, cwd=text
        )
    session_id = f"{HOSTILE[0]}.0"
    mark = {"host": "claude", "session_id": session_id, "thread_id": session_id}
    for n, text in enumerate(HOSTILE):
        found["events"].append(mark | {"event_id": f"evil{n}", "seq": 900 + n, "kind": "prompt", "actor": "user", "text": text})
    found["events"].append(
        mark | {"event_id": "redacted", "seq": 990, "kind": "answer", "actor": "assistant", "text": "key [REDACTED:aws-key]"}
    )


def _memory(i: int) -> dict[str, Any]:
    return {
        "memory_id": f"mem-{i:012d}",
        "kind": ("failure_trigger", "repo_convention", "user_preference")[i % 3],
        "text": HOSTILE[1] if i == 4 else "When the checkout tests fail on rounding, compare Decimal values after quantize, not the text.",
        "when_to_use": "a checkout test fails",
        "status": "needs_review" if i == 4 else "candidate",
        "flags": ["instruction"] if i == 4 else [],
        "scope": "repo",
        "confidence": 0.8,
        "priority": 3,
        "risk": "high" if i == 4 else "low",
        "source": "authored" if i == 3 else "mined",
        "methods": [] if i == 3 else ["error_resolutions"],
        "support": 3 - i % 3,
        "sessions": ["claude/0198c0de-0000-7000-8000-000000000000"],
        "evidence": ["0.2", "0.3"],
        "links": ["mem-000000000001", "mem-ffffffffffff"] if i == 2 else [],
        "superseded_by": "mem-000000000000" if i == 3 else None,
    }


def build_site(environ: Mapping[str, str], rows: dict[str, list[dict[str, Any]]], folder: str) -> Path:
    """Make a warehouse of the rows, written below a folder of the store of ``environ``, render its page and return the page's folder."""
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        parts = relations(store.home / folder, **rows)
        database.build(parts, store.warehouse_path, timezone=chosen.timezone, project_names=repository_names)
        render(store, chosen, force=True, refresh=False)
        return store.home / "site"
