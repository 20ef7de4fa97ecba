"""What every host must hold behind its parser: its sample home is captured, counted and shown, in any order and twice.

A stream of a database in a sample (a file named ``<path>#<stream>``) becomes a database
with the rows that it holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.integrations import export
from ctx_pipeline.maintenance.doctor import understood
from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline.capture.scanning import scan
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.render import render as render_page
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.sessions.markdown import render
from ctx_pipeline.settings import Settings, load
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.contracts.test_hosts import every_host, samples_of

if TYPE_CHECKING:
    from ctx_pipeline.model.declared import Host

MOST_LOOKS = 500
"""Calls of the operating system that two milliseconds hold, four microseconds each."""


def put_database(path: Path, lines: bytes) -> None:
    """Write the rows of a captured stream into a database, and their tables where it lacks them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for line in lines.splitlines():
        with contextlib.suppress(ValueError):  # a line of a sample that is meant to be broken is no row
            rows.append(json.loads(line))
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in dict.fromkeys(row["table"] for row in rows):
            mine = [row["row"] for row in rows if row["table"] == table]
            columns = list(dict.fromkeys(name for row in mine for name in row))
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [[row.get(name) for name in columns] for row in mine])


def copied(host: Host, home: Path, *, only: set[str] | None = None) -> list[str]:
    """Write a host's sample home, all of it or some of its files; return the paths in it."""
    sample = samples_of(host) / "home"
    found = []
    for path in sorted(p for p in sample.rglob("*") if p.is_file()):
        rel = path.relative_to(sample).as_posix()
        found.append(rel)
        if only is not None and rel not in only:
            continue
        name, of_database, _ = rel.partition("#")
        if of_database:
            put_database(home / name, path.read_bytes())
        else:
            (home / rel).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, home / rel)
    return found


def store_at(place: Path, host: Host, *homes: Path) -> Settings:
    return Settings(home=place, timezone="UTC", demo_roots={host.key: homes})


def ingested(chosen: Settings) -> dict[Any, str]:
    """Bring the store up to date; return the content hash of every cell of every normalized table."""
    with open_store(chosen) as store:
        ingest(store, chosen)
        return {
            (table, cell): made.content_hash
            for table in NORMALIZED
            for cell, made in store.ledger.asset_cells(f"normalized/{table}").items()
        }


def expected(host: Host) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((samples_of(host) / "expected.json").read_text())
    return found


SUMS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens")


