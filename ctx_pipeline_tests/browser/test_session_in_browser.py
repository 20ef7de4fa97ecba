"""One session as it is read in the browser: turns, the curve of its window, search, links to events."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ctx_pipeline_tests.browser.conftest import NEEDED, watched
from ctx_pipeline_tests.factories.history import build_site, tables

pytestmark = [pytest.mark.browser, NEEDED]

TURNS = 120
"""Turns of the made session: so many that it has several pieces."""


SCRIPT = 'const all = await Promise.all([tools.exec_command({cmd: "ruff check ."}), tools.exec_command({cmd: "ruff format ."})]);'
"""What an agent writes that calls its tools in JavaScript."""
PAINTED = "name => [...CSS.highlights.get(name) || []].map((range) => range.toString().toLowerCase())"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a page whose newest session has many turns, one of them stopped and one failed."""
    rows = tables(2, hostile=False)
    newest = rows["sessions"][-1]
    name, host, when = newest["session_id"], newest["host"], newest["first_ts"]
    mark = {"host": host, "session_id": name, "thread_id": name}
    rows["events"] = [e for e in rows["events"] if e["session_id"] != name]
    rows["tool_calls"] = [t for t in rows["tool_calls"] if t["session_id"] != name]
    rows["model_calls"] = [c | {"thread_id": name} for c in rows["model_calls"] if c["session_id"] == name]
    (call, *_), rows["model_calls"] = rows["model_calls"], []
    rows["turns"] = []
    for n in range(TURNS):
        moment = when + timedelta(minutes=n)
        said = (("prompt", "user", f"Step {n}: please"), ("answer", "assistant", f"Answer {n} " + "word " * 600))
        if n == 7:
            said = (*said[:1], ("error", "system", "API Error: overloaded"))
        if n == 8:
            said = (*said[:1], ("tool_call", "assistant", '{"command": "pytest -q"}'))
            place = mark | {"call_event": "s.0.8.tool_call", "seq": 25, "tool": "Bash"}
            rows["tool_calls"].append(place | {"call_id": "t8", "action": "shell", "argv": ["pytest -q"], "exit": 1, "is_error": True})
            rows["command_runs"] = [place | {"command": "pytest -q", "result": "failed", "exit": 1, "line": "E  assert 3 == 4"}]
        if n == 9:
            refused = "<tool_use_error>String to replace not found in file.</tool_use_error>"
            said = (*said[:1], ("tool_call", "assistant", '{"file_path": "a.py"}'), ("tool_result", "tool", refused))
            place = mark | {"call_event": "s.0.9.tool_call", "result_event": "s.0.9.tool_result", "seq": 28, "tool": "Edit"}
            rows["tool_calls"].append(place | {"call_id": "t9", "action": "edit", "argv": [], "exit": None, "is_error": True})
        if n == 10:
            said = (*said[:1], ("tool_call", "assistant", SCRIPT))
            place = mark | {"call_event": "s.0.10.tool_call", "seq": 31, "tool": "exec"}
            rows["tool_calls"].append(place | {"call_id": "t10", "action": "shell", "argv": [SCRIPT], "exit": 0, "is_error": False})
            rows["command_runs"].append(place | {"command": "ruff check .\nruff format .", "result": "passed", "exit": 0, "line": None})
        if n == 12:
            said = (*said[:1], ("tool_call", "assistant", 'const r = await tools.web__run({search_query:[\n  {q: "tabs"}]}); text(r);'))
            place = mark | {"call_event": "s.0.12.tool_call", "seq": 37, "tool": "web"}
            rows["tool_calls"].append(place | {"call_id": "t12", "action": "web", "argv": [], "exit": None, "is_error": False})
        for number, (kind, actor, text) in enumerate(said):
            at = moment - timedelta(hours=2 * number * (n == 11))
            event = {"event_id": f"s.0.{n}.{kind}", "seq": 3 * n + number, "ts": at, "call_key": f"c{n}"}
            rows["events"].append(mark | event | {"kind": kind, "actor": actor, "text": text})
        rows["model_calls"].append(call | {"call_key": f"c{n}", "ts": moment, "context_tokens": 1_000 * (n + 1)})
        ends = {"ended": "failed" if n == 7 else "answered", "first_event": f"s.0.{n}.prompt", "last_event": f"s.0.{n}.{said[1][0]}"}
        rows["turns"].append(mark | ends | {"number": n, "interruption_event": None})
    missing = {"signal": "estimated_missing_output", "family": "spending", "kind": "numeric", "value": 4_300, "unit": "tokens"}
    rows["readings"].append(mark | missing | {"label": None, "evidence": [], "confidence": 1.0})
    newest |= {"events": 2 * TURNS, "prompts": TURNS}
    folder = tmp_path_factory.mktemp("read")
    site = build_site({"HOME": str(folder), "CTX_HOME": str(folder / "store"), "TZ": "UTC"}, rows, "rows")
    key = re.search(r'"rows":\[\["([0-9a-f]{16})"', (site / "data" / "sessions.js").read_text("utf-8"))[1]
    return f"{site.as_uri()}/index.html", key


