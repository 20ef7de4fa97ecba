"""The attacks on homes are drawn from their seed, find what they look for, and the matrix counts what became of damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.attack import __main__ as command
from ctx_pipeline_tests.attack import damage, homes

if TYPE_CHECKING:
    from ctx_pipeline_tests.attack.world import World


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[str, Any]]:
    return homes.prepare(tmp_path_factory.mktemp("attack") / "homes")


@pytest.mark.feature("package.attacked-homes")
def test_a_secret_that_is_not_replaced_is_found_in_the_store_and_one_that_is_replaced_is_not(attacked, monkeypatch: pytest.MonkeyPatch):
    assert homes.attack(*attacked, "secret: planted", "draw 1", 7).survived

    drawn = [homes._drawn(homes.random.Random(number)) for number in range(homes.SECRETS)]
    monkeypatch.setattr(homes, "_drawn", lambda _: drawn.pop())
    monkeypatch.setattr(Redactor, "suspects", lambda *_: [])
    monkeypatch.setattr(Redactor, "redact", lambda _, text: text)
    leaked = homes.attack(*attacked, "secret: planted", "draw 1", 7)

    assert [wrong for wrong in leaked.wrong if " is in lake/events/" in wrong]


@pytest.mark.feature("package.attacked-homes")
def test_what_is_captured_through_a_link_out_of_the_home_is_found(attacked, monkeypatch: pytest.MonkeyPatch):
    assert homes.attack(*attacked, "source: link out of the home", "draw 0", 7).survived

    monkeypatch.setattr("ctx_pipeline.storage.raw.home_files._inside", lambda *_: True)
    assert "captured from outside the home" in homes.attack(*attacked, "source: link out of the home", "draw 0", 7).wrong


@pytest.mark.feature("package.attacked-homes")
def test_a_clock_that_jumps_is_seen_by_the_package_and_put_back():
    from ctx_pipeline.storage.ledger import links

    now = links.now_micros()
    with homes.shifted(-86_400.0):
        assert -86_401 < (links.now_micros() - now) / 1e6 < -86_390
    assert 0 <= links.now_micros() - now < 60e6


@pytest.mark.feature("package.attacked-homes")
def test_the_matrix_tells_for_each_way_what_was_repaired_what_is_lost_and_what_is_wrong():
    tried = [
        damage.Outcome("ledger.db", "flip", "ledger.db", [], ""),
        damage.Outcome("raw", "flip", "raw/x", [], "", lost=True),
        damage.Outcome("raw", "cut", "raw/x", ["crash"], "", lost=True),
    ]

    told = command.matrix(tried).splitlines()

    assert told[0] == "2 kinds of files"
    assert told[-3:] == ["| flip | 2 | 1 | 1 | 0 |", "| cut | 1 | 0 | 0 | 1 |", "| all | 3 | 1 | 1 | 1 |"]


@pytest.mark.feature("package.attacked-homes")
def test_trials_are_drawn_from_the_seed_and_every_kind_comes_before_one_comes_again():
    assert homes.pairs(3) == homes.pairs(3)
    first = homes.pairs(3)[: len(homes.KINDS_OF_TRIALS)]
    assert {kind for kind, _ in first} == set(homes.KINDS_OF_TRIALS)
