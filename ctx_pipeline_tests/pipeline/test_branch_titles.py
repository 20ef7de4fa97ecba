"""A ``summary`` record that stands in one file and titles the session in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions import pages
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.pipeline.ingest_toy import rows

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline_tests.factories.claude import Transcript

pytestmark = pytest.mark.feature("claude.branch-titles")

OWNER = "11110000-0000-4000-8000-000000000000"
TELLER = "22220000-0000-4000-8000-000000000000"
OTHER = "33330000-0000-4000-8000-000000000000"


def owner(home: ClaudeHome, **fields: str) -> Transcript:
    return (
        home.session(OWNER, version="1.0.24", **fields).prompt("find the bug").answer(text("found")).prompt("mend it").answer(text("done"))
    )


def teller(home: ClaudeHome, *told: tuple[str, str | None], name: str = TELLER) -> Transcript:
    transcript = home.session(name, version="1.0.24", slug="-home-dev-other")
    for title, leaf in told:
        transcript.plain("summary", summary=title, leafUuid=leaf)
    return transcript


def titles(chosen: Settings) -> dict[str, tuple[str | None, str]]:
    """Bring the store up to date and return session -> title and its source; what lists show says the same."""
    with open_store(chosen) as store:
        ingest(store, chosen)
        found = {s["session_id"]: (s["title"], s["title_source"]) for s in rows(store, "sessions")}
        assert store.ledger.unfinished_cells() == set()
    assert {s.session_id: s.title for s in pages.newest(settings=chosen)[0]} == {session: title for session, (title, _) in found.items()}
    return found


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    return ClaudeHome(tmp_path / "claude")


@pytest.fixture
def chosen(tmp_path: Path, home: ClaudeHome) -> Settings:
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)})


@pytest.mark.parametrize("order", ["together", "owner first", "teller first"])
def test_a_title_reaches_the_session_that_owns_the_leaf_in_any_order(home: ClaudeHome, chosen: Settings, order: str) -> None:
    mine = owner(home)
    other = teller(home, ("The bug", mine.last_uuid), ("Of nobody", "u-unknown")).prompt("next task").answer(text("ok"))
    for transcript in (other, mine) if order == "teller first" else (mine, other):
        transcript.save()
        if order != "together":
            titles(chosen)
    assert titles(chosen) == {OWNER: ("The bug", "summary"), TELLER: ("next task", "prompt")}


def test_a_title_stays_when_its_session_goes_on_and_follows_a_later_one(home: ClaudeHome, chosen: Settings) -> None:
    mine = owner(home)
    mine.save()
    other = teller(home, ("The bug", mine.last_uuid))
    other.save()
    assert titles(chosen)[OWNER] == ("The bug", "summary")
    mine.prompt("and the next").answer(text("done too")).save()
    assert titles(chosen)[OWNER] == ("The bug", "summary")
    other.plain("summary", summary="Both bugs", leafUuid=mine.last_uuid).save()
    assert titles(chosen)[OWNER] == ("Both bugs", "summary")
    mine.plain("custom-title", customTitle="By hand", sessionId=OWNER).save()
    assert titles(chosen)[OWNER] == ("By hand", "custom")


def test_of_several_tellers_the_last_branch_counts_then_the_last_id(home: ClaudeHome, chosen: Settings) -> None:
    mine = owner(home)
    mine.save()
    early = f"u{OWNER[:4]}-1"
    teller(home, ("Half of it", early), name=OTHER).save()
    assert titles(chosen)[OWNER] == ("Half of it", "summary")
    teller(home, ("All of it", mine.last_uuid)).save()
    assert titles(chosen)[OWNER] == ("All of it", "summary")
    teller(home, ("Half of it", early), ("Said last", mine.last_uuid), name=OTHER).save()
    assert titles(chosen)[OWNER] == ("Said last", "summary")


def test_a_fork_that_copied_the_leaf_keeps_its_own_title(home: ClaudeHome, chosen: Settings) -> None:
    mine = owner(home)
    mine.save()
    fork = home.session(OTHER, version="2.0.28")
    origin = {"forkedFrom": {"sessionId": OWNER, "messageUuid": mine.last_uuid}}
    fork.records = [r | {"sessionId": OTHER} | origin for r in mine.records if isinstance(r, dict)]
    fork.last_uuid = mine.last_uuid
    fork.prompt("another way").answer(text("so be it")).save()
    teller(home, ("The bug", mine.last_uuid)).save()
    found = titles(chosen)
    assert (found[OWNER], found[OTHER]) == (("The bug", "summary"), ("find the bug", "prompt"))


def test_a_title_goes_with_the_session_that_told_it_and_is_redacted(home: ClaudeHome, chosen: Settings) -> None:
    mine = owner(home)
    mine.save()
    secret = "sk-ant-api03-" + "Zx9" * 31 + "-AA"
    teller(home, (f"Rotate {secret}", mine.last_uuid)).prompt("next task").save()
    title, source = titles(chosen)[OWNER]
    assert source == "summary"
    assert title is not None
    assert title.startswith("Rotate ")
    assert "Zx9" not in title
    with open_store(chosen) as store:
        forget(store, chosen, Selection(host="claude", session_id=TELLER))
    assert titles(chosen)[OWNER] == ("find the bug", "prompt")
