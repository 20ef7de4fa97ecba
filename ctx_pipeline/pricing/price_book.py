"""What one model call cost: dated list prices, exact arithmetic, one rounding."""

from __future__ import annotations

import hashlib
import re
import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.name_rules import applies, spellings
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.pricing import refreshed_lists as price_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings


# Which entry of the price list a recorded model name means.


RULES = 2
"""Rises when a name comes to mean another entry: calls that are stored are priced anew."""

ROUTES = {
    "bedrock": "aws",
    "vertex": "google",
    "vertex_ai": "google",
    "vertexai": "google",
    "azure_ai": "azure",
    "gemini": "google",
    "models": "",
}
"""First part of a name such as ``vertex_ai/claude-..`` that is no provider's own id."""

_LONG_CONTEXT = re.compile(r"\[\d+[mk]\]$")
_VENDOR = re.compile(r"^(?:[a-z-]+\.)?(anthropic|openai|meta|mistral|deepseek|qwen|moonshotai?|minimax|zai|google)\.")
_CLOUD_VERSION = re.compile(r"(?:-v\d+)?(?::\d+)?$")
_SERVED_BY = re.compile(r"-(?:aws|bedrock|azure|vertex|gcp|gke)$")
_EFFORT = re.compile(r"(?:-(?:thinking|minimal|low|medium|high|xhigh))+$")
"""How hard a model thinks, which changes no price of a token."""
_VERSION_FIRST = re.compile(r"\b([a-z]+)-(\d)\.(\d)-([a-z]+)$")
_FINE_TUNED = "ft:"
_FINE_TUNER = "openai"
"""Who names fine-tuned models ``ft:<base>:<organization>:<suffix>:<id>``; the list has prices of their own for them."""


class Entry(NamedTuple):
    """One model of the price list, still undecided about date and terms."""

    provider: str
    model: str
    prices: list[Any]
    variants: list[Any]


class Catalog:
    """The compiled price list with its own rules of which name means which model."""

    def __init__(self, compiled: dict[str, Any]) -> None:
        self.source = str(compiled["source"])
        self._providers: dict[str, dict[str, Any]] = {p["id"]: p for p in compiled["providers"]}

    def find(self, name: str, host_provider: str | None = None) -> Entry | None:
        """Return the entry that a recorded model name means, or None.

        Dated, undated, ``[1m]``, Bedrock, Vertex, fine-tuned and ``provider/model``
        spellings are understood, names with the platform or the effort as their last
        part, and those with the version before the size.
        ``host_provider`` is who served the call, where the host recorded it; without it
        and without a hint in the name the maker's own list price is meant.
        """
        name = _LONG_CONTEXT.sub("", name.strip().lower())
        if not name or name.startswith("<"):
            return None
        for again in dict.fromkeys((name, _EFFORT.sub("", name), _VERSION_FIRST.sub(r"\1-\4-\2-\3", _EFFORT.sub("", name)))):
            for provider, spelling in self._tries(again, host_provider):
                found = self._match(provider, spelling)
                if found is not None:
                    return found
        return None

    def _tries(self, name: str, host_provider: str | None) -> Iterator[tuple[str, str]]:
        served_by = self._provider(host_provider) if host_provider else None
        if served_by:
            yield served_by, name
        tail = name.rpartition("/")[2]
        if "/" in name:
            head = name.partition("/")[0]
            routed = ROUTES.get(head) or self._provider(head)
            if routed:
                yield routed, name.partition("/")[2]
                yield routed, tail
        bare = _VENDOR.sub("", tail)
        if bare != tail and "aws" in self._providers:
            yield "aws", tail
        if "@" in tail and "google" in self._providers:
            yield "google", tail
        if tail.startswith(_FINE_TUNED):
            yield _FINE_TUNER, tail
        plain = _CLOUD_VERSION.sub("", bare).replace("@", "-")
        for spelling in dict.fromkeys((name, tail, bare, plain, _SERVED_BY.sub("", plain))):
            for provider, rules in self._providers.items():
                if rules["claims"] and applies(rules["claims"], spelling):
                    yield provider, spelling
        for spelling in dict.fromkeys((tail, plain)):
            for provider in self._makers():
                yield provider, spelling

    def _makers(self) -> Iterator[str]:
        """Yield the providers that make models, since several resellers list the same ones."""
        for provider in ("x-ai", "deepseek", "moonshotai", "zai", "minimax", "mistral", "cohere", "meta", "perplexity", "cursor"):
            if provider in self._providers:
                yield provider

    def _provider(self, name: str) -> str | None:
        name = name.lower().strip()
        if name in self._providers:
            return name
        return next((p for p, rules in self._providers.items() if rules["names"] and applies(rules["names"], name)), None)

    def _match(self, provider: str, name: str) -> Entry | None:
        rules = self._providers.get(provider)
        if rules is None:
            return None
        for spelling in spellings(name):
            for owner in (rules, *(self._providers[p] for p in rules["fallback"] if p in self._providers)):
                for model, clause, prices, variants in owner["models"]:
                    if applies(clause, spelling):
                        return Entry(owner["id"], model, prices, variants)
        return None


