"""However files grow, are ordered, copied or moved: the same tables and the same totals."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.strategies import PATIENCE, claude_homes, codex_homes, examples, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline_tests.strategies import Files

pytestmark = pytest.mark.timeout(PATIENCE)

HOMES = {"claude": claude_homes(), "codex": codex_homes()}
both = pytest.mark.parametrize("host", sorted(HOMES))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder in which every example makes its own."""
    return tmp_path


def fresh(room: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=room))


def store_at(place: Path, host: str, *roots: Path, name: str = "store") -> Settings:
    return Settings(home=place / name, timezone="UTC", demo_roots={host: roots or (place / "home",)})


def ingested(chosen: Settings) -> dict[Any, str]:
    """Bring the store up to date; return the content hash of every cell of every normalized table."""
    with open_store(chosen) as store:
        ingest(store, chosen)
        return {
            (table, cell): made.content_hash
            for table in NORMALIZED
            for cell, made in store.ledger.asset_cells(f"normalized/{table}").items()
        }


def totals(chosen: Settings) -> tuple[int, ...]:
    """Return calls, tokens and costs that the store counts, over all sessions."""
    from ctx_pipeline.usage.engine import usage
    from ctx_pipeline.usage.rollup import SUMS

    found = usage("daily", settings=chosen, stored=True).totals
    return tuple(found[n] for n in SUMS)


@both
@pytest.mark.feature("hosts.append-splits")
def test_any_split_of_the_files_into_appends_gives_the_tables_of_the_whole(room: Path, host: str):
    @examples(5)
    @given(data=st.data())
    def split(data: st.DataObject) -> None:
        place = fresh(room)
        files: Files = data.draw(HOMES[host])
        cuts = {
            rel: sorted(data.draw(st.integers(0, len(body)), label=rel) for _ in range(2)) if rel.endswith(".jsonl") else [len(body)] * 2
            for rel, body in files.items()
        }
        for step in range(2):
            put(place / "home", {rel: body[: cuts[rel][step]] for rel, body in files.items()})
            ingested(store_at(place, host, name="grown"))
        put(place / "home", files)
        assert ingested(store_at(place, host, name="grown")) == ingested(store_at(place, host, name="whole"))
        shutil.rmtree(place)

    split()


@both
@pytest.mark.feature("ingest.prefix-property")
def test_any_order_of_arrival_gives_the_tables_of_one_pass(room: Path, host: str):
    @examples(5)
    @given(data=st.data())
    def shuffled(data: st.DataObject) -> None:
        place = fresh(room)
        files: Files = data.draw(HOMES[host])
        for rel in data.draw(st.permutations(sorted(files))):
            put(place / "home", {rel: files[rel]})
            ingested(store_at(place, host, name="one-by-one"))
        assert ingested(store_at(place, host, name="one-by-one")) == ingested(store_at(place, host, name="at-once"))
        shutil.rmtree(place)

    shuffled()


@both
@pytest.mark.feature("ingest.prefix-property")
def test_a_second_home_with_the_same_files_and_a_moved_one_change_no_total(room: Path, host: str):
    @examples(5)
    @given(files=HOMES[host])
    def doubled(files: Files) -> None:
        place = fresh(room)
        put(place / "home", files)
        once = store_at(place, host, name="once")
        before = ingested(once)
        put(place / "copy", dict(reversed(files.items())))
        for roots in ((place / "home", place / "copy"), (place / "copy", place / "home")):
            twice = store_at(place, host, *roots, name=f"twice-{roots[0].name}")
            ingested(twice)
            assert totals(twice) == totals(once)
        assert ingested(once) == before
        shutil.rmtree(place / "home")
        moved = store_at(place, host, place / "copy", name="once")
        ingested(moved)
        assert totals(moved) == totals(twice)
        shutil.rmtree(place)

    doubled()


@pytest.mark.feature("ingest.prefix-property")
def test_a_project_folder_that_was_renamed_keeps_its_totals(room: Path):
    @examples(5)
    @given(files=HOMES["claude"])
    def renamed(files: Files) -> None:
        place = fresh(room)
        put(place / "home", files)
        chosen = store_at(place, "claude")
        ingested(chosen)
        before = totals(chosen)
        (place / "home/projects/-home-sam-code-acme").rename(place / "home/projects/-srv-acme")
        ingested(chosen)
        assert totals(chosen) == before
        other = store_at(place, "claude", name="later")
        ingested(other)
        assert totals(other) == before
        shutil.rmtree(place)

    renamed()


@both
@pytest.mark.feature("usage.newer-than-store")
def test_homes_and_tables_agree_on_every_drawn_home(room: Path, host: str):
    from ctx_pipeline.usage.engine import usage

    @examples(5)
    @given(files=HOMES[host])
    def agree(files: Files) -> None:
        place = fresh(room)
        put(place / "home", files)
        chosen = store_at(place, host)
        for by in ("daily", "session", "model"):
            direct = usage(by, settings=store_at(place, host, name="none"))
            ingested(chosen)
            assert usage(by, settings=chosen, stored=True).rows == direct.rows
        shutil.rmtree(place)

    agree()
