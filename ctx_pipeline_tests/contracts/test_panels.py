"""What every panel of the page must do, whoever wrote it: these tests run over what discovery finds."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from html.parser import HTMLParser

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.dashboard import data as page
from ctx_pipeline.dashboard.page import chunk
from ctx_pipeline.model.readings import Example, Finding
from ctx_pipeline_tests.factories.history import HOSTILE

VOID = {"br", "hr", "img", "input", "link", "meta"}
WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
EVERYTHING = "".join(HOSTILE)


class _Reader(HTMLParser):
    """Collects elements and attributes, and notes a closing tag that closes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.strays: list[str] = []
        self.words = ""

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.strays.append(tag)

    def handle_data(self, data):
        self.words += data


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


def _hostile() -> page.PageData:
    """Page data in which every text that a transcript can set is an attack."""
    usage = page.Usage(1, 2, 3, 4, 5, 1, 6, 7_000_000_000, 1, 0)
    session = page.SessionLine(
        *("claude", EVERYTHING, EVERYTHING, "prompt", EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, (EVERYTHING,)),
        *(WHEN.replace(tzinfo=None), WHEN.replace(tzinfo=None), EVERYTHING, EVERYTHING),
        *(1, 9, 2, 5, 4, 1, 1, 10, 1_000, 2, 5, 4, 90_000, "stamp"),
        usage,
    )
    return page.PageData(
        generated=WHEN,
        hosts=(page.HostLine("claude", "Claude Code", 0),),
        days=(page.DayLine(date(2026, 11, 20), "claude", usage), page.DayLine(date(2026, 11, 21), EVERYTHING, usage)),
        models=(page.ModelLine("claude", EVERYTHING, usage), page.ModelLine(EVERYTHING, "m", usage)),
        projects=(page.ProjectLine(EVERYTHING, 1, 5, 4, WHEN.replace(tzinfo=None), usage),),
        sessions=(session,) * 5,
        signals=(
            page.SignalLine("s", "f", "g", "numeric", EVERYTHING, "lower", EVERYTHING, 3, 3, 1.0, 1.0, 1.0, 1.0, 1.0, 3),
            page.SignalLine(
                "t", "f", "g", "categorical", "", "neither", "What.", 3, 0, None, None, None, None, None, 0, ((EVERYTHING, 3),)
            ),
        ),
        memories=(
            page.MemoryLine(
                "mem-1", EVERYTHING, EVERYTHING, EVERYTHING, "needs_review", (EVERYTHING,), EVERYTHING, EVERYTHING, 0.5, 3, 1, 0, ()
            ),
        ),
        usage_lines=(page.UsageLine(date(2026, 11, 21), EVERYTHING, EVERYTHING, EVERYTHING, usage),),
        aggregates=(_aggregate(),),
        tops=(page.SignalTop("command_count", EVERYTHING, EVERYTHING, 3.0),),
        scores=(page.Scores(EVERYTHING, EVERYTHING, ("trajectory_step_count",), (3.0,)),),
        dangling={"mem-1": (EVERYTHING,)},
        judgements=(page.Judgement("2026-11-20T10:00:00Z", EVERYTHING, EVERYTHING, EVERYTHING),),
        prompt_hours=((0, 9, 4),),
        missing=(
            page.Missing("unreadable", EVERYTHING, EVERYTHING, EVERYTHING, 2),
            page.Missing("gap", EVERYTHING, "", EVERYTHING, 1, "a", "b"),
        ),
        prices=(page.PriceLine(EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, 3),),
        memory_total=1,
        memory_status={"needs_review": 1, EVERYTHING: 1},
        tools=(page.ToolLine("claude", EVERYTHING, "shell", 5, 4),),
        redactions={EVERYTHING: 2},
        expiring=(page.Expiring(EVERYTHING, 3, 27, 30),),
        findings=(
            Finding(
                "rule",
                EVERYTHING,
                EVERYTHING,
                EVERYTHING,
                EVERYTHING,
                examples=(Example("claude", EVERYTHING, EVERYTHING, EVERYTHING, 1.0),),
            ),
        ),
    )


def _aggregate() -> dict[str, object]:
    """What is said of one signal whose names, labels and reasons come from a transcript."""
    figures = {"count": 3, "missing": 1, "min": 0.0, "max": 4.0, "mean": 2.0, "median": 2.0, "p90": 4.0, "sum": 6.0}
    facts = {"signal": "interruption_count", "family": "outcomes", "group": "outcome", "kind": "numeric", "unit": EVERYTHING}
    more = {"better": "lower", "reasons": {EVERYTHING: 1}, "histogram": [(0.0, 1.0, 2), (1.0, 2.0, 1)], "trend": None}
    return facts | figures | more | {"labels": {EVERYTHING: 2}, "by": {"project": {EVERYTHING: figures}, "month": {"2026-11": figures}}}


PANELS = pytest.mark.parametrize("panel", discovery.panels(), ids=lambda p: p.name)
SECTIONS = {
    "findings",
    "numbers",
    "activity",
    "year",
    "accounting",
    "projects",
    "signals",
    "scores",
    "memories",
    "user_input",
    "sessions",
    "missing",
}


def test_the_parts_of_the_page_are_found_the_week_first():
    names = [p.name for p in discovery.panels()]

    assert set(names) >= SECTIONS
    assert names[0] == "week"


@PANELS
@pytest.mark.feature("dashboard.text-escaped")
def test_hostile_text_makes_no_element_and_no_handler(panel):
    read = _read(panel.build(_hostile()))

    assert not {"script", "img", "iframe", "object", "embed", "style", "link", "base"} & set(read.elements)
    assert [name for name, _ in read.attributes if name.startswith("on") or name in {"style", "srcdoc"}] == []
    assert [value for name, value in read.attributes if name in {"href", "src"} and not (value or "").startswith("#")] == []
    assert read.strays == []
    assert read.open == []


@PANELS
@pytest.mark.feature("dashboard.text-escaped")
def test_a_panel_that_shows_hostile_text_shows_it_whole(panel):
    read = _read(panel.build(_hostile()))
    everywhere = read.words + "".join(value or "" for _, value in read.attributes)

    assert "owned" not in everywhere or "<img src=x onerror=" in everywhere


@pytest.mark.parametrize("panel", [p for p in discovery.panels() if p.data is not None], ids=lambda p: p.name)
@pytest.mark.feature("dashboard.text-escaped")
def test_the_data_of_a_panel_is_plain_values_in_a_script_that_opens_no_element(panel):
    for data in (_hostile(), page.PageData(generated=WHEN)):
        text = chunk("x", panel.data(data))
        assert not set(text) & set(b"<>&")
        assert isinstance(json.loads(text[text.index(b",") + 1 : text.rindex(b")")]), dict)


@PANELS
@pytest.mark.feature("dashboard.empty-states")
def test_a_panel_without_data_says_so_in_words(panel):
    read = _read(panel.build(page.PageData(generated=WHEN)))

    assert read.open == []
    assert len(read.words.split()) >= 4


@PANELS
def test_a_panel_has_a_title_and_one_sentence_of_explanation(panel):
    assert panel.title
    assert panel.describe.endswith(".")
    assert "\n\n" not in panel.describe
