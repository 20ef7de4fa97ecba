"""Price lists by day: taken over by a command, from a file or the library, and every stored call costed anew without reading it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.errors import SettingsError, SourceError
from ctx_pipeline.model.codec import micros
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.prices import known_lists, price_of, refresh
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.claude import usage as used
from ctx_pipeline_tests.usage.conftest import ingested

MODEL = "claude-sonnet-4-5-20250929"


def compiled(source: str, **dollars: str) -> dict[str, Any]:
    """Return a list of one maker in which each model costs so much a million tokens of input and output."""
    models = [[name, ["equals", name], [[None, {"input": price, "output": price}]], []] for name, price in dollars.items()]
    claims = ["or", [model[1] for model in models]]
    return {"source": source, "providers": [{"id": "anthropic", "names": None, "claims": claims, "fallback": [], "models": models}]}


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Two calls of 1,000 tokens out, five days apart, and no store yet."""
    claude = ClaudeHome(tmp_path / "claude")
    session = claude.session()
    for day in ("2026-10-01", "2026-10-06"):
        session.answer(text("done"), usages=[used(0, 1000)], model=MODEL, timestamp=f"{day}T10:00:00.000Z")
    session.save()
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (claude.root,)})


def costs(settings: Settings) -> dict[str, int]:
    return {row["date"]: row["cost_nano"] for row in usage("daily", settings=settings).rows}


@pytest.mark.feature("pricing.reprice")
@pytest.mark.parametrize("by", ["config", "list"])
def test_a_changed_price_costs_stored_calls_anew_though_neither_source_nor_raw_can_be_read(home: Settings, tmp_path: Path, by: str):
    ingested(home)
    assert costs(home) == {"2026-10-01": 15_000_000, "2026-10-06": 15_000_000}
    for folder in (home.home / "raw", home.demo_roots["claude"][0]):
        folder.rename(folder.with_name(f"{folder.name}-away"))
    if by == "config":
        changed = replace(home, config={"prices": {MODEL: {"input": 1, "output": 7}}})
    else:
        changed = home
        refresh(file=written(tmp_path / "new.json", compiled("other 1", **{MODEL: "7"})), since="2025-01-01", settings=home)

    assert costs(ingested(changed)) == {"2026-10-01": 7_000_000, "2026-10-06": 7_000_000}


@pytest.mark.feature("pricing.refresh")
@pytest.mark.parametrize("with_store", [False, True])
def test_a_list_holds_from_its_day_and_the_one_before_it_stays(home: Settings, tmp_path: Path, with_store: bool):
    done = refresh(file=written(tmp_path / "new.json", compiled("other 1", **{MODEL: "7"})), since="2026-10-05", settings=home)
    if with_store:
        ingested(home)

    assert costs(home) == {"2026-10-01": 15_000_000, "2026-10-06": 7_000_000}
    assert [(known["since"], known["source"]) for known in known_lists(home)][1:] == [("2026-10-05", "other 1")]
    assert (done.models, Path(done.path).stat().st_mode & 0o777) == (1, 0o600)
    told = price_of(MODEL, day="2026-10-06", settings=home)
    assert told is not None
    assert (told.rates["output"], told.source) == (7.0, "other-1@2026-10-05")


@pytest.mark.feature("pricing.refresh")
def test_a_model_that_the_list_of_its_day_lacks_is_looked_up_in_the_later_lists(home: Settings, tmp_path: Path):
    refresh(file=written(tmp_path / "new.json", compiled("other 1", **{"claude-nobody-9": "2"})), since="2026-10-05", settings=home)
    book = PriceBook.of(home)

    assert book.cost_nano("claude-nobody-9", micros("2026-10-01T10:00:00Z"), output=1000)[0] == 2_000_000
    assert book.cost_nano(MODEL, micros("2026-10-06T10:00:00Z"), output=1000)[0] == 15_000_000
    assert book.version != PriceBook(home.config).version


@pytest.mark.feature("pricing.refresh")
def test_the_installed_library_is_a_list_too(home: Settings):
    done = refresh(since="2026-10-05", settings=home)

    assert done.source.startswith("genai-prices")
    assert PriceBook.of(home).cost_nano(MODEL, micros("2026-10-06T10:00:00Z"), output=1000)[0] == 15_000_000


