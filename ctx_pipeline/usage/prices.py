"""The prices in force: which list, of which day; and taking over a newer one."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import SettingsError, SourceError
from ctx_pipeline.pricing import PriceBook, refreshed_lists
from ctx_pipeline.pricing.price_book import RATES

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_MILLION = 1_000_000
_LARGEST = 64 << 20
"""Bytes of a price file that are read."""


class PriceOfModel(NamedTuple):
    """What a model costs on a day: dollars a million tokens (web_search: a thousand searches)."""

    model: str
    day: str
    id: str
    provider: str
    since: str
    source: str
    rates: dict[str, float]
    over: dict[int, dict[str, float]]
    """prompt tokens -> rates of a call whose prompt is larger"""


class Refreshed(NamedTuple):
    """A list that was taken over."""

    path: str
    since: str
    source: str
    models: int
    version: str
    """of all prices together: every stored call is costed anew from its tokens by the next run"""


def price_of(model: str, *, day: str | None = None, settings: Settings | None = None) -> PriceOfModel | None:
    """Return the price of a model on a day (2026-03-31; default: today), None where no list knows it."""
    chosen = settings or settings_module.load()
    when = date.fromisoformat(refreshed_lists.day_of(day)) if day else datetime.now(UTC).date()
    book = PriceBook.of(chosen)
    found = book.price(model, int(datetime(when.year, when.month, when.day, tzinfo=UTC).timestamp()) * _MILLION)
    if found is None:
        return None
    note = book.describe(found.id)
    over = {start: _dollars(rates) for start, _, rates in found.tiers}
    return PriceOfModel(model, when.isoformat(), found.id, note.provider, note.since, note.source, _dollars(found.rates), over)


def known_lists(settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return the lists in force, the bundled one first: since, source, number of models."""
    chosen = settings or settings_module.load()
    return [
        {"since": one.since or "always", "source": one.compiled["source"], "models": _models(one.compiled)}
        for one in PriceBook.of(chosen).lists
    ]


def refresh(
    *, file: Path | str | None = None, online: bool = False, since: str | None = None, settings: Settings | None = None
) -> Refreshed:
    """Take over a price list, in force from ``since`` (a day; default: today); earlier calls keep their prices.

    The list is that of the installed ``genai-prices``, or of ``file`` (one that this
    package compiled, or LiteLLM's), or, only with ``online``, the library's published
    one. Every list taken over before stays. Raises SourceError for a file that is no
    price list and SettingsError for a day that is none.
    """
    from ctx_pipeline.storage.files import Files

    chosen = settings or settings_module.load()
    day = refreshed_lists.day_of(since) if since else datetime.now(UTC).date().isoformat()
    compiled = _of_file(Path(file)) if file is not None else _of_library(online=online)
    rel = f"{refreshed_lists.FOLDER}/{day}.json"
    Files(chosen.home).write(rel, json.dumps(compiled, separators=(",", ":")).encode())
    return Refreshed(str(chosen.home / rel), day, compiled["source"], _models(compiled), PriceBook.of(chosen).version)


def _of_library(*, online: bool) -> dict[str, Any]:
    from ctx_pipeline.pricing.list_sources import compile_prices

    if not online:
        return compile_prices()
    from genai_prices import UpdatePrices

    try:
        fetched = UpdatePrices().fetch()
    except Exception as error:
        hint = "without a network: ctx prices refresh, or --file LIST"
        raise SourceError(f"the published price list cannot be fetched: {error}", hint=hint, path="genai-prices") from error
    if fetched is None:
        raise SourceError("the published price list is empty", hint="ctx prices refresh", path="genai-prices")
    compiled = compile_prices(fetched.providers)
    return {**compiled, "source": f"{compiled['source']} published"}


def _of_file(path: Path) -> dict[str, Any]:
    from ctx_pipeline.pricing.list_sources import compiled

    hint = "name a list of ctx_pipeline or LiteLLM's model_prices_and_context_window.json"
    try:
        with path.open("rb") as source:
            data = source.read(_LARGEST + 1)
        value = json.loads(data) if len(data) <= _LARGEST else None
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{path} cannot be read: {error}", hint=hint, path=str(path)) from error
    found = compiled(value, f"file {path.name}") if isinstance(value, dict) and "providers" not in value else value
    try:
        checked = refreshed_lists.checked(found, str(path))
        PriceBook.validate(checked)
    except SettingsError as error:
        raise SourceError(error.message, hint=hint, path=str(path)) from error
    return checked


def _models(compiled: dict[str, Any]) -> int:
    return sum(len(provider["models"]) for provider in compiled["providers"])


def _dollars(rates: tuple[int, ...]) -> dict[str, float]:
    """Return rates in billionths of a nano-dollar as dollars a million tokens (a thousand searches)."""
    return {name: rate / (10**15 if name == "web_search" else 10**12) for name, rate in zip(RATES, rates, strict=True)}
