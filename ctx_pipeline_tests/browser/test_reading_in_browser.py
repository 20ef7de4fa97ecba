"""A session of an agent's own files, through the pipeline to the page: pictures, diffs, subagents, failures and turns by clicking."""

from __future__ import annotations

import base64
import random
import re
import struct
import zlib

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.pipeline.render import render
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.browser.conftest import NEEDED, watched
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, small_home, text, tool_use, usage

pytestmark = [pytest.mark.browser, NEEDED]

OTHER = "22222222-2222-4222-8222-222222222222"
NOTES = "33333333-3333-4333-8333-333333333333"
MARKDOWN = """## What changed
See [the run](https://example.org/run?a=1&b=2) and https://example.org/plain_page.
- first with `code [no](https://example.org/no)`
- second, in [total.py](src/total.py:12)
  goes on here
    - inside **[bold link](http://example.org/b)**

3. third
4. fourth
   ```sh
   make all <x> [not](https://example.org/not)
   ```
last line"""
TRAPS = (
    "[click](javascript:document.title='owned')",
    "[click](JaVaScRiPt:alert`1`)",
    "[click](data:text/html,<script>document.title='owned'</script>)",
    "[click](file:///etc/passwd)",
    "[click](//evil.example/x)",
    "[https://bank.example](https://evil.example/)",
    "[bank.example/login](https://evil.example/login)",
    "[<img src=x onerror=document.title='owned'>](https://evil.example/a)",
    "[x](https://bank.example@evil.example/)",
    '[x](https://evil.example/"onmouseover="document.title=1)',
    "https://evil.example/<svg/onload=document.title='owned'>",
    "![picture](https://evil.example/track.png)",
    "- <b>no</b>\n1. <script>document.title='owned'</script>",
)
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** Add File: b.py\n+y = 1\n*** End Patch"
WAITED = "44444444-4444-4444-8444-444444444444"
PUSHED = "55555555-5555-4555-8555-555555555555"
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
PLANNED, COPY = (f"{n}a000000-1111-4111-8111-111111111111" for n in (1, 2))
BEFORE = "def total(lines):\n    found = 0\n    for line in lines:\n        found += line.price\n    return found\n"
AFTER = "def total(lines):\n    found = Decimal(0)\n    for line in lines:\n        found += line.price\n    return found\n"


def _picture(wide: int, high: int) -> str:
    """Return a PNG of noise as base64."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    noise = random.Random(7)
    rows = b"".join(b"\0" + noise.randbytes(3 * wide) for _ in range(high))
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a page of two sessions that went through the pipeline."""
    folder = tmp_path_factory.mktemp("reading")
    home: ClaudeHome = small_home(folder / "claude")
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _picture(24, 18)}}
    session = home.session(OTHER)
    session.prompt([text("Make the total exact, see the picture"), shown])
    session.call("toolu_1", "Edit", "Updated.", file_path="/home/dev/shop/total.py", old_string=BEFORE, new_string=AFTER)
    session.answer(text("The total is exact."), usages=[usage(40_000, 120)])
    session.prompt("and the tests?")
    failed = "Exit code 1\nE   NameError: name 'Decimal' is not defined\n1 failed in 0.1s"
    session.call("toolu_2", "Bash", failed, is_error=True, structured=f"Error: {failed}", command="pytest -q tests/test_total.py")
    session.answer(text("**`Decimal` was not imported.**"), usages=[usage(41_000, 60)], model="claude-opus-4-5-20251101")
    session.prompt("good, ship it")
    session.answer(tool_use("toolu_3", "Read", file_path="/home/dev/shop/CHANGES"), text("Shipped."))
    session.save()
    notes = home.session(NOTES)
    notes.prompt("Write the notes").answer(text(MARKDOWN)).prompt("and the traps").answer(text("\n\n".join(TRAPS)))
    notes.save()
    planned = home.session(PLANNED, mark="p").prompt("Plan the release")
    planned.call("toolu_s", "Skill", "ok", skill="superpowers:brainstorming")
    planned.call("toolu_t", "TaskUpdate", "ok", taskId="1", status="in_progress", owner="", metadata={"a": 1})
    planned.call("toolu_p", "apply_patch", "ok", input=PATCH)
    planned.call("toolu_b", "Bash", "ok", command="make release")
    copied = home.session(COPY)
    copied.records = [record | {"sessionId": COPY} for record in planned.records]
    copied.save()
    planned.answer(text("Planned.")).save()
    waited = home.session(WAITED).prompt("Wait for the build")
    for n in range(6):
        waited.call(f"toolu_w{n}", "BashOutput", f"minute {n}", bash_id="build")
    for n in range(3):
        waited.call(f"toolu_l{n}", "Bash", "a.py", command="ls")
    waited.call("toolu_l3", "Bash", "Exit code 1", is_error=True, structured="Error: Exit code 1", command="ls")
    waited.answer(text("Built.")).save()
    pushed = home.session(PUSHED).prompt("Push what is ready")
    for n in range(5):
        pushed.call(f"toolu_p{n}", "Bash", REFUSED, is_error=True, structured="User rejected tool use", command="git push")
    for n in range(6):
        pushed.call(f"toolu_s{n}", "Bash", "clean", command="git status")
        if n == 2:
            pushed.prompt([text("[Request interrupted by user]")])
    pushed.answer(text("Nothing was pushed.")).save()
    environ = {"HOME": str(folder), "CTX_HOME": str(folder / "store"), "CLAUDE_CONFIG_DIR": str(folder / "claude"), "TZ": "UTC"}
    chosen = settings_of.load({**environ, "CODEX_HOME": str(folder / "none")})
    with open_store(chosen) as store:
        step("ingest", store, chosen)
        step("facts", store, chosen)
        render(store, chosen)
        return f"{(store.home / 'site').as_uri()}/index.html"


