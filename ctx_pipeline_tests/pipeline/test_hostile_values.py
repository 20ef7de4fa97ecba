"""Values that no record should hold are bounded, counted and break nothing, from file to total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import dashboard_queries, database
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import codex as make_codex
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, text
from ctx_pipeline_tests.pipeline.ingest_toy import rows

if TYPE_CHECKING:
    from pathlib import Path


def ingested(tmp_path: Path, **roots: Path) -> dict[str, list[dict[str, Any]]]:
    """Ingest the homes, hold live usage against the tables, and return rows; no cell may be held back."""
    chosen = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={host: (root,) for host, root in roots.items()})
    live = usage("daily", settings=chosen).rows
    with open_store(chosen) as store:
        reports = ingest(store, chosen)
        assert not [cell for report in reports for cell in report.cells.values() if cell.error]
        assert usage("daily", settings=chosen, stored=True).rows == live
        return {table: rows(store, table) for table in ("model_calls", "events", "sessions")}


NUMBERS: list[tuple[Any, int]] = [
    (10_000_000, 10_000_000),
    (10**12, 10**12),
    (10**12 + 1, 0),
    (2**80, 0),
    (-5, 0),
    (7.9, 7),
    ("12", 0),
    ([12], 0),
    (None, 0),
    (True, 0),
]
"""What a record says, and the tokens that count."""

CLOCKS: list[tuple[Any, str | None]] = [
    ("2026-03-05T10:00:00.000Z", "2026-03-05 10:00:00"),
    ("2026-03-05T10:00:00", "2026-03-05 10:00:00"),
    ("2026-03-05T12:00:00+02:00", "2026-03-05 10:00:00"),
    ("2099-01-01T00:00:00Z", "2099-01-01 00:00:00"),
    ("9999-12-31T23:59:59Z", None),
    ("0001-01-01T00:00:00Z", None),
    ("yesterday", None),
    (1_772_704_800, None),
    ("", None),
]
"""What a record says, and the time that is stored."""


def session_id(number: int) -> str:
    return f"{number:04d}0000-0000-4000-8000-000000000000"


@pytest.mark.feature("ingest.hostile-values")
def test_a_number_of_tokens_counts_when_it_can_be_one(tmp_path: Path) -> None:
    home = ClaudeHome(tmp_path / "claude")
    for number, (said, _) in enumerate(NUMBERS):
        home.session(session_id(number)).answer(text("a"), usages=[{"input_tokens": said, "output_tokens": 5}]).save()
    found = {c["session_id"]: (c["input"], c["output"]) for c in ingested(tmp_path, claude=tmp_path / "claude")["model_calls"]}
    assert found == {session_id(n): (counted, 5) for n, (_, counted) in enumerate(NUMBERS)}


@pytest.mark.feature("ingest.hostile-values")
def test_a_cost_beyond_every_integer_breaks_neither_usage_nor_the_warehouse(tmp_path: Path) -> None:
    session = ClaudeHome(tmp_path / "claude").session()
    for _ in range(200):
        session.answer(text("a"), usages=[{"input_tokens": 0, "output_tokens": 10**12}], model="claude-opus-4-20250514")
    session.save()
    assert len(ingested(tmp_path, claude=tmp_path / "claude")["model_calls"]) == 200  # holds live usage against the tables as well
    chosen = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})
    with open_store(chosen) as store:
        database.build(database.views(store.lake), tmp_path / "ctx.duckdb")
        with database.connect(tmp_path / "ctx.duckdb", read_only=True) as connection:
            (line,) = dashboard_queries.rows(connection, "models")
    # 200 times 10^12 tokens at 75 dollars a million are 1.5e19 nano-dollars, more than a column holds
    assert sum(row["cost_nano"] for row in usage("daily", settings=chosen, stored=True).rows) == 15 * 10**18
    assert (line["output_tokens"], line["cost_nano"]) == (200 * 10**12, 2**63 - 1)


@pytest.mark.feature("ingest.hostile-values")
@pytest.mark.parametrize(("said", "searches"), [(3, 3), (10**6, 10**6), (10**12, 0), (-1, 0)])
def test_a_number_of_searches_counts_when_it_can_be_one(tmp_path: Path, said: int, searches: int) -> None:
    used = {"input_tokens": 0, "output_tokens": 1, "server_tool_use": {"web_search_requests": said}}
    ClaudeHome(tmp_path / "claude").session().answer(text("a"), usages=[used]).save()
    (call,) = ingested(tmp_path, claude=tmp_path / "claude")["model_calls"]
    assert call["web_searches"] == searches


@pytest.mark.feature("ingest.hostile-values")
def test_a_clock_is_read_with_or_without_a_zone_and_one_beyond_reason_is_no_time(tmp_path: Path) -> None:
    home = ClaudeHome(tmp_path / "claude")
    for number, (clock, _) in enumerate(CLOCKS):
        home.session(session_id(number)).answer(text("a"), timestamp=clock).save()
    found = ingested(tmp_path, claude=tmp_path / "claude")
    times = {c["session_id"]: str(c["ts"]) if c["ts"] else None for c in found["model_calls"]}
    assert times == {session_id(n): stored for n, (_, stored) in enumerate(CLOCKS)}
    assert max(s["month"] for s in found["sessions"]) < "2027"


@pytest.mark.feature("ingest.hostile-values")
def test_ids_that_look_like_paths_become_harmless_and_their_sessions_are_counted(tmp_path: Path) -> None:
    bad = "../../../etc/passwd"
    make_codex.write(tmp_path / "codex", [make_codex.meta(0, bad), *make_codex.session()[1:]])
    home = ClaudeHome(tmp_path / "claude")
    home.agent("..", SESSION, layout="old").answer(text("a"), sessionId=bad, agentId=bad).save()
    found = ingested(tmp_path, codex=tmp_path / "codex", claude=tmp_path / "claude")
    assert len(found["sessions"]) == 2
    assert all(s["session_id"].isalnum() and len(s["session_id"]) in {32, 33} for s in found["sessions"])
    assert sum(c["output"] for c in found["model_calls"]) == 105
    assert not list(tmp_path.rglob("*passwd*"))