@pytest.fixture
def reading(browser, address):
    """The newest session, opened; a word on the console or an error fails the test."""
    with watched(browser, viewport={"width": 1200, "height": 900}) as (page, trouble):
        page.goto(f"{address[0]}#session-{address[1]}")
        page.wait_for_selector("dialog .timeline:not(.waiting) li.turn")
        yield page
    assert trouble == []


@pytest.mark.feature("dashboard.turns", "dashboard.whole-transcript")
def test_turns_say_what_they_cost_and_why_they_failed_and_later_ones_come_as_one_scrolls(reading):
    turns = reading.locator("dialog li.turn")
    first = turns.count()
    failed = turns.nth(7).text_content()
    for _ in range(200):
        if reading.locator(".timeline.waiting").count() == 0:
            break
        reading.locator(".timeline.waiting").first.scroll_into_view_if_needed()
        reading.wait_for_timeout(30)

    assert reading.locator("dialog li.failed .state").first.text_content() == "exit 1: E  assert 3 == 4"
    assert reading.locator("dialog li.failed .state").nth(1).text_content() == "failed: String to replace not found in file."
    assert first < TURNS == turns.count()
    assert turns.first.locator("h3").text_content() == "Turn 1"
    assert "1 model call" in turns.first.text_content()
    assert "$0.04" in turns.first.text_content()
    assert "failed: API Error: overloaded" in failed


@pytest.mark.feature("dashboard.responsive")
@pytest.mark.parametrize("wide", [400, 900, 1400])
def test_the_head_of_a_session_is_whole_at_any_width_and_the_page_behind_it_does_not_scroll(reading, wide):
    reading.set_viewport_size({"width": wide, "height": 900})
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    overlapping = """bar => [...bar.children].filter((one) => one.offsetParent).map((one) => one.getBoundingClientRect())
        .flatMap((a, i, all) => all.slice(i + 1).filter((b) => a.left < b.right && b.left < a.right)
        .filter((b) => a.top < b.bottom && b.top < a.bottom))"""
    places = "bar => [...bar.children].filter((one) => one.offsetParent).map((one) => Math.round(one.getBoundingClientRect().bottom))"
    rows = set(reading.locator("dialog .reading").evaluate(places))

    assert reading.locator("dialog .bar-top > *:visible").evaluate_all(cut) == []
    assert reading.locator("dialog .bar-top").evaluate(overlapping) == []
    assert reading.locator("dialog").evaluate("one => one.scrollWidth <= one.clientWidth")
    assert reading.evaluate("getComputedStyle(document.documentElement).overflow") == "hidden", "one scrollbar"
    assert wide < 1400 or max(rows) - min(rows) < 6, "the choices and the search stand in one line"
    reading.keyboard.press("Escape")
    reading.wait_for_selector("dialog", state="hidden")
    assert reading.evaluate("getComputedStyle(document.documentElement).overflow") == "visible"


@pytest.mark.feature("usage.missing-output")
def test_the_output_that_no_record_counts_is_told_beside_the_tokens(reading):
    reading.get_by_role("tab", name="Overview").click()
    told = reading.locator("dialog dl.facts dd", has_text="output tokens: calls record only the first count of the output")

    assert told.text_content().startswith("about 4.30k output tokens: ")


