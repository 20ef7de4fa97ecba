"""Panels with data of their own, as they are used: chosen, filtered, sorted, opened, followed to the events behind them."""

from __future__ import annotations

import itertools
import json
import re
from statistics import median
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests.browser.conftest import NEEDED, SECONDS, watched
from ctx_pipeline_tests.factories.history import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, NEEDED]

ORDINARY = range(60)
ALL = [*ORDINARY, *(3 * (60 + n) for n in range(len(HOSTILE)))]
"""numbers of the made sessions, by which their figures are worked out"""
HOSTS = ([i for i in ALL if i % 3 != 1], [i for i in ALL if i % 3 == 1])
"""numbers of the sessions of Claude Code and of Codex"""


def _panel(page: Page, name: str) -> Locator:
    """Go to the page of a panel and wait until it is drawn."""
    there = page.locator(f"header nav a[data-panels~='{name}']")
    if there.get_attribute("aria-current") is None:
        there.click()
        page.wait_for_selector(f"#{name}")
    page.locator(f"#{name}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{name} .live.drawn")
    return page.locator(f"#{name}")


def _cells(rows: Locator, place: int) -> list[str]:
    return rows.locator(f"td:nth-child({place})").all_text_contents()


@pytest.mark.feature("dashboard.signals-panel", "dashboard.first-signals")
def test_signals_stand_by_group_and_say_in_colour_whether_they_got_worse(page):
    signals = _panel(page, "signals")
    tabs = signals.locator(".choices button").all_text_contents()
    first = signals.locator(".card .name").all_text_contents()
    begun = signals.locator(".choices button[aria-pressed=true]").text_content()
    signals.locator(".choices button", has_text="Outcome").click()
    names = signals.locator(".card .name").all_text_contents()
    signals.locator(".choices button", has_text="All").click()
    colours = "cards => cards.map((card) => [card.className, getComputedStyle(card.querySelector('.way span')).color])"
    shown = {name: colour for name, colour in signals.locator(".card").evaluate_all(colours) if name != "card plain"}
    marks = signals.locator(".legend li").evaluate_all("all => all.map((one) => getComputedStyle(one, '::before').display)")

    assert "none" not in marks, "each meaning of the legend has its color beside it"
    assert begun.startswith("First")
    assert first[0] == "user correction count"
    assert [tab.rstrip("0123456789") for tab in tabs] == ["First", "Changed", "Outcome", "Cost", "Behavior", "All"]
    assert names == ["failed command ratio", "session grade"]
    assert signals.locator(".card").count() == 5
    assert "card worse" in shown
    moved = [way for way in signals.locator(".card.worse .way, .card.better .way").all_text_contents() if way]
    assert all(re.search(r"(worse|better): .+ \u2192 .+ in \d{4}-\d\d", way) for way in moved)
    assert shown.items() <= {"card worse": "rgb(168, 51, 31)", "card better": "rgb(59, 116, 31)"}.items()


@pytest.mark.feature("dashboard.first-signals")
def test_signals_of_which_none_comes_first_and_none_changed_open_with_the_first_group_that_has_one(browser, site):
    told = (site / "panels" / "signals.js").read_text("utf-8")
    records = json.loads(told[told.index(",") + 1 : told.rindex(")")])
    records["signals"] = [one | {"trend": None} for one in records["signals"] if one["first"] is None]
    with watched(browser, viewport={"width": 1440, "height": 900}) as (page, trouble):
        page.route("**/panels/signals.js", lambda route: route.fulfill(body=f'ctx.receive("panel-signals",{json.dumps(records)});'))
        page.goto(f"{site.as_uri()}/index.html")
        signals = _panel(page, "signals")
        begun = signals.locator(".choices button[aria-pressed=true]").text_content()
        cards = signals.locator(".card").count()

    assert begun == "Outcome2"
    assert cards == 2
    assert trouble == []


@pytest.mark.feature("dashboard.signals-panel", "dashboard.evidence-links")
def test_a_signal_opens_with_its_reading_and_leads_to_the_events_of_a_session(page):
    signals = _panel(page, "signals")
    signals.locator("input[type=search]").fill("failed command ratio")
    card = signals.locator(".card")
    assert card.count() == 1
    ratio = {i: (i % 5) / (4 + i % 9) for i in ALL}
    values = sorted(ratio.values())
    assert card.locator(".agents > span > b").all_text_contents() == [f"{int(100 * median(ratio[i] for i in of) + 0.5)}%" for of in HOSTS]
    assert card.locator(".agents > span > .of").all_text_contents() == [f"Claude Code, {len(HOSTS[0])}", f"Codex, {len(HOSTS[1])}"]
    card.click()
    opened = signals.locator(".opened")
    assert "Lower is better." in opened.text_content()
    assert opened.locator(".histogram rect").count() >= 2
    assert opened.locator(".tops b").all_text_contents() == [f"{100 * value:.0f}%" for value in values[:-6:-1]]
    opened.locator(".tops a").first.click()
    page.wait_for_selector("dialog[open] .evidence")

    assert "failed command ratio" in page.locator("dialog .evidence").text_content()
    page.wait_for_selector("dialog .timeline li.marked")
    assert page.locator("dialog .timeline li.marked.failed").count() == 4
    assert page.locator("dialog .timeline li.marked .result.failed").count() == 1, "the first one is opened"