@pytest.fixture
def read(browser, address):
    """Open a session by the words of its title; a word on the console or an error fails the test."""
    with watched(browser, viewport={"width": 1400, "height": 900}) as (page, trouble):

        def opened(words: str):
            page.goto(address)
            page.locator("#session-table a", has_text=words).click()
            page.wait_for_selector("dialog .timeline:not(.waiting) li.turn")
            return page

        yield opened
    assert trouble == []


@pytest.mark.feature("dashboard.reading")
def test_the_head_of_a_session_says_what_it_took_and_how_to_continue_it(read):
    page = read("Make the total exact")
    command = page.locator("dialog .resume code")
    command.click()

    assert page.locator("dialog .sums span").all_text_contents()[2:5] == ["3 prompts", "5 model calls", "3 tool calls (1 failed)"]
    assert command.text_content() == f"cd /home/dev/shop && claude --resume {OTHER}"
    assert command.evaluate("code => code.scrollWidth <= code.clientWidth"), "it is not cut"
    assert page.evaluate("getSelection().toString()") == command.text_content()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")


@pytest.mark.feature("dashboard.reading")
def test_a_picture_stands_in_the_conversation_and_an_edit_shows_the_changed_lines_among_the_others(read):
    page = read("Make the total exact")
    page.wait_for_selector("dialog .picture img")
    edit = page.locator("dialog details.call", has=page.locator("b", has_text="Edit"))
    shut = edit.locator("pre.diff").count()
    edit.locator("summary").first.click()

    assert page.locator("dialog .picture img").is_visible()
    assert page.locator("dialog .picture img").evaluate("image => [image.naturalWidth, image.naturalHeight]") == [24, 18]
    assert shut == 0
    assert edit.locator("pre.diff .removed").all_text_contents() == ["-     found = 0\n"]
    assert edit.locator("pre.diff .added").all_text_contents() == ["+     found = Decimal(0)\n"]
    assert "      for line in lines:\n" in edit.locator("pre.diff span").all_text_contents()
    assert edit.locator(".result").text_content() == "Updated."


@pytest.mark.feature("dashboard.call-lines")
def test_a_call_says_in_words_what_it_is_about_how_long_it_took_and_last_when_it_began(browser, address):
    with watched(browser, viewport={"width": 1400, "height": 900}) as (page, trouble):
        page.goto(address)
        page.locator("#session-table tr", has=page.locator("td.name > a", has_text="Plan the release")).filter(
            has_not_text="copy of"
        ).locator("td.name > a").click()
        page.wait_for_selector("dialog .timeline:not(.waiting) li.turn")
        calls = page.locator("dialog details.call > summary")
        asked = calls.locator(".asked").all_text_contents()
        took = calls.locator(".took").all_text_contents()
        times = calls.locator("time")
        edges = {round(box["x"] + box["width"]) for n in range(times.count()) if (box := times.nth(n).bounding_box())}
        clocks = times.all_text_contents()

    assert asked == ["superpowers:brainstorming", "taskId: 1, status: in_progress", "update a.py, add b.py", "make release"]
    assert took == ["1 s"] * 4
    assert len(clocks) == 4
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", clock) for clock in clocks)
    assert len(edges) == 1
    assert trouble == []