@pytest.mark.feature("dashboard.window-curve")
def test_the_curve_is_read_with_arrow_keys_and_leads_to_its_place(reading):
    curve = reading.locator("dialog .curve-of")
    curve.focus()
    reading.keyboard.press("Home")
    begin = curve.get_attribute("aria-valuetext")
    reading.keyboard.press("End")
    for _ in range(3):
        reading.keyboard.press("PageDown")
    there = curve.get_attribute("aria-valuetext")
    reading.keyboard.press("Enter")
    reading.wait_for_selector("dialog .here")

    assert begin.startswith(f"Call 1 of {TURNS}, ")
    assert ": 1.00k tokens" in begin
    assert f"Call {TURNS - 30} of {TURNS}" in there
    assert f"Step {TURNS - 31}: please" in reading.locator("dialog .here").text_content()


@pytest.mark.feature("dashboard.window-curve")
@pytest.mark.parametrize(
    ("places", "compacted", "mark"), [((1, 5, 9), [4, 4], 500), ((None, None, None), [4, 4], 500), ((1, 5, 9), [12, 12], 1000)]
)
def test_a_compaction_is_marked_before_the_first_call_behind_it_by_its_place_or_its_time(reading, places, compacted, mark):
    told = {"curve": [[place, at, 10, None] for place, at in zip(places, (1, 5, 9), strict=True)], "window": [100, "known"]}
    drawn = reading.evaluate(
        "told => ctx.windowCurve(told, () => {}).querySelector('.cut-mark').getAttribute('d')", told | {"compactions": [compacted]}
    )

    assert drawn == f"M{mark:.1f} 0V100"


@pytest.mark.feature("dashboard.find-in-session")
def test_a_word_is_found_in_pieces_that_were_not_looked_at_and_its_event_has_a_link(reading):
    reading.fill("dialog .finder input", "answer 77 ")
    reading.keyboard.press("Enter")
    reading.wait_for_selector("dialog .here")
    assert reading.locator("dialog .finder [role=status]").text_content() == "1 of 1"
    reading.wait_for_function("() => CSS.highlights.has('found')")
    assert set(reading.evaluate(PAINTED, "found")) == {"answer 77"}
    here = reading.locator("dialog .here")
    assert here.text_content().startswith("answer")
    link = here.locator("a.anchor").evaluate("link => link.href")
    reading.goto("about:blank")
    reading.goto(link)
    reading.wait_for_selector("dialog .here")

    assert "Answer 77 word" in reading.locator("dialog .here").text_content()
    assert reading.locator("dialog .here").evaluate(
        "node => { const { top } = node.getBoundingClientRect(); return top > -2000 && top < 900; }"
    )


@pytest.mark.feature("dashboard.copied-times")
def test_a_session_in_which_times_run_backward_says_so(reading):
    assert reading.locator("dialog .clock").text_content() == (
        "Times run backward in 1 place, as where records were copied: events stand in the order of the record."
    )


@pytest.mark.feature("dashboard.scripted-calls")
def test_a_call_written_as_a_script_shows_the_commands_that_ran_and_the_script_behind_a_click(reading):
    call = reading.locator("dialog details.call", has=reading.locator("summary b", has_text="exec"))
    asked = call.locator("summary .asked").text_content()
    call.locator("summary").first.click()
    shown = call.locator("pre.asked").text_content()
    hidden = call.locator(".arguments pre").count()
    call.locator(".arguments summary").click()

    assert reading.locator("dialog details.call", has=reading.locator("summary b", has_text="web")).locator(
        "summary .asked"
    ).text_content() == ('web__run({search_query:[ {q: "tabs"}]}); text(r);')
    assert asked == "ruff check .; ruff format ."
    assert shown == "ruff check .\nruff format ."
    assert hidden == 0
    assert call.locator(".arguments summary").text_content() == "The script that ran it"
    assert call.locator(".arguments pre").text_content() == SCRIPT
    reading.get_by_role("tab", name="Tools").click()
    assert "ruff check .\nruff format ." in reading.locator("dialog #session-tab tbody code").all_text_contents()


@pytest.mark.feature("dashboard.find-in-session")
def test_each_match_is_counted_once_where_other_words_are_asked_for_while_the_first_are_looked_for(reading):
    reading.evaluate("""async () => {
        const input = document.querySelector("dialog .finder input");
        for (const words of ["pleas", "please"]) {
            input.value = words;
            input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
            await new Promise((resolve) => setTimeout(resolve, 1));
        }
    }""")
    reading.wait_for_function("() => document.querySelector('.finder [role=status]').textContent.includes(' of ')")

    assert reading.locator("dialog .finder [role=status]").text_content() == f"1 of {TURNS}"