@pytest.mark.feature("dashboard.accounting")
def test_accounts_add_up_by_model_and_follow_the_chosen_days(page):
    whole = page.locator(".lede h1").text_content().rpartition(", ")[2]
    accounts = _panel(page, "accounting")
    assert accounts.locator(".figures dd").first.text_content() == whole
    accounts.locator(".choices button", has_text="Model").click()
    rows = accounts.locator(".grid tbody tr")
    calls = dict(zip(_cells(rows, 1), _cells(rows, 2), strict=True))
    opus = sum(3 + i % 5 for i in ORDINARY if i % 3 != 1 and i % 4 == 0)
    codex = sum(3 + i % 5 for i in ORDINARY if i % 3 == 1)
    accounts.locator(".filters select").first.select_option("own")
    accounts.locator("input[aria-label=From]").fill("2026-09-20")
    accounts.locator("input[aria-label=To]").fill("2026-09-20")
    page.wait_for_function("() => document.querySelector('#accounting .figures dd').textContent === '$0.09'")

    assert (calls["claude-opus-4-5"], calls["gpt-5.1-codex"]) == (str(opus), str(codex))
    assert _cells(accounts.locator(".grid tbody tr"), 1) == ["claude-opus-4-5"]
    assert accounts.locator(".charts svg.plot").count() == 2


_LABELS = """axes => axes.map((axis) => {
  const columns = [...axis.previousElementSibling.querySelectorAll(".plot g")];
  const seen = [...axis.querySelectorAll("text")].filter((text) => getComputedStyle(text).display !== "none");
  return seen.map((text) => {
    const own = columns.find((column) => column.textContent.includes(text.textContent)).querySelector(".hover").getBoundingClientRect();
    const box = text.getBoundingClientRect();
    return [box.left, box.right, own.left, own.right];
  });
})"""
"""Where each shown label of each chart stands, and where its column does."""


@pytest.mark.feature("dashboard.accounting", "dashboard.activity-by-day")
@pytest.mark.parametrize("width", [1400, 400])
def test_labels_of_a_chart_stand_below_their_columns_and_apart(browser, site, width):
    with watched(browser, viewport={"width": width, "height": 900}) as (page, trouble):
        for name, charts in (("index", 2), ("history", 1), ("accounting", 2)):
            page.goto(f"{site.as_uri()}/{name}.html")
            page.wait_for_selector("svg.axis text", state="attached")
            axes = page.locator("svg.axis").evaluate_all(_LABELS)
            assert len(axes) >= charts
            for labels in axes:
                assert len(labels) > 1
                assert all(left < column_right and right > column_left for left, right, column_left, column_right in labels)
                assert all(abs(sum(label[:2]) - sum(label[2:])) < 4 for label in labels[1:]), "in the middle, but for the first one"
                assert all(one[1] < after[0] for one, after in itertools.pairwise(labels)), "none runs into the next one"
                assert labels[0][0] >= 0
                assert labels[-1][1] <= width
        assert trouble == []


@pytest.mark.feature("dashboard.accounting", "dashboard.sort-and-pages")
def test_the_table_of_accounts_is_sorted_by_every_column_and_turns_its_pages(page):
    accounts = _panel(page, "accounting")
    rows = accounts.locator(".grid tbody tr")
    newest = _cells(rows, 1)
    accounts.locator("th button", has_text="Calls").click()
    falling = [int(text) for text in _cells(rows, 2)]
    accounts.locator("th button", has_text="Calls").click()
    rising = [int(text) for text in _cells(rows, 2)]
    accounts.locator(".grid .pages button", has_text="Next").click()

    assert len(newest) == 14
    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(rising)
    assert falling[0] > rising[0]
    assert accounts.locator(".grid .pages p").text_content().startswith("15 to 28 of ")


