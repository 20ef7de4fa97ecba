"""The page as a person meets it: opened from disk in a real browser, with hostile transcripts in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.dashboard.figures import words
from ctx_pipeline.dashboard.page import ASSETS
from ctx_pipeline.model.display import money
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.browser.conftest import NEEDED, PAGES, watched
from ctx_pipeline_tests.factories.history import HOSTILE, TITLES
from ctx_pipeline_tests.signals.golden import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, NEEDED]


@pytest.fixture
def week(tmp_path, browser) -> Iterator[Page]:
    """The first page of a store that holds the samples."""
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "TZ": "UTC"}
    environ |= {name: str(SAMPLES / host) for name, host in (("CLAUDE_CONFIG_DIR", "claude"), ("CODEX_HOME", "codex"))}
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        run_stages(store, chosen)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto((tmp_path / "store" / "site" / "index.html").as_uri())
    page.wait_for_selector("#session-table tbody tr")
    yield page
    context.close()


def _titles(page: Page) -> list[str]:
    return page.locator("#session-table tbody td.name a").all_text_contents()


def _search(page: Page, words: str, expected: str) -> None:
    page.fill("#search", words)
    page.wait_for_function("text => document.getElementById('shown').textContent === text", arg=expected)


@pytest.mark.feature("dashboard.opens-from-disk")
def test_the_page_opens_from_disk_with_this_week_first(page):
    assert page.locator("main section").evaluate_all("parts => parts.map((part) => part.id)") == [
        "week", "sessions", "projects", "year",
    ]  # fmt: skip
    assert page.locator("#shown").text_content() == "1 to 25 of 67 sessions"


@pytest.mark.feature("dashboard.pages")
def test_everything_else_has_a_page_of_its_own_and_old_links_still_lead_there(page, site):
    parts = {}
    for link in page.locator("header nav a").all():
        parts[link.text_content()] = link.get_attribute("data-panels").split()
    assert parts == {
        "Overview": ["week", "sessions", "projects", "year"],
        "Findings": ["findings"],
        "History": ["numbers", "activity", "user_input"],
        "Accounting": ["accounting"],
        "Signals": ["signals"],
        "Trajectories": ["scores"],
        "Lessons": ["memories"],
        "Missing records": ["missing"],
    }
    page.goto("about:blank")
    page.goto(f"{site.as_uri()}/index.html#memories")
    page.wait_for_selector("#memories .live.drawn")
    assert page.locator("nav a[aria-current=page]").text_content() == "Lessons"
    assert page.locator("#session-table").count() == 0


@pytest.mark.feature("dashboard.tips")
@pytest.mark.feature("dashboard.week")
def test_the_words_of_a_column_are_shown_to_pointer_and_arrow_keys(week):
    page = week
    assert page.locator("#week svg.plot").count() == 2, "cost and time by day"
    assert page.locator("#week .chart").first.evaluate("chart => chart.getBoundingClientRect().bottom") < 900, "above the fold"
    plot = page.locator("#week svg.plot").first
    plot.focus()
    newest = page.locator(".tip").text_content()
    page.keyboard.press("ArrowLeft")
    before = page.locator(".tip").text_content()
    page.keyboard.press("Escape")
    hidden = page.locator(".tip").is_hidden()
    plot.locator("g").last.hover()

    assert newest.startswith("Mon 19 Oct 2026")
    assert before.startswith("Sun 18 Oct 2026")
    assert hidden
    assert page.locator(".tip").text_content() == newest


@pytest.mark.feature("dashboard.tips")
def test_the_words_of_a_mark_are_shown_to_a_finger_and_go_with_a_tap_beside_it(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/history.html")
    column = page.locator("#activity svg.plot g").last
    column.scroll_into_view_if_needed()
    page.locator("#activity svg.plot g").first.tap()
    first = page.locator(".tip").text_content()
    column.tap()
    shown = page.locator(".tip").text_content()
    inside = page.locator(".tip").evaluate("tip => { const b = tip.getBoundingClientRect(); return b.left >= 0 && b.right <= innerWidth; }")
    page.locator("#title-activity").tap()
    hidden = page.locator(".tip").is_hidden()
    context.close()

    assert first != shown, "the first tap shows the column under the finger, not the last one"
    assert re.search(r"\d+ calls?, ", shown)
    assert inside
    assert hidden


@pytest.mark.feature("dashboard.session-table")
def test_search_and_filters_narrow_the_table_together(page):
    _search(page, "nightly importer", "1 to 10 of 10 sessions")
    assert set(_titles(page)) == {TITLES[1]}
    page.select_option("#host", "claude")
    assert "No session fits" in page.locator("#session-table tbody").text_content()
    page.select_option("#host", "codex")
    page.select_option("#project", "importer")
    assert len(_titles(page)) == 10
    page.select_option("#filters select[aria-label=Which]", "failed")
    assert len(_titles(page)) == sum(i % 5 > 0 for i in range(1, 60, 6))


@pytest.mark.feature("dashboard.session-table")
def test_a_column_sorts_both_ways_and_pages_turn(page):
    costs = "rows => rows.map((row) => Number(row.textContent.replace(/[^0-9.]/g, '')))"
    page.click("th[data-sort=cost] button")
    falling = page.locator("#session-table tbody td:last-child").evaluate_all(costs)
    assert page.get_attribute("th[data-sort=cost]", "aria-sort") == "descending"
    page.click("th[data-sort=cost] button")
    rising = page.locator("#session-table tbody td:last-child").evaluate_all(costs)
    page.click("#later")

    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(rising)
    assert falling[0] > rising[0]
    assert page.locator("#shown").text_content() == "26 to 50 of 67 sessions"


@pytest.mark.feature("dashboard.sort-and-pages")
def test_sessions_of_some_days_are_chosen_by_date(page):
    page.locator("#filters select[aria-label=Days]").select_option("own")
    page.fill("#filters input[aria-label=From]", "2026-09-22")
    page.fill("#filters input[aria-label=To]", "2026-09-23")
    page.wait_for_function("() => document.getElementById('shown').textContent === '1 to 2 of 2 sessions'")
    days = [text.partition(" ")[0] for text in page.locator("#session-table tbody td.when").all_text_contents()]
    assert days == ["23", "22"], "a session that began at 23:00 UTC on the 21st belongs to the 22nd in Berlin"
    page.locator("#projects a[data-project=website]").click()

    assert page.locator("#shown").text_content() == "1 to 20 of 20 sessions"


@pytest.mark.feature("dashboard.session-table")
def test_a_project_shows_its_sessions(page):
    page.locator("#projects a[data-project=website]").click()

    assert page.input_value("#project") == "website"
    assert page.locator("#shown").text_content() == "1 to 20 of 20 sessions"


@pytest.mark.feature("dashboard.reduced-motion")
def test_nothing_moves_for_a_person_who_asks_for_less_motion(page):
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("() => document.querySelectorAll('h2, a').forEach((one) => (one.style.transition = 'color 2s'))")
    page.locator("#session-table tbody a").first.click()
    page.wait_for_selector("dialog[open] .timeline:not(.waiting) li")
    moving = page.evaluate(
        """() => [document.getAnimations().length, [...document.querySelectorAll("*")].map((one) => getComputedStyle(one)).filter(
            (style) => style.transitionDuration !== "0s" || style.animationName !== "none" || style.scrollBehavior !== "auto").length]"""
    )

    assert moving == [0, 0]


@pytest.mark.feature("dashboard.drill-down")
def test_a_session_loads_its_chunk_when_it_is_opened_and_every_tab_has_content(page):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url.rpartition("/")[2]))
    _search(page, "000000000008", "1 to 1 of 1 session")
    page.locator("#session-table tbody a").click()
    page.wait_for_selector("dialog[open] [role=tab]")
    tabs = page.locator("[role=tab]").all_text_contents()
    words = []
    for i in range(len(tabs)):
        page.locator(f"#tab-{i}").click()
        if i == 0:
            page.wait_for_selector(".timeline:not(.waiting)")
        page.wait_for_selector("#session-tab:not(:has(.loading))")
        words.append(page.locator("#session-tab").text_content())

    assert len([name for name in requested if re.fullmatch(r"[0-9a-f]{24}\.js", name)]) == 1
    assert tabs == ["Transcript28", "Overview", "Tools12", "Models1", "Model calls6", "Signals5", "Lessons0"]
    assert "Please look at the tests first." in words[0]
    assert "/home/ada/code/website" in words[1]
    assert "uv run pytest" in words[2]
    assert "exit 1" in words[2]
    assert "claude-opus-4-5" in words[3]
    assert "claude-opus-4-5" in words[4]
    assert "failed command ratio" in words[5]
    assert "No lesson rests on this session." in words[6]


@pytest.mark.feature("dashboard.keyboard")
def test_the_drill_down_works_from_the_keyboard(page):
    first = page.locator("#session-table tbody a").nth(8)
    first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] [role=tab]")
    page.locator("#tab-0").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-1"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-6"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.wait_for_function("() => !location.hash.startsWith('#session-')")
    assert first.evaluate("link => link === document.activeElement")


@pytest.mark.feature("dashboard.drill-down")
def test_a_link_to_a_session_opens_it(page):
    page.locator("a[href^='#session-']").first.click()
    page.wait_for_selector("dialog[open] [role=tab]")
    heading = page.locator("#session-title").text_content()
    page.reload()
    page.wait_for_selector("dialog[open] [role=tab]")

    assert page.locator("#session-title").text_content() == heading


@pytest.mark.feature("dashboard.numbers-with-units")
def test_money_is_written_as_the_command_line_writes_it(page):
    amounts = [0, 4_000_000, 5_100_000, 10_000_000, 4_204_000_000, 1_234_500_000_000, -4_200_000_000, -1_000_000]
    written = page.evaluate("amounts => amounts.map((nano) => ctx.money(nano / 1e9))", amounts)

    assert written == [money(nano) for nano in amounts]
    assert money(1_234_500_000_000) in written


@pytest.mark.feature("dashboard.session-table")
def test_times_are_in_one_zone_that_is_named_once(page):
    words = page.locator("body").inner_text()

    assert words.count("Europe/Berlin") == 1
    assert "UTC" not in words


CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(node).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const words = (node) => [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
  const read = (node) => words(node) && node.getBoundingClientRect().width && !node.disabled && !node.closest("[aria-hidden=true]");
  const shown = [...document.querySelectorAll("body *")].filter(read);
  return shown.map((node) => {
    const style = getComputedStyle(node);
    const [a, b] = [light(numbers(node.closest("svg") ? style.fill : style.color).slice(0, 3)), light(behind(node))];
    const large = parseFloat(style.fontSize) >= 24;
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) >= (large ? 3 : 4.5), node.tagName, node.className, style.color];
  }).filter(([enough]) => !enough);
}"""


