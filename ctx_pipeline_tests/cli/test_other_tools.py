"""The tables as other programs see them: plain Parquet and a plain DuckDB file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

NOTEBOOK = """
import json, sys
sys.modules["ctx_pipeline"] = None  # not even by accident
import duckdb
import pyarrow.parquet as pq

store = sys.argv[1]
table = pq.read_table(f"{store}/lake/events", columns=["event_id", "session_id", "kind", "ts", "host", "month"])
parts = f"read_parquet('{store}/lake/sessions/*/*/*.parquet', hive_partitioning = true)"
sessions = duckdb.sql(f"SELECT host, month, count(*) FROM {parts} GROUP BY ALL ORDER BY ALL")
serving = duckdb.connect(f"{store}/serving/ctx.duckdb", read_only=True)
print(json.dumps({
    "events": table.num_rows,
    "kinds": sorted(set(table.column("kind").to_pylist())),
    "time": str(table.schema.field("ts").type),
    "months": sorted(set(table.column("month").to_pylist())),
    "sessions": sessions.fetchall(),
    "calls": serving.execute("SELECT sum(calls) FROM usage_by_day").fetchone()[0],
    "views": serving.execute("SELECT count(*) FROM events").fetchone()[0],
}, default=int))
"""


@pytest.mark.feature("warehouse.notebook")
def test_a_notebook_without_this_package_reads_the_parquet_files_and_the_warehouse(ran: Ctx):
    done = subprocess.run([sys.executable, "-c", NOTEBOOK, str(ran.store)], capture_output=True, text=True, check=True, timeout=250)
    told = json.loads(done.stdout)
    ours = ran.json("sql", "select count(*) as events, count(distinct kind) as kinds from events")["rows"][0]

    assert told["events"] == told["views"] == ours["events"] > 50
    assert len(told["kinds"]) == ours["kinds"]
    assert told["time"] == "timestamp[us]"
    assert sum(n for _, _, n in told["sessions"]) == 6
    assert told["months"] == sorted({month for _, month, _ in told["sessions"]})
    assert told["calls"] == ran.json("usage", "model")["totals"]["calls"]