@pytest.mark.feature("dashboard.memories-browser")
def test_memories_are_searched_and_filtered_by_status_kind_method_scope_and_risk(page):
    memories = _panel(page, "memories")
    listed = memories.locator("ul.memories > li")
    assert listed.count() == 5
    assert memories.locator(".pages p").text_content() == "5 of 5 lessons, 1 of them superseded by another."
    for name, value, count in (
        ("Status", "needs_review", 1),
        ("Kind", "failure_trigger", 2),
        ("Method", "authored", 1),
        ("Risk", "high", 1),
        ("Scope", "repo", 5),
    ):
        memories.locator(f"select[aria-label={name}]").select_option(value)
        assert (name, listed.count()) == (name, count)
        memories.locator(f"select[aria-label={name}]").select_option("")
    memories.locator("input[type=search]").fill("owned")
    page.wait_for_function("() => document.querySelectorAll('#memories ul.memories > li').length === 1")
    assert listed.locator(".text").text_content() == HOSTILE[1]
    memories.locator("input[type=search]").fill("no such lesson")
    page.wait_for_function("() => document.querySelectorAll('#memories ul.memories > li').length === 0")

    assert "No lesson fits" in memories.locator(".pages p").text_content()


@pytest.mark.feature("dashboard.evidence-links", "dashboard.memories-browser")
def test_a_memory_leads_to_the_events_it_came_from(page):
    memories = _panel(page, "memories")
    first = memories.locator("ul.memories > li").first
    first.locator("summary").click()
    assert first.locator("summary").text_content() == "Evidence: 2 events in 1 session"
    first.locator(".tops a").click()
    page.wait_for_selector("dialog .timeline li.marked .asked")
    marked = page.locator("dialog .timeline li.marked")

    assert marked.count() == 1
    assert marked.locator(".asked, pre").first.text_content() == "uv run pytest -x -q tests/test_checkout.py"
    assert page.locator("#tab-0").get_attribute("aria-selected") == "true"
    assert page.url.endswith(".mem-000000000000")


@pytest.mark.feature("dashboard.transcript")
def test_a_transcript_shows_each_result_in_its_call_and_only_what_is_chosen(page):
    page.fill("#search", "000000000004")
    page.wait_for_function("() => document.getElementById('shown').textContent === '1 to 1 of 1 session'")
    page.locator("#session-table tbody a").click()
    page.wait_for_selector("dialog .timeline:not(.waiting)")
    lines = page.locator(".timeline > li:not(.turn)")
    assert lines.count() == 4 + 8
    calls = page.locator(".timeline > li.tool_call")
    assert page.locator(".timeline .result").count() == 0, "a result is one click away"
    for number in range(calls.count()):
        calls.nth(number).locator("summary").first.click()
    page.wait_for_function("() => document.querySelectorAll('.timeline > li.tool_call .result').length === 8")
    assert calls.first.locator("summary b").first.text_content() == "Bash"
    assert page.locator(".timeline .result.failed").count() == 4
    assert "assert Decimal('0.10')" in page.locator(".timeline .result.failed").first.text_content()
    visible = "lines => lines.filter((line) => line.offsetParent).length"
    counts = {}
    for name in ("Conversation", "Tools", "Failures", "Session"):
        page.locator("dialog .choices button", has_text=name).click()
        counts[name] = lines.evaluate_all(visible)

    assert counts == {"Conversation": 4, "Tools": 8, "Failures": 4, "Session": 12}


@pytest.mark.feature("dashboard.models-tab")
def test_the_models_of_a_session_stand_with_their_cache_and_cost(page):
    page.fill("#search", "000000000008")
    page.wait_for_function("() => document.getElementById('shown').textContent === '1 to 1 of 1 session'")
    page.locator("#session-table tbody a").click()
    page.wait_for_selector("dialog[open] [role=tab]")
    page.locator("#tab-3").click()
    row = page.locator("#session-tab tbody td").all_text_contents()

    prompt, read = 6 * (900 + 88 + 9_000), 6 * 41_000 + 1_000 * 8 * (0 + 1 + 2 + 3 + 4 + 5)
    assert row == [
        *("claude-opus-4-5", "6", "5.93k", "54.0k", "0", "366k", f"{100 * read / (prompt + read):.0f}%", "2.96k"),
        *(f"${6 * 0.031 + 0.004 * 8 * 21:.2f}", "100%"),
    ]


@pytest.mark.feature("dashboard.heatmap")
def test_every_active_day_is_a_coloured_square_of_the_year(page):
    year = _panel(page, "year")
    squares = "rects => rects.map((rect) => [rect.getAttribute('class'), rect.querySelector('title').textContent])"
    found = year.locator("rect").evaluate_all(squares)
    coloured = {words.partition(":")[0]: name for name, words in found if name != "y0"}

    assert 52 * 7 < len(found) <= 53 * 7
    assert [words for _, words in found if re.fullmatch(r"Sun, 20 Sept? 2026: 3 calls, 154k tokens, \$0\.09", words)]
    assert set(coloured.values()) <= {"y1", "y2", "y3", "y4"}
    page.locator("header nav a", has_text="History").click()
    assert len(coloured) == int(page.locator("#numbers dt", has_text="Active days").locator("xpath=../dd[1]").text_content())


