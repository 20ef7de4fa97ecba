"""Events read from pages by hand are those that Arrow reads, or none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctx_pipeline.storage.lake.parquet_text import PageReader, noted

TIME = pa.timestamp("us")
SCHEMA = pa.schema([("event_id", pa.string()), ("ts", TIME), ("text", pa.string()), ("kind", pa.string())])

TEXTS = st.one_of(
    st.none(),
    st.just(""),
    st.text(max_size=30),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=8), st.integers(1, 20_000)),
)
ROWS = st.lists(
    st.tuples(st.text(min_size=1, max_size=20), st.one_of(st.none(), st.integers(-(2**53), 2**53)), TEXTS), min_size=1, max_size=60
)


def written(path: Path, rows: list[tuple[Any, ...]], **how: Any) -> Path:
    """Write rows of (event_id, ts, text) as parts are written, but for what is given otherwise."""
    schema = how.pop("schema", SCHEMA)
    columns = [*zip(*rows, strict=True), ["prompt"] * len(rows)]
    table = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    usual = {"compression": "zstd", "use_dictionary": ["kind"], "write_statistics": ["ts"]}
    pq.write_table(table, path, **(usual | how))
    return path


def reader(path: Path) -> PageReader:
    return PageReader(lambda _: path)


@pytest.mark.feature("search.pages")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=ROWS, cut=st.tuples(st.integers(1, 60), st.sampled_from([1, 200, 5_000, 131_072]), st.integers(1, 30)), data=st.data())
def test_any_rows_in_any_groups_and_pages_are_read_as_arrow_reads_them(tmp_path, rows, cut, data):
    group, page, batch = cut
    path = written(tmp_path / "part", rows, row_group_size=group, data_page_size=page, write_batch_size=batch)
    note = noted(path)
    asked = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=20))
    read = reader(path).events("part", asked, note)
    assert read is not None
    table = pq.read_table(path).set_column(1, "ts", pq.read_table(path).column("ts").cast(pa.int64())).to_pylist()
    assert [tuple(event) for event in read] == [tuple(table[n][name] for name in ("event_id", "ts", "text")) for n in asked]
    assert reader(path).events("part", [len(rows)], note) is None
    assert reader(path).events("part", [-1], note) is None


ONE = [("a", 5, "apple"), ("b", None, None), ("c", 7, "x" * 100_000)]


@pytest.mark.feature("search.pages")
@pytest.mark.parametrize(
    "how",
    [
        {"compression": "snappy"},
        {"use_dictionary": True},
        {"schema": SCHEMA.set(1, pa.field("ts", pa.timestamp("ms")))},
        {"schema": SCHEMA.set(1, pa.field("ts", pa.int64()))},
        {"schema": SCHEMA.set(0, pa.field("event_id", pa.string(), nullable=False))},
        {"schema": SCHEMA.set(2, pa.field("text", pa.binary()))},
        {"schema": SCHEMA.set(2, pa.field("words", pa.string()))},
    ],
)
def test_files_of_another_make_are_not_noted(tmp_path, how):
    assert noted(written(tmp_path / "part", ONE, **how)) == b""
    assert noted(written(tmp_path / "usual", ONE)) != b""


@pytest.mark.feature("search.pages")
@pytest.mark.parametrize("how", [{"data_page_version": "2.0"}, {"column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}}])
def test_pages_of_another_make_are_left_to_arrow(tmp_path, how):
    path = written(tmp_path / "part", ONE, **({"use_dictionary": False} | how))
    assert reader(path).events("part", [0, 2], noted(path)) is None


@pytest.mark.feature("search.pages")
def test_a_file_that_is_not_the_noted_one_is_not_read(tmp_path):
    path = written(tmp_path / "part", ONE)
    note = noted(path)
    whole = path.read_bytes()
    assert reader(path).events("part", [0], note) is not None
    written(path, [("z", 5, "pear"), ("y", None, None), ("x", 7, "w" * 99_000)])
    assert reader(path).events("part", [0], note) is None
    path.write_bytes(whole[:-1])
    assert reader(path).events("part", [0], note) is None
    path.unlink()
    assert reader(path).events("part", [0], note) is None


@pytest.mark.feature("search.pages")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_survived(tmp_path, data):
    path = written(tmp_path / "part", ONE)
    note = noted(path)
    body = bytearray(path.read_bytes())
    _, groups, time = json.loads(note)
    for place, size in ((groups[0][n], groups[0][n + 1]) for n in (1, 3, 5)):
        if data.draw(st.booleans()):
            body[place + data.draw(st.integers(0, min(40, size - 1)))] = data.draw(st.integers(0, 255))
    path.write_bytes(body)
    os.utime(path, ns=(1, 1))
    assert reader(path).events("part", [0, 1, 2], note) is None  # written at another time than the part that was noted
    os.utime(path, ns=(time, time))
    read = reader(path).events("part", [0, 1, 2], note)
    assert read is None or len(read) == 3


@pytest.mark.feature("search.pages")
def test_unpacked_pages_are_dropped_by_their_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.lake.parquet_text._KEPT_BYTES", 250_000)
    rows = [(f"e{n}", n, f"{n} " * 30_000) for n in range(20)]
    path = written(tmp_path / "part", rows, data_page_size=1, write_batch_size=1)
    pages = reader(path)
    read = pages.events("part", range(20), noted(path))
    assert read is not None
    assert [event.text for event in read] == [text for _, _, text in rows]
    assert sum(page.size for page in pages._kept.values()) <= 250_000
