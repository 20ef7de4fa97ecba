"""The published Claude sessions give the figures that others counted."""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache

import pytest

from ctx_pipeline.hosts.claude_code import HOST
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories.homes import parse_home

HOME = CORPUS / "claude"
TRICKY = "projects/-derived-tricky/de000000-0000-4000-8000-0000000000"


@cache
def parse_file(rel: str) -> Parsed:
    data = (HOME / rel).read_bytes()
    kind = HOST.files.classify(rel)
    assert kind in ("transcript", "agent")
    identity = HOST.files.identify(kind, rel, data[:65_536])
    assert identity is not None
    stream = StreamBytes("c" * 16, kind, rel, 0, data, identity.thread_id)
    return HOST.records.parse(SessionInput("claude", identity.root_session_id or "", (stream,)))


def by_model(parsed: Parsed) -> dict[str, tuple[int, ...]]:
    """Return model -> calls, input, five-minute, one-hour, read, output."""
    found: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for row in parsed.model_calls:
        call = MODEL_CALLS.row(*row)
        sums = found[call.model]
        for place, value in enumerate((1, call.input, call.cache_write_5m, call.cache_write_1h, call.cache_read, call.output)):
            sums[place] += value
    return {model: tuple(sums) for model, sums in found.items()}


@corpus
@pytest.mark.feature("claude.corpus-usage")
def test_usage_of_every_file_and_model_equals_the_reference() -> None:
    expected: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    with (CORPUS / "reference_usage.tsv").open() as table:
        for row in csv.DictReader(table, delimiter="\t"):
            # a synthetic line is no call; the file without any id is counted a line a call here
            if row["file"].startswith("claude/") and row["model"] not in ("<synthetic>", "None"):
                names = ("calls", "input_uncached", "cache_write_5m", "cache_write_1h", "cache_read", "output")
                calls, fresh, short, long, read, output = (int(row[name]) for name in names)
                short += int(row["cache_write_unsplit"])
                expected[row["file"].removeprefix("claude/")][row["model"]] = (calls, fresh, short, long, read, output)
    assert len(expected) > 150
    wrong = {rel: (by_model(parse_file(rel)), models) for rel, models in expected.items() if by_model(parse_file(rel)) != models}
    assert wrong == {}


@corpus
@pytest.mark.feature("claude.corpus-usage")
def test_totals_that_peers_state_of_whole_files() -> None:
    names = {
        "input_tokens": 1,
        "output_tokens": 5,
        "cache_read_tokens": 4,
        "cache_read_input_tokens": 4,
        "api_call_count": 0,
    }
    checked = 0
    with (CORPUS / "expected.tsv").open() as table:
        for row in csv.DictReader(table, delimiter="\t"):
            quantity, _, span = row["quantity"].partition(" of lines ")
            if not row["file"].startswith("claude/") or quantity not in names or (span and span != "0.. (0-based) to end of file"):
                continue
            models = by_model(parse_file(row["file"].removeprefix("claude/"))).values()
            assert sum(sums[names[quantity]] for sums in models) == int(row["expected value"]), (row["file"], row["quantity"])
            checked += 1
    assert checked > 100


@corpus
@pytest.mark.feature("claude.corpus")
@pytest.mark.parametrize(
    ("number", "lines", "quarantined"),
    [
        ("01", None, 0),
        ("02", None, 0),
        ("03", None, 1),
        ("04", 0, 0),
        ("05", None, 0),
        ("06", None, 5),
        ("07", None, 0),
        ("08", None, 1),
        ("10", None, 0),
    ],
)
def test_tricky_files_are_read_and_their_bad_lines_counted(number: str, lines: int | None, quarantined: int) -> None:
    parsed = parse_file(f"{TRICKY}{number}.jsonl")
    assert len(parsed.quarantined) == quarantined
    assert lines is None or parsed.lines == lines
    assert (lines == 0) == (not parsed.events)


@corpus
@pytest.mark.feature("claude.corpus")
def test_the_whole_home_parses_with_moved_doubled_and_forked_sessions() -> None:
    home = parse_home(HOST, HOME)
    moved = home["79eb9f8a-232c-4a72-a26b-4b4520ef2152"]
    alone = parse_file("projects/-Users-paul-src-entireio-cli/79eb9f8a-232c-4a72-a26b-4b4520ef2152.jsonl")
    assert (len(moved.events), by_model(moved)) == (len(alone.events), by_model(alone))
    doubled = home["de000000-0000-4000-8000-000000000011"]
    assert len({row[0] for row in doubled.events}) == len(doubled.events)
    prompts = [EVENTS.row(*row) for row in home["queued_system_messages"].events]
    assert [(e.kind, e.subtype) for e in prompts] == [
        ("prompt", None),
        ("injected", "task-notification"),
        ("injected", "task-notification"),
    ]
    unknown = {label for parsed in home.values() for label in parsed.unknown}
    assert unknown == {"record/from-the-future", "record/none", "record/user", "record/assistant"}


@corpus
@pytest.mark.feature("claude.corpus")
def test_prices_and_speed_of_old_lines_are_kept() -> None:
    calls = [MODEL_CALLS.row(*row) for row in parse_file("projects/project-alpha/session-alpha/chat.jsonl").model_calls]
    assert [c.recorded_cost for c in calls] == [120_000_000, 340_000_000, 560_000_000]
    assert [c.speed for c in calls] == [None, "fast", None]
    (old,) = parse_file(f"{TRICKY}12.jsonl").model_calls
    assert MODEL_CALLS.row(*old).recorded_cost == 75_192_000
