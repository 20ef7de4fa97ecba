"""Homes of any size that the benchmark makes, and the cost against the size that it prints and draws."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from contextlib import closing
from pathlib import Path

import pytest

from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.bench.cost_plot import Size, plot, table
from ctx_pipeline_tests.bench.homes import add_sessions, make_home

ROOT = Path(__file__).resolve().parents[1]
SMALL, LARGE = Size(40, 5), Size(400, 50)


def read(home: Path, store: Path) -> tuple[int, dict[str, int], int]:
    """Return the sessions, the model calls of each host and the records that were put aside that a first sync of a home finds."""
    settings = Settings(home=store, demo_roots={"claude": (home / ".claude",), "codex": (home / ".codex",)})
    with open_store(settings) as opened:
        sync(opened, settings)
        with closing(opened.lake.connect()) as connection:
            opened.lake.views(connection, ("sessions", "model_calls"))
            calls = connection.execute("SELECT host, count(*) FROM model_calls WHERE owner GROUP BY host").fetchall()
            rows = connection.execute("SELECT count(*), sum(quarantined) FROM sessions").fetchone()
    return int(rows[0]), dict(calls), int(rows[1])


@pytest.mark.feature("bench.sizes")
def test_a_home_that_is_made_has_the_sessions_and_the_bytes_that_were_asked_for_and_none_is_a_copy_of_another(tmp_path: Path):
    few = read(make_home(tmp_path / "few", sessions=12, megabytes=0.4), tmp_path / "few.store")
    many = read(make_home(tmp_path / "many", sessions=24, megabytes=0.8), tmp_path / "many.store")
    longer = read(make_home(tmp_path / "longer", sessions=12, megabytes=4), tmp_path / "longer.store")

    assert (few[0], many[0], longer[0]) == (12, 24, 12)
    assert few[2] == many[2] == longer[2] == 0
    # copies of one session share their calls, and these are counted once
    assert many[1] == {host: pytest.approx(2 * calls, rel=0.2) for host, calls in few[1].items()}
    assert longer[1] == {host: pytest.approx(10 * calls, rel=0.3) for host, calls in few[1].items()}
    written = {name: sum(p.stat().st_size for p in (tmp_path / name).rglob("*.jsonl")) / 1e6 for name in ("few", "many", "longer")}
    assert written == {"few": pytest.approx(0.4, rel=0.2), "many": pytest.approx(0.8, rel=0.2), "longer": pytest.approx(4, rel=0.2)}


@pytest.mark.feature("bench.sizes")
def test_many_sessions_lie_in_one_year_and_too_few_bytes_for_them_are_refused(tmp_path: Path):
    home = make_home(tmp_path, sessions=8_000, megabytes=160)
    days = {path.parent.relative_to(home / ".codex" / "sessions").as_posix() for path in home.rglob("rollout-*.jsonl")}

    assert min(days) >= "2025/10/30"
    assert len(days) > 360
    with pytest.raises(ValueError, match="at least"):
        make_home(tmp_path / "less", sessions=200, megabytes=0.5)


@pytest.mark.feature("bench.sizes")
def test_a_home_is_made_equal_each_time_and_sessions_that_are_added_are_new(tmp_path: Path):
    one, other = (make_home(tmp_path / name, sessions=4, megabytes=0.1) for name in ("one", "other"))

    def files(home: Path) -> dict[str, bytes]:
        return {p.relative_to(home).as_posix(): p.read_bytes() for p in home.rglob("*.jsonl")}

    before = files(one)
    add_sessions(one, 0, megabytes=0.05)
    add_sessions(one, 1, megabytes=0.05)

    assert before == files(other)
    assert len(files(one)) == len(before) + 4
    assert before.items() <= files(one).items()


@pytest.mark.feature("bench.sizes")
def test_the_table_has_a_column_for_each_size_and_says_how_many_times_the_first_the_last_is():
    lines = table({"size: work, processor": {LARGE: (3.0, "s"), SMALL: (1.5, "s")}, "size: store / raw": {SMALL: (0.5, "")}}).splitlines()

    assert lines[0] == "| | 5 MB, 40 sessions | 50 MB, 400 sessions | last / first |"
    assert lines[2] == "| size: work, processor | 1.50 s | 3.00 s | 2.0 |"
    assert lines[3].startswith("| size: store / raw | 0.50 |  |")


@pytest.mark.feature("bench.sizes")
def test_the_picture_draws_what_grows_as_a_line_that_rises_and_what_does_not_as_a_flat_one():
    drawn = ET.fromstring(
        plot(
            {
                "size: run, first, processor": {SMALL: (2.0, "s"), LARGE: (20.0, "s")},
                "size: run, nothing new, processor": {SMALL: (0.2, "s"), LARGE: (0.2, "s")},
            }
        )
    )

    space = "{http://www.w3.org/2000/svg}"
    lines = [[tuple(map(float, point.split(","))) for point in line.get("points", "").split()] for line in drawn.iter(f"{space}polyline")]
    rising, flat = lines
    assert rising[0][0] < rising[1][0]
    assert rising[0][1] > rising[1][1]
    assert flat[0][1] == flat[1][1] > rising[0][1]
    words = {text.text for text in drawn.iter(f"{space}text")}
    assert {"ctx run, first", "ctx run, nothing new", "50 MB", "10 s"} <= words


@pytest.mark.slow
@pytest.mark.feature("bench.sizes")
def test_sizes_that_are_named_are_made_measured_and_printed_as_a_table(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    sizes = ["--size", "1m", "--sessions", "6", "--size", "0.5m", "--sessions", "6"]
    command = [sys.executable, "-m", "ctx_pipeline_tests.bench", *sizes, "--only", "ingest.read"]
    done = processes.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(work)})

    lines = done.stdout.splitlines()
    assert lines[0] == "| | 0.5 MB, 6 sessions | 1 MB, 6 sessions | last / first |", done.stderr[-2000:]
    assert [line for line in lines if line.startswith("| read: every session, with text |")]
    assert list(work.iterdir()) == []