PRICES_FILE = Path(__file__).with_name("prices.json")
OVERLAY_FILE = Path(__file__).with_name("overlay.toml")

RATES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_search")

_UNIT = 10**9
"""Rates are kept in billionths of a nano-dollar, so that list prices of twelve decimals stay whole numbers."""
_DEAREST = 1_000_000
"""Dollars a million tokens (a thousand searches) that no price exceeds."""
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BILLED = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
_PRICED = itemgetter(*map(MODEL_CALLS.names.index, ("model", "ts", "tier", "speed", "context_tokens", *_BILLED)))
"""What a row of ``model_calls`` is priced by; the counts stand last."""

Costed = tuple[int | None, str | None]


class Price(NamedTuple):
    """Rates of one model on one day under one set of terms, in billionths of a nano-dollar a token (a search)."""

    id: str
    rates: tuple[int, ...]
    tiers: tuple[tuple[int, str, tuple[int, ...]], ...]
    """(more prompt tokens than, price id, rates), the largest first."""
    by_hour: bool

    def of_size(self, context_tokens: int) -> tuple[str, tuple[int, ...]]:
        """Return price id and rates of a call with so many prompt tokens."""
        for start, price_id, rates in self.tiers:
            if context_tokens > start:
                return price_id, rates
        return self.id, self.rates


class PriceNote(NamedTuple):
    """What a price id says: whose price, since when, under which terms, from where."""

    provider: str
    model: str
    since: str
    """Date the price began, or "list" where the list gives none."""
    terms: tuple[str, ...]
    source: str


class Change(NamedTuple):
    """A line of the overlay: from a day (UTC) on, these rates hold for the models of these patterns."""

    since: str
    models: tuple[str, ...]
    rates: dict[str, str]
    """dollars a million tokens; what is not named stays as listed"""

    @property
    def origin(self) -> str:
        """What a price id says of it."""
        return f"{OVERLAY_FILE.name}@{self.since}"

    def holds_for(self, names: Iterable[str]) -> bool:
        """Tell whether a pattern matches one of a model's names: ``provider/model`` and the name as recorded."""
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.models)


