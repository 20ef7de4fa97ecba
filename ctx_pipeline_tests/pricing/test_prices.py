"""A call costs its list price of its day, to the nano-dollar; expected values are written by hand."""

import json
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from genai_prices.data import providers
from genai_prices.data_snapshot import get_snapshot

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.pricing.list_sources import PRICES_FILE, compile_prices, compile_windows
from ctx_pipeline.tokens.model_tokens import WINDOWS_FILE, context_window

BOOK = PriceBook()


def us(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


NOW = us("2026-09-01")


@pytest.mark.feature("pricing.token-kinds")
@pytest.mark.parametrize(
    ("counts", "nano"),
    [
        ({"input": 1}, 5_000),
        ({"output": 1}, 25_000),
        ({"cache_write_5m": 1}, 6_250),
        ({"cache_write_1h": 1}, 10_000),
        ({"cache_read": 1}, 500),
        ({"web_searches": 1}, 10_000_000),
        ({"reasoning": 7}, 0),
        ({"input": 3, "output": 2, "cache_write_5m": 4, "cache_write_1h": 5, "cache_read": 6}, 15_000 + 50_000 + 25_000 + 50_000 + 3_000),
    ],
)
def test_each_kind_of_token_has_its_price(counts, nano):
    assert BOOK.cost_nano("claude-opus-4-5-20251101", NOW, **counts)[0] == nano


@pytest.mark.feature("pricing.spellings")
@pytest.mark.parametrize(
    ("model", "host_provider", "place"),
    [
        ("claude-opus-4-5-20251101", None, "anthropic/claude-opus-4-5"),
        ("claude-opus-4-5", None, "anthropic/claude-opus-4-5"),
        ("claude-opus-4-7[1m]", None, "anthropic/claude-opus-4-7"),
        ("anthropic/claude-opus-4-5", None, "anthropic/claude-opus-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", None, "aws/regional.anthropic.claude-opus-4-5-v1:0"),
        ("global.anthropic.claude-opus-4-5-20251101-v1:0", None, "aws/global.anthropic.claude-opus-4-5-v1:0"),
        ("vertex_ai/claude-opus-4-5@20251101", None, "google/claude-opus-4-5"),
        ("gpt-5.1-codex", None, "openai/gpt-5.1"),
        ("gpt-5-codex", "openai", "openai/gpt-5"),
        ("grok-code-fast-1", None, "x-ai/grok-code-fast-1"),
        ("claude-4.5-sonnet", None, "anthropic/claude-sonnet-4-5"),
        ("claude-4.1-opus-thinking", None, "anthropic/claude-opus-4-1"),
        ("gpt-5-high", None, "openai/gpt-5"),
        ("o3-mini-low", None, "openai/o3-mini"),
    ],
)
def test_a_model_is_found_under_every_spelling(model, host_provider, place):
    _, price = BOOK.cost_nano(model, NOW, input=1, host_provider=host_provider)
    assert price.partition("@")[0] == place


@pytest.mark.feature("rot.price-names")
@pytest.mark.parametrize(
    ("model", "nano", "window"),
    [
        ("claude-sonnet-4.5", 3_000 + 15_000, 200_000),
        ("openai/gpt-4o-mini", 150 + 600, 128_000),
        ("azure/gpt-4o", 2_500 + 10_000, 128_000),
        ("gpt-4o-azure", 2_500 + 10_000, 128_000),
        ("claude-haiku-4-5-20251001-aws", 1_000 + 5_000, 200_000),
        ("ft:gpt-4o-mini-2024-07-18:acme:shop:a1B2c3", 300 + 1_200, 128_000),
        ("openai/ft:gpt-4o-2024-08-06:acme::a1B2c3", 3_750 + 15_000, 128_000),
        ("ft:gpt-3.5-turbo-0125:acme", 3_000 + 6_000, 16_385),
        # a fine-tuned model costs more than its base: without a price of its own it has none
        ("ft:o1-2024-12-17:acme", None, 200_000),
        ("nobodys-model-azure", None, None),
    ],
)
def test_a_renamed_a_routed_and_a_fine_tuned_model_have_their_price_and_their_window(model, nano, window):
    assert BOOK.cost_nano(model, NOW, input=1, output=1)[0] == nano
    assert context_window(model) == window


@pytest.mark.feature("signals.wrong-numbers")
@pytest.mark.feature("pricing.unknown-is-not-free")
@pytest.mark.parametrize("model", ["", "<synthetic>", "nobodys-model-9", "gpt", "claude", "[1m]", "x" * 10_000])
def test_an_unknown_model_has_no_price_instead_of_none_at_all(model):
    assert BOOK.cost_nano(model, NOW, input=1_000_000) == (None, None)


@pytest.mark.feature("pricing.long-context")
def test_a_prompt_above_the_threshold_bills_the_whole_call_at_the_higher_tier():
    at = {"input": 10, "output": 10, "cache_read": 199_990}
    assert BOOK.cost_nano("claude-sonnet-4-5", NOW, **at, context_tokens=200_000)[0] == 10 * 3_000 + 10 * 15_000 + 199_990 * 300
    cost, price = BOOK.cost_nano("claude-sonnet-4-5", NOW, **at, context_tokens=200_001)
    assert cost == 10 * 6_000 + 10 * 22_500 + 199_990 * 600
    assert BOOK.describe(price).terms == ("over=200000",)


@pytest.mark.feature("pricing.dated")
def test_the_price_of_the_day_counts():
    before, old = BOOK.cost_nano("claude-opus-4-6", us("2026-03-12T23:59:59"), input=1, context_tokens=300_000)
    after, new = BOOK.cost_nano("claude-opus-4-6", us("2026-03-13"), input=1, context_tokens=300_000)
    assert (before, after) == (10_000, 5_000)
    assert (BOOK.describe(old).since, BOOK.describe(new).since) == ("list", "2026-03-13")
    assert BOOK.cost_nano("claude-opus-4-6", None, input=1, context_tokens=300_000)[0] == 5_000


@pytest.mark.feature("pricing.dated")
def test_a_price_may_depend_on_the_hour():
    night, cheap = BOOK.cost_nano("deepseek-chat", us("2026-09-01T20:00:00"), input=2)
    day, dear = BOOK.cost_nano("deepseek-chat", us("2026-09-01T10:00:00"), input=2)
    assert (night, day) == (270, 540)
    assert (BOOK.describe(cheap).terms, BOOK.describe(dear).terms) == ((), ("hours=00:30-16:30",))


@pytest.mark.feature("pricing.speed-and-tier")
@pytest.mark.parametrize(
    ("model", "when", "terms", "nano"),
    [
        ("claude-opus-4-6", "2026-09-01", {"speed": "fast"}, 30_000),
        ("claude-opus-4-6", "2026-09-01", {"speed": "standard"}, 5_000),
        ("claude-opus-4-5", "2026-11-01", {"tier": "batch"}, 2_500),
        ("claude-opus-4-5", "2026-09-01", {"tier": "standard"}, 5_000),
        ("gpt-5", "2026-11-01", {"tier": "priority"}, 2_500),
        ("gpt-5", "2026-11-01", {"tier": "flex"}, 625),
        ("gpt-5", "2026-09-01", {"tier": "fast"}, 2_500),
        ("gpt-5", "2026-09-01", {"tier": "default"}, 1_250),
    ],
)
def test_fast_batch_and_priority_calls_have_their_own_price(model, when, terms, nano):
    assert BOOK.cost_nano(model, us(when), input=1, **terms)[0] == nano


@pytest.mark.feature("pricing.rounded-once")
def test_the_sum_is_rounded_once_to_the_nano_dollar():
    # 0.0375 dollars a million = 37.5 nano-dollars a token
    book = PriceBook({"prices": {"mine": {"input": "0.0375", "output": 1}}})
    assert book.cost_nano("mine", NOW, input=1) == (38, "config/mine@list#config.toml")
    assert book.cost_nano("mine", NOW, input=2)[0] == 75
    assert book.cost_nano("mine", NOW, input=3)[0] == 113


@pytest.mark.feature("pricing.rows")
def test_rows_cost_what_single_calls_cost():
    blank = dict.fromkeys(MODEL_CALLS.names, 0)
    rows = [
        tuple(
            {
                **blank,
                "ts": NOW,
                "model": "claude-sonnet-4-5",
                "input": 3,
                "output": 5,
                "cache_read": 7,
                "tier": None,
                "speed": None,
            }.values()
        ),
        tuple({**blank, "ts": None, "model": "nobodys", "input": 3, "tier": None, "speed": None}.values()),
        tuple({**blank, "ts": NOW, "model": "claude-opus-4-6", "output": 1, "tier": None, "speed": "fast"}.values()),
    ]
    assert [cost for cost, _ in BOOK.cost_rows(rows)] == [9_000 + 75_000 + 2_100, None, 150_000]


@pytest.mark.feature("pricing.overrides")
def test_own_prices_replace_the_list_and_change_the_version():
    own = PriceBook({"prices": {"local-model": {"input": 1.25, "output": 10, "cache_read": 0.125}}})
    assert own.cost_nano("local-model", NOW, input=1, output=1, cache_read=2)[0] == 1_250 + 10_000 + 250
    assert own.version != BOOK.version == PriceBook({}).version


@pytest.mark.parametrize(
    "table", [{"m": {"input": "much"}}, {"m": {"output": 1}}, {"m": {"input": 1, "colour": 2}}, {"m": 3}, {"m": {"input": -1}}, 5]
)
def test_an_own_price_that_is_none_says_what_to_write(table):
    with pytest.raises(SettingsError) as error:
        PriceBook({"prices": table})
    assert error.value.hint


@pytest.mark.feature("pricing.explained")
def test_a_price_id_says_whose_price_since_when_and_from_where():
    _, price = BOOK.cost_nano("claude-opus-4-6", NOW, input=1, speed="fast")
    note = BOOK.describe(price)
    assert (note.provider, note.model, note.since, note.terms) == ("anthropic", "claude-opus-4-6", "2026-03-13", ("speed=fast",))
    assert note.source.startswith("genai-prices-")


@pytest.mark.feature("pricing.bundled")
def test_the_bundled_prices_are_those_of_the_installed_library():
    assert json.loads(PRICES_FILE.read_text("utf-8")) == json.loads(json.dumps(compile_prices()))


@pytest.mark.feature("facts.windows")
def test_the_bundled_windows_are_those_of_the_installed_library_for_every_name_that_it_lists():
    assert json.loads(WINDOWS_FILE.read_text("utf-8")) == json.loads(json.dumps(compile_windows()))
    ids = {
        model.id.lower() for provider in providers for model in provider.models if "/" not in model.id and not model.id.startswith("ft:")
    }
    names = {f"{prefix}{name}" for name in sorted(ids)[::7] for prefix in ("", "openrouter/", "azure/")}
    told = 0
    for name in names:
        prefix, _, last = name.rpartition("/")
        expected = None
        for who in (prefix or None, None):
            with suppress(LookupError):
                expected = expected or get_snapshot().find_provider_model(last, None, who, None)[1].context_window
        routed = last.endswith(("-aws", "-bedrock", "-azure", "-vertex", "-gcp", "-gke"))
        assert context_window(name) == expected or routed, name
        told += expected is not None
    assert told > len(names) / 4


@pytest.mark.feature("pricing.bundled")
def test_a_name_that_the_list_writes_with_capitals_is_found_however_it_is_written():
    written = [m.id for p in providers if p.id == "baseten" for m in p.models if m.id != m.id.lower()]

    assert written
    for name in written:
        assert BOOK.price(f"baseten/{name}", NOW) == BOOK.price(f"baseten/{name.lower()}", NOW)
        assert BOOK.describe(BOOK.price(f"baseten/{name}", NOW).id).provider == "baseten"


@pytest.mark.feature("pricing.bundled")
def test_pricing_loads_neither_the_library_nor_anything_heavy():
    code = (
        "import sys; from ctx_pipeline.pricing import PriceBook; from ctx_pipeline.tokens.model_tokens import context_window;"
        "PriceBook().cost_nano('gpt-5', 0, input=1); context_window('gpt-5'); print(*sys.modules)"
    )
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {"genai_prices", "pydantic", "duckdb", "pyarrow", "dagster", "httpx"}