@pytest.mark.feature("dashboard.scores-page")
def test_trajectories_of_all_sessions_have_a_summary_and_are_sorted(page):
    scores = _panel(page, "scores")
    steps = sorted(4 + i % 9 for i in ALL)
    medians = [row.locator("td").all_text_contents()[:2] for row in scores.locator("tr.summary").all()]
    shown = [int(text) for text in _cells(scores.locator("tbody tr"), 2)[2:]]
    scores.locator(".choices button", has_text="Validation").click()

    assert medians == [
        [f"Median of {len(of)} {title} sessions", f"{median(4 + i % 9 for i in of):g}"]
        for title, of in zip(("Claude Code", "Codex"), HOSTS, strict=True)
    ]
    assert shown == steps[:-13:-1]
    assert set(_cells(scores.locator("tbody tr"), 2)[2:]) <= {"yes", "no"}


@pytest.mark.feature("dashboard.scores-page", "dashboard.responsive")
def test_every_trajectory_figure_is_reached_on_a_telephone_beside_its_session(page):
    page.set_viewport_size({"width": 390, "height": 844})
    scores = _panel(page, "scores")
    heads = scores.locator("thead th")
    scores.locator(".scroll").evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    last, name = heads.last.bounding_box(), scores.locator("tbody tr").last.locator("td").first.bounding_box()

    assert heads.evaluate_all("all => all.every((one) => getComputedStyle(one).display !== 'none')")
    assert last["x"] + last["width"] <= 390
    assert 0 <= name["x"] < name["x"] + name["width"] <= last["x"]


@pytest.mark.feature("dashboard.operator-panel")
def test_prompts_are_drawn_by_weekday_and_hour(page):
    lines = _panel(page, "user_input")
    words = lines.locator("circle title").all_text_contents()

    assert len(words) == 7 * 24
    assert sum(int(text.rpartition(": ")[2].partition(" ")[0]) for text in words) == 2 * len(ALL) + len(HOSTILE) - 7
    assert "Corrections" in lines.text_content()


@pytest.mark.feature("dashboard.text-escaped")
def test_hostile_text_is_words_in_every_panel(page):
    for name in ("accounting", "signals", "scores", "memories"):
        _panel(page, name)
    _panel(page, "accounting")
    projects = page.locator("#accounting select[aria-label=Project] option").all_text_contents()
    page.locator("#accounting .choices button", has_text="Model").click()

    assert set(HOSTILE) - {HOSTILE[4]} <= set(projects)
    assert page.locator("body img, body script, body svg[onload]").count() == 0


@pytest.mark.feature("dashboard.responsive")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_panel_fits_a_telephone(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("year", "accounting", "signals", "scores", "memories", "user_input"):
        _panel(page, name)
        assert (name, page.evaluate("document.documentElement.scrollWidth")) == (name, 390)


@pytest.mark.feature("dashboard.responsive")
def test_the_open_part_of_the_page_stands_in_view_in_the_strip_of_a_telephone(browser, site):
    with watched(browser, viewport={"width": 390, "height": 844}) as (page, trouble):
        for name in ("index", "trajectories", "missing-records"):
            page.goto(f"{site.as_uri()}/{name}.html")
            here = page.locator("nav a[aria-current]").bounding_box()
            assert 0 <= here["x"] <= here["x"] + here["width"] <= 390 - 28, name
            assert page.evaluate("scrollY") == 0
    assert trouble == []


@pytest.mark.feature("dashboard.keyboard")
def test_a_signal_is_opened_and_closed_from_the_keyboard(page):
    signals = _panel(page, "signals")
    signals.locator(".choices button", has_text="All").focus()
    page.keyboard.press("Enter")
    signals.locator(".card").first.focus()
    page.keyboard.press("Enter")
    assert signals.locator(".opened").count() == 1
    page.keyboard.press("Space")

    assert signals.locator(".opened").count() == 0


def test_panels_in_view_at_the_start_wait_for_the_list_of_sessions(browser, site):
    context = browser.new_context(viewport={"width": 1440, "height": 12_000})
    context.set_default_timeout(SECONDS * 1000)
    page = context.new_page()
    asked: list[str] = []
    before: list[list[str]] = []

    def late(route):
        page.wait_for_timeout(500)
        before.append(list(asked))
        route.continue_()

    page.on("request", lambda request: asked.append(request.url) if "/panels/" in request.url else None)
    page.route("**/data/sessions.js", late)
    page.goto(f"{site.as_uri()}/trajectories.html")
    page.wait_for_selector("#scores .live.drawn")
    rows = page.locator("#scores tbody tr").count()
    context.close()

    assert before == [[]]
    assert any(url.endswith("/panels/scores.js") for url in asked)
    assert rows == 14, "the medians of both agents and the first page of sessions"