@pytest.mark.feature("dashboard.repeated-calls")
def test_the_same_call_again_and_again_is_one_line_that_opens_and_a_failed_one_is_never_hidden_in_it(read):
    page = read("Wait for the build")
    lines = page.locator("dialog .timeline:not(.timeline .timeline) > li > details.call > summary")
    shut = [" ".join(words.split()) for words in lines.locator("b").all_text_contents()]
    said = page.locator("dialog li.repeated > details > summary").text_content()
    hidden = page.locator("dialog li.repeated ol > li").first.is_visible()
    lines.first.click()
    inside = page.locator("dialog li.repeated ol > li")
    inside.last.locator("summary").click()

    assert shut == ["BashOutput", *["Bash"] * 4]
    assert "6 times" in said
    assert "bash_id: build" in said
    assert not hidden
    assert inside.count() == 6
    assert inside.last.locator(".result").text_content() == "minute 5"
    assert page.locator("dialog li.failed > details.call").is_visible()


@pytest.mark.feature("dashboard.repeated-calls")
def test_calls_that_were_refused_and_those_with_words_of_a_person_between_them_each_have_a_line(read):
    page = read("Push what is ready")

    assert page.locator("dialog li.repeated").count() == 0
    assert page.locator("dialog details.call > summary .state", has_text="refused").count() == 5


@pytest.mark.feature("dashboard.responsive")
@pytest.mark.parametrize("width", [400, 700, 900])
def test_on_a_small_screen_a_call_takes_two_lines_the_tools_of_the_reader_one_and_a_command_breaks_between_words(read, width):
    page = read("Make the total exact")
    page.set_viewport_size({"width": width, "height": 850})
    calls = page.locator("dialog .call > summary:not(:has(.usage, .state))").evaluate_all("all => all.map((one) => one.offsetHeight)")
    bar = page.locator("dialog .reading").bounding_box()["height"]
    lines = page.locator("dialog .resume code .word").evaluate_all(
        "all => Object.fromEntries(all.map(w => [w.textContent, Math.round(w.offsetHeight / parseFloat(getComputedStyle(w).lineHeight))]))"
    )

    times = page.locator("dialog .call > summary time").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")

    assert len(times) == 3
    assert max(times) - min(times) < 2, "times stand below each other, also where the reason of a failure takes a line"
    assert max(calls) < (64 if width == 400 else 40)
    assert width < 900 or bar < 60
    assert set(lines) == {"cd", "/home/dev/shop", "&&", "claude", "--resume", OTHER}
    assert set(lines.values()) == {1}


@pytest.mark.feature("dashboard.copies")
def test_a_copy_says_so_in_the_list_and_leads_to_the_session_for_which_its_calls_count(browser, address):
    with watched(browser, viewport={"width": 1400, "height": 900}) as (page, trouble):
        page.goto(address)
        rows = page.locator("#session-table tr", has_text="Plan the release")
        page.wait_for_selector("#session-table .copy")
        told = page.locator("#session-table .copy")
        said = (rows.count(), told.count(), told.text_content(), told.get_attribute("title"))
        told.locator("a").click()
        page.wait_for_selector("dialog .timeline:not(.waiting) li.turn")
        resumed = page.locator("dialog .resume code").text_content()

    assert said == (2, 1, "copy of another session", f"Its model calls count for {PLANNED}")
    assert resumed.endswith(PLANNED)
    assert trouble == []


@pytest.mark.feature("dashboard.reading")
def test_failures_alone_are_shown_with_their_reason_and_a_turn_is_gone_to_by_its_words(read):
    page = read("Make the total exact")
    turns = page.locator("dialog .outline option").all_text_contents()
    page.locator("dialog .choices button", has_text="Failures").click()
    calls = page.locator("dialog details.call:visible")
    calls.locator("summary").click()
    reason = calls.locator(".result").text_content()
    names = calls.locator("summary b").all_text_contents()
    page.locator("dialog .choices button", has_text="Session").click()
    page.select_option("dialog .outline", index=3)
    page.wait_for_selector("dialog .here")

    assert turns == ["3 turns", "1  Make the total exact, see the picture", "2  and the tests?", "3  good, ship it"]
    assert names == ["Bash"]
    assert "NameError: name 'Decimal' is not defined" in reason
    assert "good, ship it" in page.locator("dialog .here").text_content()


@pytest.mark.feature("dashboard.reading")
def test_a_model_is_named_where_it_changes_and_each_answer_has_its_tokens_and_cost(read):
    page = read("Make the total exact")
    said = [part.split("$")[0] for part in page.locator("dialog li.answer .usage").all_text_contents()]

    assert said[0] == "40.0k in, 120 out"
    assert said[1] == "claude-opus-4-5-2025110141.0k in, 60 out"
    assert page.locator("dialog li.answer .prose b code").all_text_contents() == ["Decimal"], "code inside bold words"


