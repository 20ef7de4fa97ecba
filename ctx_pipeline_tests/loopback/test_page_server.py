"""The served page: the whole search index, buttons for lessons, and a running session that grows."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctx_pipeline.cli.page import page_server
from ctx_pipeline.cli.page.page_server import application, behind
from ctx_pipeline.dashboard.page import unpacked_chunk
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline import render as stage
from ctx_pipeline.settings import load
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.browser.conftest import CHROMIUM, NEEDED, SECONDS
from ctx_pipeline_tests.factories.history import build_site, tables
from ctx_pipeline_tests.loopback.conftest import JSON, Server, address_in, let_in, started
from ctx_pipeline_tests.waiting import eventually

FIRST = "Make the parser accept tabs"


def _post(server: Server, place: str, body: dict) -> tuple[int, dict]:
    headers = [("Host", server.host), ("Origin", f"http://{server.host}"), ("Cookie", server.cookie), ("Content-Type", JSON)]
    status, _, answer = server.ask("POST", place, headers, json.dumps(body).encode())
    return status, json.loads(answer)


def _ctx(environ: dict[str, str], folder: Path, *words: str) -> dict:
    done = processes.run([sys.executable, "-m", "ctx_pipeline", *words, "--json"], env=environ, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.feature("dashboard.search-days")
def test_the_served_page_asks_the_index_for_days_that_a_person_chose(page, store):
    folder, environ = store
    day = max(hit["ts"] for hit in _ctx(environ, folder, "search", "export", "--limit", "20")["hits"] if hit["ts"])[:10]
    told = _ctx(environ, folder, "search", "export", "--limit", "20", "--since", day, "--until", day)
    status, answer = _post(page, "/api/search", {"query": "export", "since": day, "until": day})

    assert status == 200
    assert [hit["snippet"] for hit in answer["hits"]] == [hit["snippet"] for hit in told["hits"]] != []
    assert _post(page, "/api/search", {"query": "export", "since": None, "until": "1999-12-31"})[1] == {
        "hits": [],
        "searched": "nothing holds: export",
    }
    assert _post(page, "/api/search", {"query": "export", "since": "' or 1"})[0] == 400


@pytest.mark.feature("dashboard.live")
def test_the_served_page_asks_the_index_and_the_one_on_disk_may_not(page, store):
    folder, environ = store
    status, answer = _post(page, "/api/search", {"query": "export"})
    told = _ctx(environ, folder, "search", "export", "--limit", "20")
    headers = [("Host", page.host), ("Cookie", page.cookie)]
    text = page.ask("GET", "/index.html", headers)[2].decode()

    assert status == 200
    assert [hit["snippet"] for hit in answer["hits"]] == [hit["snippet"] for hit in told["hits"]]
    assert "connect-src &#39;self&#39;" in text
    assert '<script src="served.js" defer>' in text
    assert "connect-src" not in (Path(environ["CTX_HOME"]) / "site" / "index.html").read_text("utf-8")
    assert page.ask("GET", "/api/search?query=export", headers)[0] == 405
    assert page.ask("POST", "/api/search", [("Host", page.host), ("Content-Type", JSON)], b"{}")[0] == 401


@pytest.mark.feature("search.typos", "search.time-words")
@pytest.mark.parametrize("query", ["exportt", "export in January 2001", "exportt in {month}"])
def test_the_served_page_is_told_which_days_and_words_were_searched_instead(page, store, query):
    folder, environ = store
    day = max(hit["ts"] for hit in _ctx(environ, folder, "search", "export", "--limit", "20")["hits"] if hit["ts"])
    asked = query.format(month=f"{datetime.fromisoformat(day):%B %Y}")
    told = _ctx(environ, folder, "search", asked)
    answer = _post(page, "/api/search", {"query": asked})[1]

    assert answer["hits"]
    for word, other in told["corrected"].items():
        assert f"nothing holds {word}: {other} was looked for" in answer["searched"]
    assert ("{month}" in query) == answer["searched"].startswith(f"from {day[:7]}-01 to ") == bool(told["days"])
    assert ("2001" in query) == answer["searched"].startswith("nothing in 2001-01-01 to 2001-01-31: all days were searched")


@pytest.mark.feature("dashboard.judge")
def test_a_lesson_is_accepted_and_rejected_by_a_request_with_the_cookie_alone(page, store):
    folder, environ = store
    lesson = _ctx(environ, folder, "memory", "list")["memories"][0]["memory_id"]
    bare = [("Host", page.host), ("Content-Type", JSON)]
    foreign = [*bare, ("Cookie", page.cookie), ("Origin", "http://evil.example")]
    body = {"memory_id": lesson, "verdict": "reject"}
    refused = [page.ask("POST", "/api/lesson", headers, json.dumps(body).encode())[0] for headers in (bare, foreign)]

    assert refused == [401, 403]
    assert _post(page, "/api/lesson", {"memory_id": lesson, "verdict": "accept"}) == (200, {"status": "accepted"})
    assert _post(page, "/api/lesson", {"memory_id": "--help", "verdict": "accept"})[0] == 400
    assert _post(page, "/api/lesson", {"memory_id": lesson, "verdict": "retire"})[0] == 400
    status, answer = _post(page, "/api/lesson", {"memory_id": "mem-none", "verdict": "reject"})
    assert (status, "mem-none" in answer["error"]) == (400, True)
    assert _post(page, "/api/lesson", body) == (200, {"status": "rejected"})
    assert _ctx(environ, folder, "memory", "show", lesson)["status"] == "rejected"


@pytest.mark.feature("dashboard.drawn-in-place")
def test_a_transcript_that_is_not_drawn_yet_is_drawn_when_its_session_is_opened(tmp_path, monkeypatch):
    rows = tables(3, hostile=False)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", rows["sessions"][-1]["bytes"])
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "TZ": "UTC"}
    site = build_site(environ, rows, "rows")
    first, second = stage.undrawn(site)
    from starlette.testclient import TestClient

    answer = TestClient(application(load(environ), site)).get(f"/data/{first}.js")

    assert answer.headers["content-type"] == "text/javascript; charset=x-user-defined"
    assert unpacked_chunk(answer.content)["transcript"]["total"] > 0
    assert stage.undrawn(site) == [second], "the other one waits until somebody opens it"
    assert (site / "data" / f"{first}.js").read_bytes() == answer.content


@pytest.mark.feature("dashboard.moved-store")
def test_the_served_page_of_a_store_that_was_moved_says_which_command_draws_what_it_lacks(tmp_path, monkeypatch):
    rows = tables(3, hostile=False)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", rows["sessions"][-1]["bytes"])
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "TZ": "UTC"}
    site = build_site(environ, rows, "rows")
    here = behind(load(environ), site)
    (tmp_path / "store").rename(tmp_path / "moved")
    moved = load({**environ, "CTX_HOME": str(tmp_path / "moved")})
    from starlette.testclient import TestClient

    told = TestClient(application(moved, moved.home / "site")).get("/api/live").json()["behind"]

    assert here == ""
    assert told == (
        "The store was moved, or made by another version: 2 conversations are not on the page."
        " This draws them: ctx dashboard build --complete"
    )


@pytest.mark.browser
@NEEDED
@pytest.mark.feature("dashboard.live", "dashboard.judge")
def test_a_person_searches_tool_output_and_judges_a_lesson_by_clicking(page, store):
    folder, environ = store
    lessons = _ctx(environ, folder, "memory", "list")["memories"]
    lesson = next(one for one in lessons if one["text"] == "use uv instead of pip in the Dockerfile too")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=SECONDS * 1000)
        tab = browser.new_page()
        trouble: list[str] = []
        tab.on("console", lambda message: trouble.append(message.text))
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.goto(f"http://{page.host}{page.first}")
        tab.wait_for_selector("#session-table tbody tr")
        tab.keyboard.press("/")
        tab.keyboard.type("No module named freezegun")
        tab.wait_for_selector("#found li")
        told = tab.locator("#found").text_content()
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("dialog .here")
        tab.goto(f"http://{page.host}/lessons.html")
        card = tab.locator("#memories li", has_text=lesson["text"])
        card.locator("button", has_text="Reject").click()
        tab.wait_for_function("card => card.querySelector('.status').textContent === 'saving'", arg=card.element_handle())
        tab.wait_for_function("card => card.querySelector('.status').textContent === 'rejected'", arg=card.element_handle())
        browser.close()

    assert "tool result" in told, "the hit is what a tool printed"
    assert _ctx(environ, folder, "memory", "show", lesson["memory_id"])["status"] == "rejected"
    assert trouble == []


def _record(kind: str, n: int, **message) -> str:
    told = {"type": kind, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": SESSION, "cwd": "/home/ada/parser"}
    when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({**told, "timestamp": when, "message": message}) + "\n"


SESSION = "0badc0de-0000-4000-8000-000000000001"


def _turn(n: int, text: str, tokens: int) -> str:
    usage = {"input_tokens": tokens, "output_tokens": 50, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    answer = {
        "id": f"msg_{n}",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Done."}],
        "usage": usage,
    }
    return _record("user", 2 * n, role="user", content=text) + _record("assistant", 2 * n + 1, **answer)


@pytest.mark.browser
@NEEDED
@pytest.mark.feature("dashboard.live")
def test_a_running_session_grows_on_the_page_while_its_agent_writes(tmp_path):
    file = tmp_path / "claude" / "projects" / "-home-ada-parser" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(_turn(0, FIRST, 40_000))
    environ = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "CTX_HOME": str(tmp_path / "store"),
        "TZ": "UTC",
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "CODEX_HOME": str(tmp_path / "codex"),
    }
    _ctx(environ, tmp_path, "sync")
    _ctx(environ, tmp_path, "dashboard", "build")
    from playwright.sync_api import sync_playwright

    with started((tmp_path, environ), "dashboard", "serve", "--watch", "--port", "0") as (process, said), sync_playwright() as playwright:
        address = address_in(said)
        let_in(process, address, name="page", method="GET", path="/index.html", body=None)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=SECONDS * 1000)
        page = browser.new_page()
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(f"{message.text} {message.location['url']}"))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#running li")
        before = page.locator("#running li").text_content()
        page.evaluate("window.opened = 1")
        with file.open("a") as out:
            out.write(_turn(1, "And spaces", 120_000))
        grown = eventually(lambda: "2 turns" in page.locator("#running li").text_content())
        after = page.locator("#running li").text_content()
        reloaded = page.evaluate("window.opened") != 1
        page.wait_for_selector("button.newer:not([hidden])", timeout=SECONDS * 1000)
        page.evaluate(f"location.hash = 'session-{digest('claude', SESSION, size=16)}'")
        page.wait_for_function("() => !window.opened", timeout=SECONDS * 1000)
        page.wait_for_selector("#session .now-here")
        followed = page.locator("#session .now-here").text_content()
        ended = page.locator("#session header .ended")
        ending = ended.text_content(), ended.is_visible()
        with file.open("a") as out:
            out.write(_turn(2, "And tabs", 130_000))
        follows = eventually(lambda: "3 turns" in page.locator("#session .now-here").text_content())
        page.evaluate("window.opened = 2")
        page.locator("#session .now-here button").click(timeout=SECONDS * 2000)
        page.wait_for_function("() => !window.opened && document.querySelector('#session[open]')?.textContent.includes('And tabs')")
        browser.close()

    assert "Running now \u00b7 2 turns, 2 model calls" in followed
    assert ending == (" / completed", False)
    assert follows
    assert FIRST in before
    assert not reloaded
    assert "1 turn, 1 model call, 0 tool calls, $0.12" in before
    assert "40.0k tokens, 20% of the window" in before
    assert grown
    assert "2 turns, 2 model calls, 0 tool calls, $0.48" in after
    assert "120k tokens, 60% of the window" in after
    assert [told for told in trouble if "/data/" not in told] == [], "but for the file that is gone"


@pytest.mark.feature("dashboard.live")
def test_what_makes_the_page_anew_is_begun_again_where_it_was_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setattr(page_server, "AGAIN_SECONDS", 0.1)
    refresher = page_server.Refresher()
    first = refresher._process
    first.kill()
    begun = eventually(lambda: refresher._process is not first)
    second = refresher._process
    refresher.stop()

    assert begun
    assert processes.gone(first.pid)
    assert processes.gone(second.pid)
