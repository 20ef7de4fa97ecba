"""What drawing a new page costs, and how soon a browser shows its first view: over a home, and over 5,000 short sessions."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.pipeline.render import render, site_index
from ctx_pipeline.settings import load
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.bench.bench_run import CTX, _timed
from ctx_pipeline_tests.bench.rows import Row, floor, many
from ctx_pipeline_tests.factories.history import build_site, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSIONS = 5_000


def page_rows(home: Path) -> list[Row]:
    """Return the seconds and the processor seconds of a first page over a home, and of its first view."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **os.environ,
            "CTX_HOME": str(Path(folder) / "store"),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CODEX_HOME": str(home / ".codex"),
            "TZ": "UTC",
        }
        _timed((*CTX, "run", "--json"), environ)
        megabytes = floor(home).megabytes
        drawn = _drawn(environ, "over a home", megabytes)
        return [*drawn, *_viewed(Path(environ["CTX_HOME"]) / "site" / "index.html", "over a home")]


def short_session_rows() -> list[Row]:
    """Return the same for 5,000 short sessions, which are made as rows."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {"HOME": folder, "CTX_HOME": str(Path(folder) / "store"), "TZ": "UTC"}
        site = build_site(environ, tables(many(SESSIONS, 6), start="2018-01-01 08:00"), "rows")
        words = f"{SESSIONS:,} short sessions"
        return [*_drawn(environ, words), *_viewed(site / "index.html", words)]


def _drawn(environ: Mapping[str, str], words: str, megabytes: float | None = None) -> list[Row]:
    settings = load(environ)
    with open_store(settings) as store:
        shutil.rmtree(site_index(store).parent)
        before, began = os.times(), time.perf_counter()
        render(store, settings, force=True, refresh=False)
        seconds, after = time.perf_counter() - began, os.times()
    used = after.user + after.system - before.user - before.system
    return [
        Row(f"page: drawn anew, {words}", seconds, megabytes=megabytes),
        Row(f"page: drawn anew, {words}, processor", used, megabytes=megabytes),
    ]


def _viewed(index: Path, words: str) -> list[Row]:
    """Return the seconds until a browser has drawn the first sessions, the median of five; nothing without a browser."""
    browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    if browser is None:
        return []
    from playwright.sync_api import sync_playwright

    taken = []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(many(5) + 1):
            page = started.new_page(viewport={"width": 1400, "height": 900})
            began = time.perf_counter()
            page.goto(index.as_uri())
            page.wait_for_selector("#session-table tbody tr")
            taken.append(time.perf_counter() - began)
            page.close()
        started.close()
    return [Row(f"page: first view, {words}", statistics.median(taken[1:]))]