def totals(chosen: Settings, *, stored: bool) -> dict[str, int]:
    found = usage("host", settings=chosen, stored=stored).totals
    return {name: found[name] for name in SUMS}


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_the_files_the_tables_and_the_expected_rows_agree_on_usage(host: Host, tmp_path: Path):
    copied(host, tmp_path / "home")
    said = expected(host).values()
    columns = ("model_calls", "input", "output", "cache_read", "reasoning")
    sums = {name: sum(one.get(column, 0) for one in said) for name, column in zip(SUMS, columns, strict=True)}
    told = {
        name: total for name, column in zip(SUMS, columns, strict=True) if all(column in one for one in said) and (total := sums[name]) >= 0
    }

    live = totals(store_at(tmp_path / "none", host, tmp_path / "home"), stored=False)
    chosen = store_at(tmp_path / "store", host, tmp_path / "home")
    ingested(chosen)
    kept = totals(chosen, stored=True)

    assert {name: kept[name] for name in told} == told
    assert live == kept


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_files_that_arrive_one_by_one_give_the_tables_of_one_pass(host: Host, tmp_path: Path):
    home = tmp_path / "home"
    for rel in reversed(copied(host, tmp_path / "nowhere", only=set())):
        copied(host, home, only={rel})
        grown = ingested(store_at(tmp_path / "slow", host, home))

    assert grown == ingested(store_at(tmp_path / "quick", host, home))


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_lines_that_arrive_in_pieces_give_the_tables_of_the_whole(host: Host, tmp_path: Path):
    home = tmp_path / "home"
    whole = {rel: (home / rel).read_bytes() for rel in copied(host, home) if rel.endswith(".jsonl")}
    for part in (0.4, 0.7, 1.0):
        for rel, data in whole.items():
            (home / rel).write_bytes(data[: int(len(data) * part)])
        pieces = ingested(store_at(tmp_path / "slow", host, home))

    assert pieces == ingested(store_at(tmp_path / "quick", host, home))


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_a_second_home_with_the_same_files_adds_nothing(host: Host, tmp_path: Path):
    copied(host, tmp_path / "one")
    copied(host, tmp_path / "two")
    alone, both = store_at(tmp_path / "a", host, tmp_path / "one"), store_at(tmp_path / "b", host, tmp_path / "one", tmp_path / "two")
    ingested(alone)
    ingested(both)

    assert totals(both, stored=True) == totals(alone, stored=True)
    assert totals(store_at(tmp_path / "none", host, tmp_path / "one", tmp_path / "two"), stored=False) == totals(alone, stored=True)


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_a_damaged_file_costs_its_own_session_alone(host: Host, tmp_path: Path):
    files = [rel for rel in copied(host, tmp_path / "home") if "#" not in rel]
    for rel in files[:1]:
        data = (tmp_path / "home" / rel).read_bytes()
        (tmp_path / "home" / rel).write_bytes(data[: len(data) // 2] + b"\x00\xff{")
    chosen = store_at(tmp_path / "store", host, tmp_path / "home")
    ingested(chosen)

    with open_store(chosen) as store:
        assert len(store.ledger.sessions()) >= len(expected(host)) - 1


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_facts_transcript_and_formats_show_each_session(host: Host, tmp_path: Path):
    copied(host, tmp_path / "home")
    chosen = store_at(tmp_path / "store", host, tmp_path / "home")
    ingested(chosen)

    with open_store(chosen) as store:
        make_facts(store, chosen)
        found = understood(store)
    assert {one.host for one in found} == {host.key}
    assert sum(one.sessions for one in found) == len(expected(host))
    assert all(0 < share <= 1 for one in found for share in one.shares)
    for session, one in expected(host).items():
        shown = render(host.key, session, settings=chosen)
        assert all(words in shown for prompt in one.get("prompts", ()) for words in (prompt or "").split()[:3])
    with pytest.raises(UnknownName):
        render(host.key, "nobody-has-this-id", settings=chosen)


@every_host
@pytest.mark.feature("hosts.surfaces")
def test_page_and_exports_hold_every_session_and_event(host: Host, tmp_path: Path):
    copied(host, tmp_path / "home")
    chosen = store_at(tmp_path / "store", host, tmp_path / "home")
    ingested(chosen)
    events = sum(sum(one["events"].values()) for one in expected(host).values())

    with open_store(chosen) as store:
        make_facts(store, chosen)
        build_warehouse(store, chosen)
        render_page(store, chosen)
        site = store.files.local("site")
    page = "".join(p.read_text("utf-8", "replace") for p in sorted(site.rglob("*")) if p.suffix in {".html", ".js", ".json"})
    assert all(session in page for session in expected(host))
    assert export.parquet(tmp_path / "tables", settings=chosen)["events"] == events
    assert export.opentraces(tmp_path / "traces.jsonl", settings=chosen)[0] == len(expected(host))
    assert len(export.markdown(tmp_path / "texts", settings=chosen)) == len(expected(host))


@every_host
@pytest.mark.feature("hosts.absent")
def test_a_host_that_is_not_installed_costs_a_look_at_each_of_its_places(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nobody = {"HOME": str(tmp_path / "nobody"), "XDG_CONFIG_HOME": str(tmp_path / "x"), "APPDATA": str(tmp_path / "a")}
    chosen = load(nobody, home=tmp_path / "store")
    looks: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            looks.append(f"{name} {arguments[0]}")
            return real(*arguments, **named)

        return call

    with open_store(chosen) as store:
        scan(store, chosen, hosts={})
        for name in ("stat", "lstat", "scandir", "readlink"):
            monkeypatch.setattr(os, name, counted(name))
        found = scan(store, chosen, hosts={host.key: host})
        monkeypatch.undo()

    assert (found.sources, found.problems) == (0, [])
    assert len(looks) <= MOST_LOOKS
    assert not [look for look in looks if look.startswith("scandir")]
