"""The share of records, types and fields that is understood, by host and version, and the check that warns when it drops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.maintenance.doctor import Understood, understood
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import contract_checks
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.usage.conftest import ingested

OLD, NEW = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Twenty records of a known version; of the thirty of a newer one, ten of a type and five with a field of tomorrow, one broken."""
    home = ClaudeHome(tmp_path / "claude")
    old = home.session(OLD, version="2.1.9")
    for n in range(10):
        old.prompt(f"say {n}").answer(text("done"))
    old.save()
    new = home.session(NEW, version="2.1.10")
    for n in range(7):
        new.prompt(f"say {n}").answer(text("done"))
    for n in range(10):
        new.plain("thought-cloud", n=n, sessionId=NEW)
    for n in range(5):
        new.prompt(f"more {n}", moodRing="calm")
    new.raw(b"{broken\n")
    new.save()
    (tmp_path / "codex").mkdir()
    codex.write(tmp_path / "codex", codex.session())
    roots = {"claude": (home.root,), "codex": (tmp_path / "codex",)}
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots))


@pytest.mark.feature("doctor.formats")
def test_each_version_has_its_shares_and_names_what_is_unknown(settings: Settings):
    with open_store(settings, read_only=True) as store:
        found = {(one.host, one.version): one for one in understood(store)}
    old, new, other = (found[key] for key in (("claude", "2.1.9"), ("claude", "2.1.10"), ("codex", "0.144.0")))

    assert list(found) == [("claude", "2.1.9"), ("claude", "2.1.10"), ("codex", "0.144.0")]
    assert (old.records, old.shares, old.unknown_types, old.unknown_fields) == (20, (1.0, 1.0, 1.0), {}, {})
    assert other.shares == (1.0, 1.0, 1.0)
    assert (new.records, new.unreadable, new.unknown_records) == (30, 1, 10)
    assert new.shares[0] == pytest.approx(19 / 30)
    assert new.unknown_types == {"record/thought-cloud": 10}
    assert new.unknown_fields == {"n": 10, "moodRing": 5}
    assert new.shares[2] == pytest.approx(1 - 2 / new.fields)
    assert json.loads(json.dumps(new.to_json()))["records_share"] == pytest.approx(19 / 30, abs=1e-6)


@pytest.mark.feature("doctor.formats")
def test_the_check_warns_where_a_version_is_understood_worse_than_the_others(settings: Settings):
    with open_store(settings, read_only=True) as store:
        finding = contract_checks.run(store, [Cell("claude", "2026-03")])[Cell("claude", "2026-03")]["formats_understood"]
        fine = contract_checks.run(store, [Cell("codex", "2026-03")])[Cell("codex", "2026-03")]["formats_understood"]

    assert (finding.passed, finding.numbers["dropped"]) == (False, {"claude 2.1.10": 0.6333})
    assert (fine.passed, fine.numbers["dropped"]) == (True, {})


def test_nothing_written_means_everything_understood():
    assert Understood("claude", "").shares == (1.0, 1.0, 1.0)