class PriceBook:
    """Prices model calls at the list price of their day.

    ``overrides`` is the person's config: a table ``[prices."model"]`` with ``input``,
    ``output`` and, where wanted, ``cache_read``, ``cache_write_5m``, ``cache_write_1h``
    (dollars per million tokens) and ``web_search`` (per thousand) replaces the list for
    that exact model name. ``home`` is the store whose refreshed lists count beside the
    bundled one. Raises SettingsError for a price that is no number.
    """

    def __init__(self, overrides: Mapping[str, Any] | None = None, home: Path | None = None) -> None:
        compiled, overlay, self._files_hash = _bundled()
        self._lists = [price_lists.PriceList("", compiled, b""), *(price_lists.read(home) if home is not None else ())]
        if len(self._lists) > 1:
            kept = repr([(one.since, hashlib.sha256(one.data).hexdigest()) for one in self._lists[1:]])
            self._files_hash = hashlib.sha256(f"{self._files_hash} {kept}".encode()).hexdigest()
        self._catalogs = [Catalog(one.compiled) for one in self._lists]
        self._defaults: list[dict[str, Any]] = overlay["default"]
        self._multipliers: list[dict[str, Any]] = overlay["multiplier"]
        self._tiers: list[dict[str, Any]] = overlay["tier"]
        self._changes = [_change(line) for line in overlay.get("price", ())]
        self._own = _own_prices((overrides or {}).get("prices", {}))
        self._known: dict[tuple[Any, ...], Price | None] = {}
        self._entries: dict[tuple[str, str | None, int], Entry | None] = {}

    @classmethod
    def of(cls, settings: Settings) -> PriceBook:
        """Return the prices of a person: the bundled list, the refreshed ones, and the config's own."""
        return cls(settings.config, settings.home)

    @classmethod
    def validate(cls, compiled: dict[str, Any]) -> None:
        """Price every model of a compiled list once; raises SettingsError for one that cannot be."""
        book = cls()
        for provider in compiled["providers"]:
            for model, clause, prices, variants in provider["models"]:
                try:
                    for _, rates in prices:
                        made = book._made(model, "", rates, Decimal(1), by_hour=False)
                        for found in (made.rates, *(tier for _, _, tier in made.tiers)) if made else ():
                            _believed(found)
                    applies(clause, model)
                    tuple(variants)
                except (ArithmeticError, TypeError, ValueError, LookupError) as error:
                    raise SettingsError(f"the price of {model} is none: {error}", hint="mend the list", model=str(model)) from error

    @property
    def lists(self) -> list[price_lists.PriceList]:
        """The lists in force, the bundled one first."""
        return list(self._lists)

    @property
    def version(self) -> str:
        """Hash of everything that decides a price; part of fingerprints."""
        own = repr(sorted((m, sorted(r.items())) for m, r in self._own.items()))
        return hashlib.sha256(f"{self._files_hash} {own} {RULES}".encode()).hexdigest()[:16]

    def cost_nano(
        self,
        model: str,
        ts_us: int | None,
        *,
        input: int = 0,  # noqa: A002 - the column's name
        output: int = 0,
        cache_write_5m: int = 0,
        cache_write_1h: int = 0,
        cache_read: int = 0,
        reasoning: int = 0,  # noqa: ARG002 - part of output, billed with it
        context_tokens: int = 0,
        tier: str | None = None,
        speed: str | None = None,
        web_searches: int = 0,
        host_provider: str | None = None,
    ) -> Costed:
        """Return (nano-dollars, price id) of one call, or (None, None) when no price is known.

        The whole call is billed at the tier that its prompt's size falls into. The sum is
        exact and rounded once, half up. A call without a time gets the newest price.
        """
        price = self._price(model, ts_us, tier, speed, host_provider)
        if price is None:
            return None, None
        return _bill(price, context_tokens, (input, output, cache_write_5m, cache_write_1h, cache_read, web_searches))

    def cost_rows(self, rows: Iterable[tuple]) -> list[Costed]:
        """Return (nano-dollars, price id) for each row of ``model_calls``, in order."""
        known = self._known
        costed: list[Costed] = []
        for model, ts, tier, speed, context, *counts in map(_PRICED, rows):
            key = (model, -1 if ts is None else ts // _DAY_US, tier, speed, None)
            price = known[key] if key in known else self._price(model, ts, tier, speed, None)
            costed.append((None, None) if price is None else _bill(price, context, counts))
        return costed

    def price(self, model: str, ts_us: int | None) -> Price | None:
        """Return the standard price of a model at a time, None where no list knows it."""
        return self._price(model, ts_us, None, None, None)

    def describe(self, price_id: str) -> PriceNote:
        """Return what a price id of this book says."""
        place, _, source = price_id.partition("#")
        name, _, dated = place.rpartition("@")
        since, *terms = dated.split("+")
        provider, _, model = name.partition("/")
        return PriceNote(provider, model, since, tuple(terms), source)

    def _price(self, model: str, ts: int | None, tier: str | None, speed: str | None, host_provider: str | None) -> Price | None:
        key = (model, -1 if ts is None else ts // _DAY_US, tier, speed, host_provider)
        if key in self._known:
            return self._known[key]
        price = self._resolve(model, ts, tier, speed, host_provider)
        if price is None or not price.by_hour:
            self._known[key] = price
        return price

    def _resolve(self, model: str, ts: int | None, tier: str | None, speed: str | None, host_provider: str | None) -> Price | None:
        own = self._own.get(model)
        if own is not None:
            return self._made(f"config/{model}@list", "config.toml", own, Decimal(1), by_hour=False)
        at = None if ts is None else _EPOCH + timedelta(microseconds=ts)
        number, entry = self._entry(model, host_provider, at)
        change = self._change(entry, model, at, self._lists[number].since)
        if entry is None:
            if change is None:
                return None
            return self._made(f"overlay/{model}@{change.since}", change.origin, change.rates, Decimal(1), by_hour=False)
        since, hours, rates = _dated(entry.prices, at)
        if change is not None:
            since, rates = change.since, {**rates, **change.rates}
        context = {"speed": speed, "service_tier": tier, "processing": "batch" if tier == "batch" else None}
        special: dict[str, Any] = {}
        terms = [f"hours={hours}"] if hours else []
        for when, constraint, changed in entry.variants:
            if all(context.get(k) == v for k, v in when.items()) and _active(constraint, at):
                special = {**changed, **special}
                terms += [f"{k}={v}" for k, v in when.items() if changed]
        times = Decimal(1)
        if not special:
            times, term = self._multiplier(entry, context)
            terms += term
        name = f"{entry.provider}/{entry.model}@{since or 'list'}" + "".join(f"+{t}" for t in dict.fromkeys(terms))
        by_hour = any(isinstance(when, list) for when, _ in entry.prices)
        listed = self._lists[number]
        source = self._catalogs[number].source.replace(" ", "-") + (f"@{listed.since}" if listed.since else "")
        source += f"+{change.origin}" if change is not None else ""
        return self._made(name, source, self._tiered(entry, {**rates, **special}), times, by_hour=by_hour)

    def _entry(self, model: str, host_provider: str | None, at: datetime | None) -> tuple[int, Entry | None]:
        """Return the list that prices a model at a time, and its entry."""
        day = None if at is None else at.date().isoformat()
        for number in price_lists.order(self._lists, day) if len(self._lists) > 1 else (0,):
            place = (model, host_provider, number)
            if place not in self._entries:
                self._entries[place] = self._catalogs[number].find(model, host_provider)
            found = self._entries[place]
            if found is not None:
                return number, found
        return 0, None

    def _change(self, entry: Entry | None, model: str, at: datetime | None, listed: str) -> Change | None:
        """Return the newest dated line of the overlay that holds for a model at a time; a list taken over later than it goes before."""
        day = None if at is None else at.date().isoformat()
        names = {model.lower()} if entry is None else {f"{entry.provider}/{entry.model}", model.lower()}
        holding = (c for c in self._changes if c.since > listed and (day is None or c.since <= day) and c.holds_for(names))
        return max(holding, key=lambda change: change.since, default=None)

    def _tiered(self, entry: Entry, rates: dict[str, Any]) -> dict[str, Any]:
        """Return the rates with the long-context prices that the list lacks for a model."""
        for rule in self._tiers:
            if f"{entry.provider}/{entry.model}" in rule["models"] and not any(isinstance(value, list) for value in rates.values()):
                times = rule["times"]
                return {
                    name: [value, [rule["over"], str(Decimal(value) * Decimal(times[name]))]] if name in times else value
                    for name, value in rates.items()
                }
        return rates

    def _multiplier(self, entry: Entry, context: Mapping[str, str | None]) -> tuple[Decimal, list[str]]:
        names = {f"{entry.provider}/{entry.model}", f"{entry.provider}/*"}
        for rule in self._multipliers:
            if names & set(rule["models"]) and all(context.get(k) == v for k, v in rule["when"].items()):
                return Decimal(rule["times"]), [f"{k}={v}" for k, v in rule["when"].items()]
        return Decimal(1), []

    def _made(self, name: str, source: str, rates: Mapping[str, Any], times: Decimal, *, by_hour: bool) -> Price | None:
        if "input" not in rates:
            return None
        starts = sorted({tier[0] for value in rates.values() if isinstance(value, list) for tier in value[1:]}, reverse=True)
        tiers = tuple((s, f"{name}+over={s}#{source}", self._scaled(_at_size(rates, s + 1), times)) for s in starts)
        return Price(f"{name}#{source}", self._scaled(_at_size(rates, 0), times), tiers, by_hour)

    def _scaled(self, dollars: dict[str, Decimal], times: Decimal) -> tuple[int, ...]:
        """Return the rates as whole numbers; what the list lacks comes from the overlay, else is billed as input."""
        for rule in self._defaults:
            wanted = rule["price"]
            if wanted not in dollars and (rule.get("needs") or "input") in dollars:
                dollars[wanted] = Decimal(rule["dollars"]) if "dollars" in rule else Decimal(rule["times"]) * dollars[rule["of"]]
        scaled = []
        for name in RATES:
            search = name == "web_search"
            value = dollars.get(name, dollars["input"] if name != "output" else Decimal(0))
            # a million tokens: 1,000 nano-dollars each for every dollar; a thousand searches: 1,000,000 each
            scaled.append(int(value * (1 if search else times) * (1_000_000 if search else 1_000) * _UNIT))
        return tuple(scaled)


def _bill(price: Price, context_tokens: int, counts: Sequence[int]) -> tuple[int, str]:
    price_id, (a, b, c, d, e, f) = price.of_size(context_tokens)
    i, o, w5, w1, r, s = counts
    return (i * a + o * b + w5 * c + w1 * d + r * e + s * f + _UNIT // 2) // _UNIT, price_id


def _change(line: Mapping[str, Any]) -> Change:
    """Return a dated line of the overlay; raises SettingsError for one that is none."""
    try:
        rates = {name: str(_positive(line[name])) for name in RATES if name in line}
        models = line["models"]
        patterns = tuple(str(name).lower() for name in ([models] if isinstance(models, str) else models))
        known = set(line) <= {"models", "since", "source", *RATES}
        change = (
            Change(price_lists.day_of(str(line["since"])), patterns, rates) if rates and patterns and known and line["source"] else None
        )
    except (KeyError, TypeError, ValueError, InvalidOperation):
        change = None
    if change is None:
        hint = '{ models = ["maker/model*"], since = "2026-10-16", input = "4", output = "20", source = "..." }'
        raise SettingsError(f"{OVERLAY_FILE.name} has a price that is none: {dict(line)}", hint=f"write it as {hint}")
    return change


def _dated(prices: list[Any], at: datetime | None) -> tuple[str | None, str, dict[str, Any]]:
    """Return start date, hours of the day (UTC) and rates that hold at a time: the last entry that applies, else the first."""
    for when, rates in reversed(prices):
        if _active(when, at):
            if isinstance(when, list):
                return None, f"{when[0][:5]}-{when[1][:5]}", rates
            return when, "", rates
    return None, "", prices[0][1]


def _active(when: str | list[str] | None, at: datetime | None) -> bool:
    if when is None:
        return True
    if isinstance(when, str):
        return at is None or at.date().isoformat() >= when
    if at is None:
        return False
    start, end = (text.removesuffix("Z").removesuffix("+00:00") for text in when)
    now = at.time().isoformat()
    return start <= now < end if start < end else now >= start or now < end


def _at_size(rates: Mapping[str, Any], context_tokens: int) -> dict[str, Decimal]:
    """Return the rates of a prompt of that size, in dollars."""
    found = {}
    for name, value in rates.items():
        chosen = value
        if isinstance(value, list):
            chosen = next((price for start, price in reversed(value[1:]) if context_tokens > start), value[0])
        found[name] = Decimal(chosen)
    return found


def _own_prices(table: Any) -> dict[str, dict[str, str]]:
    if not isinstance(table, dict):
        raise SettingsError("prices is not a table", hint='write [prices."my-model"]\ninput = 1.25\noutput = 10')
    own = {}
    for model, rates in table.items():
        try:
            own[str(model)] = {name: str(_positive(value)) for name, value in dict(rates).items()}
        except (TypeError, ValueError, InvalidOperation) as error:
            raise SettingsError(
                f"the prices of {model} are not numbers", hint=f'write [prices."{model}"]\ninput = 1.25\noutput = 10', model=model
            ) from error
        unknown = set(own[str(model)]) - set(RATES)
        if unknown or "input" not in own[str(model)]:
            raise SettingsError(
                f"the prices of {model} need input, and may have {', '.join(RATES[1:])}", hint=f"mend [prices.{model}]", model=model
            )
    return own


def _positive(value: Any) -> Decimal:
    number = Decimal(str(value))
    if isinstance(value, bool) or not number.is_finite() or not 0 <= number <= _DEAREST:
        raise ValueError(value)
    return number


def _believed(rates: tuple[int, ...]) -> None:
    """Raise ValueError for rates below nothing or beyond any price."""
    *tokens, search = rates
    if min(rates) < 0 or max(tokens) > _DEAREST * 1_000 * _UNIT or search > _DEAREST * 1_000_000 * _UNIT:
        raise ValueError("a rate is negative or beyond any price")


@cache
def _bundled() -> tuple[dict[str, Any], dict[str, Any], str]:
    import msgspec.json

    prices, overlay = PRICES_FILE.read_bytes(), OVERLAY_FILE.read_bytes()
    return msgspec.json.decode(prices), tomllib.loads(overlay.decode()), hashlib.sha256(prices + overlay).hexdigest()


# What one token of a call costs, by kind.


_MILLION = 1_000_000


class Rates(NamedTuple):
    """What a token costs, in nano-dollars."""

    input: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float

    def saved(self, *, read: int, written_5m: int, written_1h: int) -> float:
        """Return what the cache saved: its tokens at the price of fresh input, less what reading and writing them cost."""
        return (
            read * (self.input - self.cache_read)
            - written_5m * (self.cache_write_5m - self.input)
            - written_1h * (self.cache_write_1h - self.input)
        )


def rates_by(book: Callable[[], PriceBook]) -> Callable[[str, int | None, int], Rates | None]:
    """Return what gives the rates of (model, time, prompt tokens), None where no price is known.

    The book is opened at the first question.
    """
    known: dict[tuple[str, str], Rates] = {}
    opened: list[PriceBook] = []

    def rate_of(model: str, ts: int | None, context: int) -> Rates | None:
        if not opened:
            opened.append(book())
        price = opened[0].price(model, ts)
        if price is None:
            return None
        place = model, price.of_size(context)[0]
        if place not in known:
            counts: list[dict[str, Any]] = [{name: _MILLION, "context_tokens": context} for name in Rates._fields]
            known[place] = Rates(*((opened[0].cost_nano(model, ts, **count)[0] or 0) / _MILLION for count in counts))
        return known[place]

    return rate_of
