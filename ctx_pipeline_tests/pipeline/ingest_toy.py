"""A toy host with a parser of ten lines, so that tests of ingest know every row by heart.

A line is ``{"ts", "text", "kind", "key", "in", "out"}``; the first line of a file also
has ``id`` and, for a fork, ``parent`` and ``relation``. ``{"boom": true}`` makes the
parser raise, ``{"twice": true}`` makes it repeat an event id.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Records
from ctx_pipeline.model.raw import Parsed, Quarantined, SessionFacts, SessionInput, ThreadFacts
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.pipeline.toy_home import TOY

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.reports import CellReport, StageReport
    from ctx_pipeline.storage import Store


def parse(given: SessionInput) -> Parsed:
    parsed = Parsed(SessionFacts(cwd="/code/shop"))
    calls: dict[str, tuple] = {}
    for stream in given.streams:
        parsed.threads.append(ThreadFacts(stream.thread_id, title=given.hints.get(stream.thread_id, {}).get("title")))
        start = 0
        for number, raw in enumerate(stream.data.splitlines(keepends=True)):
            end = start + len(raw)
            place = (stream.stream, stream.generation, start, end, number)
            start = end
            parsed.lines += 1
            try:
                said = json.loads(raw)
            except ValueError:
                parsed.quarantined.append(Quarantined(stream.stream, stream.generation, number, place[2], end, "not JSON"))
                continue
            if said.get("boom"):
                raise ValueError(f"secret content {raw!r}")
            block = 0 if said.get("twice") else number
            ids = (given.host, given.session_id, stream.thread_id)
            event = f"{stream.stream}.{stream.generation}.{block}.0"
            ts = micros(said.get("ts"))
            parsed.events.append(
                (event, *ids, number, ts, said.get("kind", "prompt"), None, "user", said.get("text"), None, None, None, *place)
            )
            if key := said.get("key"):
                tokens = (said.get("in", 1), said.get("out", 1), 0, 0, 0, 0, said.get("in", 1))
                calls.setdefault(key, (key, *ids, ts, "gpt-5", *tokens, None, None, 0, None, None, None, False, True, None, "key", *place))
            if command := said.get("run"):
                parsed.tool_calls.append(
                    (f"c{number}", *ids, number, "Bash", "shell", [], [], [command], 0, False, None, None, 1, 1, ts, ts, event, None)
                )
    parsed.model_calls = list(calls.values())
    return parsed


HOST = replace(TOY, records=Records(parse=parse))
HOSTS = {"toy": HOST}


def settings_of(tmp_path: Path, *roots: Path, store: str = "store", **more: Any) -> Settings:
    return Settings(home=tmp_path / store, demo_roots={"toy": roots or (tmp_path / "toy",)}, **more)


def run(store: Store, settings: Settings, **options: Any) -> dict[str, StageReport]:
    return {r.stage: r for r in ingest(store, settings, hosts=HOSTS, **options)}


def cells_of(reports: dict[str, StageReport]) -> dict[str, CellReport]:
    return reports["normalize"].cells


def rows(store: Store, table: str) -> list[dict[str, Any]]:
    """Return the live rows of a table, through DuckDB, in key order."""
    connection = store.lake.connect()
    try:
        cursor = connection.execute(f"SELECT * FROM ({store.lake.relation_sql(table)}) ORDER BY ALL")
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    finally:
        connection.close()


def hashes(store: Store) -> dict[Cell, str]:
    return {cell: m.content_hash for cell, m in store.lake.manifests("normalized").items()}
