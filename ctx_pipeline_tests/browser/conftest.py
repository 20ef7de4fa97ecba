"""The page of a made history, opened from disk in the system's Chromium."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests.factories.history import HOSTILE, build_site, tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)

PAGES = ("Findings", "History", "Accounting", "Signals", "Trajectories", "Lessons", "Missing records")
"""Pages beside the first one."""

SECONDS = 120
"""How long a busy machine may take over one step."""

NEEDED = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium on this machine")
"""A developer's machine may have no Chromium; CI has one."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    environ = {"HOME": str(folder), "CTX_HOME": str(folder / "store"), "TZ": "Europe/Berlin"}
    return build_site(environ, tables(60), "rows")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium, for one file at a time: while it is driven, an event loop runs in this thread, and tests of others start their own."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI needs a Chromium for these tests"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=SECONDS * 1000)
        yield started
        started.close()


@contextmanager
def watched(browser, **options: object) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what it should not do: words on the console and errors."""
    context = browser.new_context(**options)
    context.set_default_timeout(SECONDS * 1000)
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    yield page, trouble
    context.close()


@pytest.fixture
def opened(browser, site) -> Iterator[tuple[Page, list[str]]]:
    """The page, and what it should not do: words on the console, errors, requests to anywhere but its folder."""
    with watched(browser, viewport={"width": 1440, "height": 900}, color_scheme="light") as (page, trouble):
        page.on("request", lambda request: None if request.url.startswith(site.as_uri()) else trouble.append(request.url))
        page.goto(f"{site.as_uri()}/index.html")
        page.wait_for_selector("#session-table tbody tr")
        yield page, trouble


@pytest.fixture
def page(opened) -> Iterator[Page]:
    """The opened page; whatever it should not do fails the test."""
    page, trouble = opened
    yield page
    assert page.title() in {f"ctx_pipeline: {name}{60 + len(HOSTILE)} sessions" for name in ("", *(f"{title}, " for title in PAGES))}
    assert trouble == []