@pytest.mark.feature("dashboard.responsive")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(page, scheme):
    page.emulate_media(color_scheme=scheme)
    faint = {}
    for name in ["index", *(title.lower().replace(" ", "-") for title in PAGES)]:
        page.goto(page.url.rpartition("/")[0] + f"/{name}.html")
        page.wait_for_function("() => !document.querySelector('.live:not(.drawn)') || (scrollTo(0, document.body.scrollHeight), false)")
        faint[name] = page.evaluate(CONTRAST)

    assert {name: found for name, found in faint.items() if found} == {}


@pytest.mark.feature("dashboard.drill-down")
def test_the_readings_of_a_session_say_what_they_mean_in_the_order_of_the_signals(page):
    page.locator("#session-table tbody a").first.click()
    page.wait_for_selector("dialog[open] [role=tab]")
    page.locator("#tab-5").click()
    page.wait_for_selector("#session-tab td .under")
    rows = [cell.inner_text().split("\n", 1) for cell in page.locator("#session-tab tbody td:first-child").all()]

    assert len(rows) == int(page.locator("#tab-5 span").inner_text()) > 1
    assert all(name and meaning.endswith(".") for name, meaning in rows)


@pytest.mark.feature("dashboard.text-escaped")
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_titles_models_ids_and_paths_are_words_and_run_nothing(page, number):
    text = HOSTILE[number]
    page.fill("#search", f"{text}.{number}".lower())
    page.wait_for_function("() => /of 1 session$/.test(document.getElementById('shown').textContent)")
    title = text.strip()
    assert _titles(page) == [title]
    page.locator("#session-table tbody a").click()
    page.wait_for_selector("dialog[open] [role=tab]")
    assert page.locator("#session-title").text_content() == title
    page.locator("#tab-1").click()
    assert text in page.locator("#session-tab").text_content()
    for tab in range(7):
        page.locator(f"#tab-{tab}").click()
    page.locator("#tab-4").click()
    assert text in page.locator("#session-tab").text_content()
    page.wait_for_timeout(50)
    assert page.locator("body img, body script, body svg[onload]").count() == 0