@pytest.mark.feature("dashboard.prose")
def test_links_lists_headings_and_code_of_an_answer_are_drawn(read):
    page = read("Write the notes")
    box = page.locator("dialog li.answer .prose").first
    links = box.locator("a").evaluate_all("all => all.map((a) => [a.textContent, a.href, a.rel, a.target, a.title])")
    kept = ["noopener noreferrer nofollow", "_blank"]
    drawn = box.evaluate("node => [...node.children].map((one) => `${one.tagName} ${one.className}`.trim())")

    assert links == [
        [words, target, *kept, target]
        for words, target in (
            ("the run", "https://example.org/run?a=1&b=2"),
            ("https://example.org/plain_page", "https://example.org/plain_page"),
            ("bold link", "http://example.org/b"),
        )
    ]
    assert drawn == ["P heading", "P", "UL points", "OL points", "PRE code", "P"]
    assert box.locator("p").nth(1).text_content() == "See the run and https://example.org/plain_page."
    assert box.locator(":scope > ul > li").count() == 2
    assert box.locator(":scope > ul > li > code").text_content() == "code [no](https://example.org/no)"
    assert "total.py (src/total.py:12)goes on here" in box.locator(":scope > ul > li").nth(1).text_content()
    assert box.locator("ul ul > li > b > a").count() == 1
    assert box.locator("ol").evaluate("list => [list.start, list.children.length]") == [3, 2]
    assert box.locator("pre").text_content() == "   make all <x> [not](https://example.org/not)"


@pytest.mark.feature("dashboard.prose")
@pytest.mark.feature("dashboard.text-escaped")
def test_traps_in_links_lead_nowhere_that_they_do_not_say_and_run_nothing(read):
    page = read("Write the notes")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_function("() => document.querySelectorAll('dialog li.answer .prose').length === 2")
    box = page.locator("dialog li.answer .prose").nth(1)
    links = box.locator("a").evaluate_all("all => all.map((a) => [a.textContent, a.getAttribute('href')])")
    attributes = box.evaluate("node => [...new Set([...node.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()))].sort()")

    assert all(target.startswith("https://evil.example/") for _, target in links)
    assert links[:2] == [["https://evil.example/", "https://evil.example/"], ["https://evil.example/login", "https://evil.example/login"]]
    assert box.locator("img, script, svg, iframe, form").count() == 0
    assert set(attributes) <= {"class", "href", "referrerpolicy", "rel", "start", "target", "title"}
    said = box.text_content()
    for words in (
        "javascript:",
        "JaVaScRiPt:",
        "data:text/html",
        "file:///etc/passwd",
        "<script>document.title='owned'</script>",
        "bank.example@evil.example",
    ):
        assert words in said
    page.wait_for_timeout(100)
    assert "owned" not in page.title()
    assert [url for url in asked if "evil" in url] == []


@pytest.mark.feature("dashboard.thread-costs")
def test_what_each_thread_took_stands_below_the_models_and_adds_up(read):
    page = read("Faster parser")
    page.locator("dialog [role=tab]", has_text="Models").click()
    page.wait_for_selector("dialog .apart table")
    models, threads = page.locator("dialog #session-tab table").all()

    names = threads.locator("tbody tr td:first-child").all_inner_texts()
    assert [name.split("\n") for name in names] == [["1. main"], ["2. subagent", "Explore"]]
    calls = [int(text) for text in threads.locator("tbody tr td:nth-child(2)").all_text_contents()]
    assert all(calls)
    assert sum(calls) == sum(int(text) for text in models.locator("tbody tr td:nth-child(2)").all_text_contents())
    page.keyboard.press("Escape")
    page.locator("#session-table a", has_text="Make the total exact").click()
    page.locator("dialog [role=tab]", has_text="Models").click()
    page.wait_for_selector("dialog #session-tab table")
    assert page.locator("dialog .apart").count() == 0, "one thread needs no table"


@pytest.mark.feature("dashboard.subagents-inline", "dashboard.reading")
def test_a_subagent_is_opened_where_it_was_started(read):
    page = read("Faster parser")
    agent = page.locator("dialog details.agent")
    before = page.locator("dialog li.thread").evaluate("node => node.previousElementSibling.textContent")
    hidden = agent.locator("li.answer").is_visible()
    agent.locator("summary").first.click()

    assert SESSION not in page.locator("dialog h2").text_content()
    assert "Task" in before
    assert not hidden
    assert "There are 7 files." in agent.locator("li.answer").text_content()
