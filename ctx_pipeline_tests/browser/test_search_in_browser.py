"""The search box of a page that was opened from disk: the same hits in the same order as ``ctx search``."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline.render import render
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.search import search
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.bench.bench_search import FIRST_SETS, table, turn_questions
from ctx_pipeline_tests.browser.conftest import NEEDED, watched
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use, usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from playwright.sync_api import Page

    from ctx_pipeline.settings import Settings

pytestmark = [pytest.mark.browser, NEEDED]

TOPICS = (
    (
        "Why does the upload fail with EACCES?",
        "grep -rn uploadDir src/storage",
        "src/storage/local_disk.py:41: PermissionError EACCES uploadDir",
    ),
    ("Notarize the macOS build", "xcrun notarytool submit dist/app.dmg", "Notarization of app.dmg was rejected: unsigned binaries"),
    ("Größe der Spalte ändern, bitte", 'rg -n "spalten_groesse"\nls tabelle.css', "tabelle.css:3: .spalten_groesse { width: 40ch }"),
    ("支付页面的按钮没有反应", "npm test -- checkout.test.ts", "TypeError: Cannot read properties of undefined (reading 'submit')"),
    ("the nightly import skips the last file", "pytest -q tests/test_import_jobs.py", "FAILED tests/test_import_jobs.py::test_last_file"),
    ("rename customer_id to account_id everywhere", "sd customer_id account_id", "models/customer.py:7: account_id = Column(Integer)"),
)
QUESTIONS = (
    *(topic[0] for topic in TOPICS),
    *(
        "upload",
        "EACCES",
        "uploadDir",
        "local_disk.py",
        "PermissionError EACCES uploadDir",
        "notarized builds",
        "rejected unsigned binaries",
    ),
    *(
        "grosse spalte",
        "spalten_groesse",
        "按钮",
        "支付 页面",
        "checkout.test.ts",
        "reading submit",
        "why is it undefined",
        "nightly imports",
    ),
    *(
        "last file of the import",
        "test_last_file",
        "account_id",
        "customer account",
        "where did we rename",
        "the",
        "app dmg",
        "Integer column",
    ),
    *("why were the permissions of uploads refused by the disk", "publishing a mac build after binaries were denied"),
    *("fail", "notarytool submit", "skips", "the test of the upload", "permission", "css width", "everything that failed in tests"),
)


def _made(folder: Path) -> Settings:
    """Make a home of twelve sessions, two of a topic, and put them through the pipeline."""
    home = ClaudeHome(folder / "claude")
    for number in range(12):
        question, command, output = TOPICS[number % len(TOPICS)]
        session = home.session(f"{number:08d}-2222-4222-8222-222222222222")
        session.prompt(f"{question} ({number})" if number >= len(TOPICS) else question)
        for step_number in range(1 + number % 3):
            session.answer(
                tool_use(f"toolu_{number}_{step_number}", "Bash", command=f"{command} --pass {step_number}"),
                model="claude-opus-4-5-20251101",
            )
            session.result(f"toolu_{number}_{step_number}", f"{output}\nline {step_number} of the output")
        session.answer(text(f"Done with the {command.split()[0]} of number {number}: {question.lower()}"), usages=[usage(9_000, 40)])
        session.save()
    environ = {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "claude"), "CODEX_HOME": str(folder / "none")}
    return _published(folder, environ)


def _published(folder: Path, environ: dict[str, str]) -> Settings:
    chosen = settings_of.load({"HOME": str(folder), "CTX_HOME": str(folder / "store"), "TZ": "UTC", **environ})
    with open_store(chosen) as store:
        step("ingest", store, chosen)
        step("facts", store, chosen)
        render(store, chosen)
    return chosen


def _from_disk(page: Page, questions: Sequence[str]) -> list[list[str]]:
    """Return the links of the first ten hits for each question."""
    return page.evaluate(
        """async (questions) => {
            const [box, panel] = [document.getElementById("find"), document.getElementById("found")];
            const links = [];
            for (const question of questions) {
                box.value = question;
                box.form.requestSubmit();
                while (!panel.querySelector("li, .empty")) await new Promise((done) => setTimeout(done, 5));
                links.push([...panel.querySelectorAll("li a")].slice(0, 10).map((a) => a.getAttribute("href")));
            }
            return links;
        }""",
        list(questions),
    )


def _of_the_command(questions: Sequence[str], chosen: Settings) -> list[list[str]]:
    return [
        [f"#session-{digest(hit.host, hit.session_id, size=16)}.e0-{zlib.crc32(hit.event_id.encode())}" for hit in found.hits]
        for found in (search(question, limit=10, settings=chosen) for question in questions)
    ]


@pytest.fixture
def opened(browser) -> Iterator[Page]:
    with watched(browser, viewport={"width": 1400, "height": 900}) as (page, trouble):
        yield page
    assert trouble == []


@pytest.mark.feature("dashboard.search-ranking")
def test_the_box_finds_from_disk_what_ctx_search_finds_in_the_same_order(opened, tmp_path):
    chosen = _made(tmp_path)
    opened.goto(f"{(chosen.home / 'site').as_uri()}/index.html")
    opened.wait_for_selector("#session-table tbody tr")
    wanted = _of_the_command(QUESTIONS, chosen)
    found = _from_disk(opened, QUESTIONS)

    assert sum(map(len, wanted)) > 200
    assert dict(zip(QUESTIONS, found, strict=True)) == dict(zip(QUESTIONS, wanted, strict=True))
    assert opened.locator("#found .note").count() == 0, "everything was searched"
    _from_disk(opened, ["spalten_groesse"])
    snippets = [told for told in opened.locator("#found li p").all_text_contents() if "rg -n" in told]
    assert snippets
    assert all('rg -n "spalten_groesse" ls tabelle.css --pass' in told for told in snippets)


@corpus
@pytest.mark.feature("dashboard.search-ranking")
def test_questions_about_published_sessions_have_the_same_ten_hits_from_disk(opened, tmp_path):
    chosen = _published(tmp_path, {"CLAUDE_CONFIG_DIR": str(CORPUS / "claude"), "CODEX_HOME": str(CORPUS / "codex")})
    questions = [one.text for one in (*table(FIRST_SETS), *turn_questions())]
    opened.goto(f"{(chosen.home / 'site').as_uri()}/index.html")
    opened.wait_for_selector("#session-table tbody tr")
    pairs = list(zip(_from_disk(opened, questions), _of_the_command(questions, chosen), strict=True))

    # of two events at one moment that differ behind the part that is searched the page shows one; hits that score alike
    # to a thousandth change places where the browser and SQLite count the words of a text differently
    assert sum(found == wanted for found, wanted in pairs) >= len(pairs) - 8
    assert min(len(set(found).intersection(wanted)) for found, wanted in pairs) >= 9
    assert all(found[:1] == wanted[:1] for found, wanted in pairs)