@pytest.mark.feature("dashboard.text-escaped")
def test_hostile_events_are_words_in_the_timeline(page):
    page.fill("#search", f"{HOSTILE[0]}.0".lower())
    page.wait_for_function("() => /of 1 session$/.test(document.getElementById('shown').textContent)")
    page.locator("#session-table tbody a").click()
    page.wait_for_selector("dialog[open] .timeline:not(.waiting) li.prompt")
    shown = page.locator(".timeline li.prompt .prose").all_text_contents()

    assert [text for text in HOSTILE if text not in shown] == []


@pytest.mark.feature("dashboard.search")
def test_one_box_finds_what_was_said_in_any_session_from_disk_and_leads_to_its_event(page):
    page.keyboard.press("/")
    page.keyboard.type("nightly import skip the last file")
    page.wait_for_selector("#found li:first-child mark:text-is('file')")  # what was found for the words so far stands there before
    first = page.locator("#found li").first
    edges = [page.locator(place).bounding_box()["x"] for place in ("#found", ".lede h1")]
    snippet = first.locator("p").text_content()
    words = first.locator("mark").all_text_contents()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .here")

    assert edges[0] == edges[1], "what is found begins where the page begins"
    assert snippet.startswith("Why does the nightly import skip the last file?")
    assert {"nightly", "import", "skip", "last", "file"} == {word.lower() for word in words}
    assert "Why does the nightly import skip the last file?" in page.locator("dialog .here").text_content()
    page.keyboard.press("Escape")
    page.fill("#find", "0198c0de-0000-7000-8000-000000000055")
    page.wait_for_function("() => document.querySelector('#found mark')?.textContent === '0198c0de-0000-7000-8000-000000000055'")
    page.locator("#found a").first.click()
    page.wait_for_selector("dialog[open] [role=tab]")
    assert page.locator("dialog .resume code").text_content().endswith("0198c0de-0000-7000-8000-000000000055")
    page.keyboard.press("Escape")
    page.fill("#find", "qqqq zzzz")
    page.wait_for_selector("#found .empty")


