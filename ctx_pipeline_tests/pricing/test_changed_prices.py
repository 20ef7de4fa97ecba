"""A dated line of the overlay changes a price from its day on, in the middle of a month, and the change can be explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.pricing import PriceBook, price_book
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.prices import price_of
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.claude import usage as used
from ctx_pipeline_tests.usage.conftest import ingested

MODEL = "claude-sonnet-4-5-20250929"
LISTED, CHANGED = 15_000_000, 20_000_000


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what adds one line to a copy of the overlay."""

    def add(text: str) -> None:
        overlay = tmp_path / "overlay.toml"
        overlay.write_text(price_book.OVERLAY_FILE.read_text("utf-8").replace("price = [\n", f"price = [\n{text}\n", 1), "utf-8")
        monkeypatch.setattr(price_book, "OVERLAY_FILE", overlay)
        price_book._bundled.cache_clear()

    yield add
    monkeypatch.undo()
    price_book._bundled.cache_clear()


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Three calls of 1,000 tokens out around the 16th of a month, the last one of another model."""
    claude = ClaudeHome(tmp_path / "claude")
    session = claude.session()
    for number, (day, model) in enumerate((("2026-10-15", MODEL), ("2026-10-16", MODEL), ("2026-10-17", "claude-opus-4-5-20251101"))):
        session.answer(text("done"), usages=[used(0, 1000)], model=model, timestamp=f"{day}T10:00:00.000Z", message_id=f"msg_{number}")
    session.save()
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (claude.root,)})


def costs(settings: Settings) -> list[int]:
    return [row["cost_nano"] for row in usage("daily", settings=settings).rows]


@pytest.mark.feature("pricing.changed")
@pytest.mark.parametrize("pattern", ["anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-*", "claude-sonnet-4-5-2025*"])
@pytest.mark.parametrize("with_store", [False, True])
def test_one_line_prices_the_calls_from_its_day_on_and_explains_them(home: Settings, line, pattern: str, with_store: bool) -> None:
    if with_store:
        ingested(home)
    before = costs(home)

    line(f'{{ models = ["{pattern}"], since = "2026-10-16", output = "20", source = "a test" }},')
    if with_store:
        ingested(home)

    assert (before[:2], costs(home)) == ([LISTED, LISTED], [LISTED, CHANGED, before[2]])
    first, second = explain("msg_0", settings=home).calls[0].price, explain("msg_1", settings=home).calls[0].price
    assert "overlay" not in str(first)
    assert second is not None
    assert (second["since"], second["source"].rpartition("+")[2]) == ("2026-10-16", "overlay.toml@2026-10-16")


@pytest.mark.feature("pricing.changed")
def test_the_price_command_and_the_version_of_all_prices_know_the_line(home: Settings, line) -> None:
    version = PriceBook.of(home).version
    line(f'{{ models = "{MODEL}", since = "2026-10-16", output = "20", source = "a test" }},')

    made = [price_of(MODEL, day=f"2026-10-{day}", settings=home) for day in (15, 16)]

    assert [one.rates["output"] for one in made if one] == [15.0, 20.0]
    assert [one.rates["input"] for one in made if one] == [3.0, 3.0]
    assert PriceBook.of(home).version != version
    shown = CliRunner().invoke(cli, ["prices", "show", MODEL, "--day", "2026-10-20", "--json"], env={"CTX_HOME": str(home.home)})
    assert "overlay.toml@2026-10-16" in json.dumps(json.loads(shown.stdout)), shown.output


@pytest.mark.feature("pricing.changed")
def test_a_model_that_no_list_knows_gets_a_price_and_a_wrong_line_is_refused(home: Settings, line) -> None:
    line('{ models = ["house-model-*"], since = "2026-10-16", input = "1", output = "2", source = "a test" },')
    made = PriceBook.of(home)
    second = 1_000_000
    early, late = 1_792_000_000 * second, 1_792_800_000 * second
    assert made.cost_nano("house-model-7", early, output=1000) == (None, None)
    assert made.cost_nano("house-model-7", late, output=1000)[0] == 2_000_000

    line('{ models = ["house-model-*"], since = "soon", input = "1", source = "a test" },')
    with pytest.raises(SettingsError, match="is not a day"):
        PriceBook.of(home)