@pytest.mark.feature("pricing.refresh")
def test_litellms_published_file_is_understood_with_its_tiers(home: Settings, tmp_path: Path):
    told = {
        "litellm_provider": "anthropic",
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 1.5e-05,
        "cache_read_input_token_cost": 3e-07,
        "cache_creation_input_token_cost": 3.75e-06,
        "input_cost_per_token_above_200k_tokens": 6e-06,
        "output_cost_per_token_above_200k_tokens": 2.25e-05,
    }
    file = written(
        tmp_path / "litellm.json", {"sample_spec": {"input_cost_per_token": 0}, "claude-new-7": told, "vertex_ai/claude-new-7": told}
    )
    refresh(file=file, since="2026-10-05", settings=home)
    book, day = PriceBook.of(home), micros("2026-10-06T10:00:00Z")

    assert book.cost_nano("claude-new-7", day, input=1000, output=1000, cache_read=1000, cache_write_1h=1000)[0] == 24_300_000
    assert book.cost_nano("claude-new-7", day, input=1000, context_tokens=200_001)[0] == 6_000_000


@pytest.mark.feature("pricing.refresh")
@pytest.mark.parametrize(
    "value", [[], {"source": "x"}, {"source": "x", "providers": [{"id": "a"}]}, compiled("x", m="much"), {"m": {"input_cost_per_token": 1}}]
)
def test_a_file_that_is_no_price_list_is_refused_and_changes_nothing(home: Settings, tmp_path: Path, value: Any):
    with pytest.raises(SourceError):
        refresh(file=written(tmp_path / "bad.json", value), settings=home)

    assert len(known_lists(home)) == 1


@pytest.mark.feature("pricing.refresh")
def test_a_broken_list_in_the_store_is_named(home: Settings):
    (home.home / "prices").mkdir(parents=True)
    (home.home / "prices" / "2026-10-05.json").write_text("{")

    with pytest.raises(SettingsError, match=r"2026-10-05\.json cannot be read"):
        PriceBook.of(home)


@pytest.mark.feature("pricing.substring-trap")
@pytest.mark.parametrize(
    ("model", "nano"),
    [("gpt-5", 1_250_000), ("gpt-5-mini", 250_000), ("gpt-5-nano", 50_000), ("gpt-5-nobody", None), ("my-gpt-5-finetune", None)],
)
def test_a_model_is_never_priced_as_another_whose_name_it_contains(model: str, nano: int | None):
    assert PriceBook().cost_nano(model, micros("2026-10-01T10:00:00Z"), input=1000)[0] == nano


@pytest.mark.feature("pricing.long-context")
def test_the_long_context_price_that_the_list_lacks_is_in_the_overlay():
    book, day = PriceBook(), micros("2025-09-20T10:00:00Z")

    # claude-sonnet-4 above 200,000: 6 in, 22.5 out, 7.5 written, 0.6 read
    low = book.cost_nano("claude-sonnet-4-20250514", day, input=1000, output=1000, cache_write_5m=1000, cache_read=1000)
    high = book.cost_nano(
        "claude-sonnet-4-20250514", day, input=1000, output=1000, cache_write_5m=1000, cache_read=1000, context_tokens=200_001
    )
    assert (low[0], high[0]) == (22_050_000, 36_600_000)
    assert "over=200000" in str(high[1])


@pytest.mark.feature("pricing.absurd")
@pytest.mark.parametrize("dollars", ["-5", "1e30", "NaN", "Infinity", "1000001"])
def test_a_list_with_a_price_that_is_none_is_not_taken_over(home: Settings, tmp_path: Path, dollars: str):
    path = written(tmp_path / "odd.json", compiled("odd", **{MODEL: dollars}))

    with pytest.raises(SourceError, match=f"the price of {MODEL} is none"):
        refresh(file=path, settings=home)

    assert [one["since"] for one in known_lists(home)] == ["always"]


@pytest.mark.feature("pricing.absurd")
@pytest.mark.parametrize("dollars", [-1, 1e30, float("nan"), float("inf"), True])
def test_a_price_of_the_config_that_is_none_is_said(home: Settings, dollars: float):
    with pytest.raises(SettingsError, match="are not numbers"):
        PriceBook.of(replace(home, config={"prices": {MODEL: {"input": dollars}}}))
