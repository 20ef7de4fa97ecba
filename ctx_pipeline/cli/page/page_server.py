"""The page on loopback: its files, and for a person who holds the token the search index, the running sessions and two buttons."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ctx_pipeline.dashboard.page import ASSETS, POLICY
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.usage_rules import cost_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.staticfiles import StaticFiles
    from starlette.types import Scope

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

POST_ONLY = ("/api/search", "/api/lesson")
"""Addresses that are asked by POST."""

RUNNING_SECONDS = 15 * 60
"""A session whose last record is no older runs now."""
AGAIN_SECONDS = 5.0
"""After so long the process that makes the page anew is begun again where it has ended."""
_MOST = 5
"""Running sessions that are shown."""
_VERBS = {"accept": "accept", "reject": "reject"}
_CHUNK = re.compile(r"[0-9a-f]{24}")
_MEMORY = re.compile(r"[A-Za-z0-9_][\w-]{0,79}")


def application(settings: Settings, site: Path) -> Starlette:
    """Return the application that serves a page's folder and answers for its scripts."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.responses import Response as Plain
    from starlette.routing import Route

    def page(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            text = (site / f"{name}.html").read_text("utf-8")
        except OSError:
            return Plain(status_code=404)
        from markupsafe import escape

        asks = POLICY.replace("; base-uri", "; connect-src 'self'; base-uri")
        text = text.replace(str(escape(POLICY)), str(escape(asks)), 1)
        return HTMLResponse(text.replace("</head>", '<script src="served.js" defer></script>\n</head>', 1))

    def script(_: Request) -> Response:
        return Plain((ASSETS / "served.script").read_bytes(), media_type="text/javascript")

    def live(_: Request) -> Response:
        return JSONResponse({"page": _made(site), "running": running(settings), "behind": behind(settings, site)})

    def search(body: Mapping[str, Any]) -> dict[str, Any]:
        from ctx_pipeline.search import Filters
        from ctx_pipeline.search import search as ask

        since, until = (str(body.get(name) or "")[:10] or None for name in ("since", "until"))
        found = ask(str(body.get("query", ""))[:2_000], filters=Filters(since=since, until=until), limit=20, settings=settings)
        return {"hits": [_hit(hit) for hit in found.hits], "searched": found.searched()}

    def lesson(body: Mapping[str, Any]) -> dict[str, Any]:
        verb, memory_id = _VERBS.get(str(body.get("verdict"))), str(body.get("memory_id", ""))
        if verb is None or not _MEMORY.fullmatch(memory_id):
            return {"error": "no such lesson or verdict"}
        done = command("memory", verb, memory_id, "--json")
        if done.returncode:
            return {"error": done.stderr.strip().removeprefix("ctx: ")[:400]}
        return {"status": json.loads(done.stdout).get("status", verb)}

    def posted(answer: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            try:
                body = await request.json()
                found = await run_in_threadpool(answer, body if isinstance(body, dict) else {})
            except (CtxError, ValueError) as error:
                found = {"error": str(error)}
            return JSONResponse(found, status_code=400 if "error" in found else 200)

        return endpoint

    drawing = threading.Lock()

    def drawn(name: str) -> None:
        """Draw a session's transcript where the page has none yet."""
        from ctx_pipeline.pipeline.render import draw, undrawn
        from ctx_pipeline.storage import open_store

        if name in undrawn(site):
            with drawing, suppress(CtxError), open_store(settings) as store:
                deque(draw(store, settings, name), maxlen=0)

    async def chunk(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        name = request.path_params["name"]
        if _CHUNK.fullmatch(name):
            await run_in_threadpool(drawn, name)
        return await files.get_response(f"data/{name}.js", request.scope)

    files = _files_of(site)
    routes = [
        Route("/data/{name:str}.js", chunk),
        Route("/{name:str}.html", page),
        Route("/served.js", script),
        Route("/api/live", live),
        Route("/api/search", posted(search), methods=["POST"]),
        Route("/api/lesson", posted(lesson), methods=["POST"]),
        Route("/{path:path}", files),
    ]
    return Starlette(routes=routes)


def _files_of(site: Path) -> StaticFiles:
    """Return what serves the folder of a page: a character set in an answer overrides the one that the page asks for."""
    from starlette.staticfiles import StaticFiles

    class PageFiles(StaticFiles):
        async def get_response(self, path: str, scope: Scope) -> Response:
            found = await super().get_response(path, scope)
            if path.startswith(("data/", "words/")) and path != "data/sessions.js":
                found.headers["content-type"] = "text/javascript; charset=x-user-defined"
            return found

    return PageFiles(directory=site)


def behind(settings: Settings, site: Path) -> str:
    """Return what is said of a page whose missing transcripts cannot be drawn from the tables as they are; empty where they can."""
    from ctx_pipeline.pipeline.render import undrawn
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse import database

    if waiting := len(undrawn(site)):
        with suppress(CtxError), reading(settings) as (store, _):
            if not database.is_current(store.warehouse_path):
                missing = f"{waiting:,} conversation{'s are' if waiting > 1 else ' is'} not on the page"
                return f"The store was moved, or made by another version: {missing}. This draws them: ctx dashboard build --complete"
    return ""


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this program over the same store and return how it ended."""
    asked = [sys.executable, "-P", "-m", "ctx_pipeline", *words]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603 - words of this module, and ids that it checked


def running(settings: Settings, now: float | None = None) -> list[dict[str, Any]]:
    """Return the sessions whose last record is recent, newest first: turns, calls, dollars, tokens in the window and its size.

    ``now`` is in seconds since 1970. What was captured counts: a sync brings it up to date.
    """
    from ctx_pipeline.storage.reader import reading

    moment = time.time() if now is None else now
    since = int((moment - RUNNING_SECONDS) * 1_000_000)
    with suppress(CtxError), reading(settings) as (store, _):
        recent = {(s.host, s.session_id) for s in store.ledger.sources().values() if s.session_id and s.mtime_ns >= since * 1_000}
        rows = [row for key in recent if (row := store.ledger.session(*key)) is not None]
        found = [told for row in rows if (told := _running(store, row, settings)) and told["last"] >= since // 1_000]
        return sorted(found, key=lambda told: -told["last"])[:_MOST]
    return []


def _running(store: Store, row: Any, settings: Settings) -> dict[str, Any] | None:
    from ctx_pipeline.facts.turns import turn_rows
    from ctx_pipeline.facts.windows import peak

    views = list(store.lake.read_sessions(row.partition, [row.session_id], ("events", "model_calls", "threads", "tool_calls")))
    if not views or views[0].session.last_ts is None:
        return None
    view = views[0]
    owned = [call for call in view.model_calls if call.owner]
    main = [call for call in view.model_calls if call.thread_id == row.session_id and call.context_tokens]
    last = max(main, key=lambda call: (call.ts or 0, call.start), default=None)
    fullest = peak(view, row.session_id)
    costs = [cost_of(settings.cost_mode, call.recorded_cost, call.cost) for call in owned]
    newest = max((e for e in view.events if e.kind in {"prompt", "answer", "tool_call", "error"}), key=lambda e: e.ts or 0, default=None)
    return {
        "key": digest(row.host, row.session_id, size=16),
        "title": view.session.title or row.session_id,
        "project": view.session.project,
        "last": view.session.last_ts // 1_000,
        "turns": len([turn for turn in turn_rows(view) if turn.thread_id == row.session_id]),
        "calls": len(owned),
        "tools": len(view.tool_calls),
        "cost": sum(cost for cost in costs if cost is not None) / 1e9,
        "context": last.context_tokens if last else 0,
        "window": fullest.window.tokens if fullest else None,
        "now": f"{newest.kind.replace('_', ' ')}: {' '.join((newest.text or '').split())[:160]}" if newest else "",
    }


class Refresher:
    """A process that captures what agents write and makes the page anew, for as long as this one serves it."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._one = threading.Lock()
        self._process = self._begun()
        threading.Thread(target=self._keep, daemon=True, name="page-refresher").start()

    @staticmethod
    def _begun() -> subprocess.Popen[bytes]:
        asked = [sys.executable, "-P", "-m", "ctx_pipeline", "run", "--watch", "--parent", str(os.getpid())]
        return subprocess.Popen(asked, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - words of this module

    def _keep(self) -> None:
        """Begin it again where it has ended by itself."""
        while not self._ended.wait(AGAIN_SECONDS):
            with self._one:
                if self._process.poll() is not None and not self._ended.is_set():
                    self._process = self._begun()

    def stop(self) -> None:
        """End it."""
        with self._one:
            self._ended.set()
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _made(site: Path) -> str:
    with suppress(OSError, ValueError, KeyError):
        return str(json.loads((site / "made.json").read_bytes())["content_hash"])
    return ""


def _hit(hit: Any) -> dict[str, Any]:
    return {
        "key": digest(hit.host, hit.session_id, size=16),
        "title": hit.title,
        "kind": " ".join(filter(None, (hit.kind.replace("_", " "), hit.tool))),
        "mark": crc32(hit.event_id.encode()),
        "at": _milliseconds(hit.ts),
        "snippet": hit.snippet,
        "marks": hit.marks,
    }


def _milliseconds(iso: str | None) -> int | None:
    from datetime import datetime

    return int(datetime.fromisoformat(iso).timestamp() * 1_000) if iso else None