@pytest.mark.feature("dashboard.find-in-session")
def test_matches_are_counted_and_painted_as_one_types_and_parts_that_hold_one_are_opened(reading):
    status = reading.locator("dialog .finder [role=status]")
    reading.locator("dialog .finder input").press_sequentially("please", delay=20)
    reading.wait_for_function(f"() => document.querySelector('.finder [role=status]').textContent === '1 of {TURNS}'")
    waiting = reading.locator("dialog .timeline.waiting").count()
    counts = []
    for key in ("Enter", "Enter", "Shift+Enter"):
        before = status.text_content()
        reading.keyboard.press(key)
        reading.wait_for_function("before => document.querySelector('.finder [role=status]').textContent !== before", arg=before)
        counts.append(status.text_content())
    reading.get_by_role("button", name="Next match").click()
    reading.wait_for_function("() => document.querySelector('.finder [role=status]').textContent.startsWith('3 ')")

    assert waiting > 0, "matches in parts that are not drawn yet are counted"
    assert counts == [f"{n} of {TURNS}" for n in (2, 3, 2)]
    assert len(reading.evaluate(PAINTED, "found")) > 20
    assert reading.evaluate(PAINTED, "found-here") == ["please"]
    call = reading.locator("dialog details.call", has=reading.locator("summary b", has_text="exec"))
    reading.fill("dialog .finder input", "promise.all")
    reading.wait_for_function("() => document.querySelector('.finder [role=status]').textContent === '1 of 1'")
    reading.wait_for_selector("dialog details.arguments[open]")
    assert "promise.all" in reading.evaluate(PAINTED, "found-here")
    reading.fill("dialog .finder input", "no such words")
    reading.wait_for_function("() => document.querySelector('.finder [role=status]').textContent === 'not found'")
    assert call.get_attribute("open") is None, "what was opened for other words is shut again"
    assert reading.evaluate(PAINTED, "found") == []


@pytest.mark.feature("dashboard.reading-keys")
def test_keys_go_from_prompt_to_prompt_fold_what_is_open_and_show_prompts_alone(reading):
    reading.locator("dialog h2").focus()
    said = []
    for key, turn in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        reading.keyboard.press(key)
        reading.wait_for_function(f"() => document.querySelector('dialog .here')?.textContent.includes('Step {turn}: please')")
        said.append(reading.locator("dialog .here").get_attribute("class"))
    calls = reading.locator("dialog details.call[open]")
    reading.locator("dialog details.call summary").first.click()
    opened = calls.count()
    reading.locator("dialog h2").focus()
    reading.keyboard.press("c")
    reading.keyboard.press("p")
    alone = set(reading.locator("dialog .timeline > li:visible").evaluate_all("all => all.map((one) => one.classList[0])"))
    reading.keyboard.press("?")
    keys = reading.locator("dialog .keys")
    told = keys.locator("dt").all_text_contents() if keys.is_visible() else []
    reading.keyboard.press("?")
    shut = keys.is_hidden()
    reading.keyboard.press("/")
    focused = reading.evaluate("document.activeElement.getAttribute('aria-label')")

    assert said == ["prompt here"] * 4
    assert (opened, calls.count()) == (1, 0)
    assert alone == {"turn", "prompt"}
    assert told[:3] == ["j", "k", "p"]
    assert shut
    assert focused == "Search in this session"


@pytest.mark.feature("dashboard.reading-keys")
def test_a_turn_has_a_link_that_opens_there(reading):
    link = reading.locator("dialog li.turn a.anchor").nth(3)
    link.click()
    target = link.evaluate("link => link.href")
    reading.goto("about:blank")
    reading.goto(target)
    reading.wait_for_selector("dialog .here")

    assert link.get_attribute("aria-label") == "Copy the link to this turn"
    assert "Step 3: please" in reading.locator("dialog .here").text_content()


@pytest.mark.feature("dashboard.packed")
def test_a_web_server_that_names_a_character_set_is_named_as_the_cause(address, browser):
    class Named(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript; charset=utf-8"}

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    page_file = Path(address[0].removeprefix("file://"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Named, directory=str(page_file.parent))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with watched(browser) as (page, _):
            page.goto(f"http://127.0.0.1:{server.server_port}/{page_file.name}#session-{address[1]}")
            page.wait_for_selector("dialog .empty")
            assert "must name none" in page.inner_text("dialog .empty")
        server.shutdown()