@pytest.mark.feature("dashboard.search", "search.typos")
def test_the_search_box_of_a_page_from_disk_says_which_word_was_looked_for_in_place_of_a_typo(page):
    page.fill("#find", "Nigthly")
    page.locator("#found .searched", has_text="Nothing here holds Nigthly: nightly was looked for.").wait_for()
    assert {"nightly"} == {word.lower() for word in page.locator("#found mark").all_text_contents()}
    page.fill("#find", "nightly")
    page.locator("#found .searched").wait_for(state="detached")


@pytest.mark.feature("dashboard.search-days")
def test_what_is_found_can_be_narrowed_to_days_that_a_person_chooses(page):
    page.fill("#find", "nightly import skip the last file")
    page.wait_for_selector("#found li p")
    told = page.locator("#found li a").evaluate_all(
        "links => links.map((a) => ctx.when(ctx.session(a.hash.slice(9).split('.')[0]).start, 'iso'))"
    )
    page.select_option("#found .when select", "own")
    page.fill("#found input[aria-label=To]", "1999-12-31")
    page.wait_for_selector("#found .empty")
    page.fill("#found input[aria-label=From]", min(told))
    page.fill("#found input[aria-label=To]", max(told))
    page.wait_for_selector("#found li p")

    assert page.locator("#found li a").count() >= 1
    assert page.locator("#found .when").is_visible()


@pytest.mark.feature("dashboard.responsive")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_telephone_in_light_and_dark(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")

    cut = "codes => codes.filter((code) => code.scrollWidth > code.clientWidth).map((code) => code.textContent)"

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("code.command").evaluate_all(cut) == [], "a command is never cut"
    assert paper == {"light": "rgb(251, 250, 247)", "dark": "rgb(22, 22, 20)"}[scheme]
    assert page.locator("#session-table tbody td.name").first.is_visible()


@pytest.mark.feature("dashboard.drill-down")
def test_a_chunk_that_is_gone_is_said_in_words(opened, site):
    page, trouble = opened
    name = page.locator("#session-table tbody a").nth(9).get_attribute("href")
    hidden = site / "data-away"
    (site / "data").rename(hidden)
    try:
        page.evaluate("href => { location.hash = href }", name)
        page.wait_for_selector("dialog .empty")
        assert "load it again" in page.locator("dialog .empty").text_content()
    finally:
        hidden.rename(site / "data")
    assert trouble == ["Failed to load resource: net::ERR_FILE_NOT_FOUND"]


@pytest.mark.feature("dashboard.findings")
@pytest.mark.parametrize("width", [240, 330, 470])
def test_a_command_in_a_narrow_place_breaks_between_its_words_only_and_says_them_all(browser, width: int):
    typed = "ctx usage session --cache --sort tokens --since 2026-10-25 --until 2026-10-31 --project <b>x</b>"
    style = (ASSETS / "style.css").read_text("utf-8")
    with watched(browser) as (page, trouble):
        page.set_content(f'<style>{style}</style><div style="width:{width}px"><code class="command">{words(typed)}</code></div>')
        code = page.locator("code")
        lines = code.locator(".word").evaluate_all("all => all.map(w => w.offsetHeight / parseFloat(getComputedStyle(w).lineHeight))")

        assert code.text_content() == typed
        assert page.locator("code b").count() == 0
        assert code.evaluate("c => c.offsetHeight") > 30, "nothing was broken"
        assert max(lines) < 1.5
        assert trouble == []
