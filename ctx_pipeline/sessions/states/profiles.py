"""The profiles of a store, which one is active, and what one would have meant for recorded sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.session_state.state import DEFAULT, Profile, named, profiles
from ctx_pipeline.model.codec import plain
from ctx_pipeline.model.hook_kinds import CHOSEN, PROFILES
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.sessions.session_choice import here as working_folder
from ctx_pipeline.sessions.session_choice import in_place
from ctx_pipeline.sessions.states.state import snapshot_recall
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import usage

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_RECALLED = 20
"""Sessions, the last active ones, whose snapshots are tried."""


def active(settings: Settings) -> Profile:
    """Return the profile in force: the one that was switched to last, where it is still there, else the default."""
    known = profiles(settings.home / PROFILES)
    with reading(settings) as (store, _):
        return _active(store, known)


def _active(store: Store, known: dict[str, Profile]) -> Profile:
    facts = store.journal.newest(CHOSEN, 1)
    return known.get(str(facts[0].payload.get("name"))) or known[DEFAULT] if facts else known[DEFAULT]


def listed(settings: Settings) -> tuple[list[Profile], str]:
    """Return all profiles by name, and the name of the active one."""
    known = profiles(settings.home / PROFILES)
    return [known[name] for name in sorted(known)], active(settings).name


def profile(name: str, settings: Settings) -> Profile:
    """Return a profile by its name; raises UnknownName."""
    return named(name, profiles(settings.home / PROFILES))


def warnings(name: str, *, host: str, session_id: str, settings: Settings) -> list[str]:
    """Return what a session went beyond of a profile's limits, and what it is near, one sentence each with its figures."""
    chosen = profile(name, settings)
    with reading(settings) as (store, asked):
        row = store.ledger.session(host, session_id)
        if row is None:
            return []
        made = int(row.rows.get("tool_calls") or 0)
        rows = store.lake.read_rows("model_calls", row.partition, "normalized", sessions=(session_id,), names=_WARNED_OF)
        calls = [c for c in rows if c.owner]
        peak = max((c.context_tokens for c in calls), default=0)
        spent = sum(cost_of(asked.cost_mode, c.recorded_cost, c.cost) or 0 for c in calls) / 1e9
    figures = (
        (chosen.context_tokens, peak, f"a prompt of {peak:,} tokens (at most {chosen.context_tokens:,})"),
        (chosen.tool_calls, made, f"{made:,} tool calls (at most {chosen.tool_calls:,})"),
        (chosen.cost_usd, spent, f"${spent:,.2f} (at most ${chosen.cost_usd:,.2f})"),
    )
    over = [text for most, value, text in figures if most and value > most]
    near = [text for most, value, text in figures if most and chosen.warn_at and chosen.warn_at * most <= value <= most]
    told = (("Above the limits", over), ("Near the limits", near))
    return [f"{place} of profile {name}: {'; '.join(texts)}" for place, texts in told if texts]


_WARNED_OF = ("owner", "context_tokens", "recorded_cost", "cost")


class Trial(NamedTuple):
    """What a profile would have meant for the recorded sessions of a repository."""

    profile: Profile
    sessions: int
    over: dict[str, int]
    """limit -> sessions that went beyond it; a profile without the limit has 0"""
    used: int
    """files that were used again behind a compaction"""
    held: int
    """of these, in a snapshot of the profile's size"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**plain(self), "profile": self.profile.name}


def evaluate_profile(name: str, *, cwd: str | None = None, settings: Settings) -> Trial:
    """Return what a profile would have meant for the sessions of the repository around ``cwd``."""
    chosen = profile(name, settings)
    with reading(settings) as (store, _):
        lines = in_place(store, cwd or working_folder())
        rows = {(r.host, r.session_id): r for r in store.ledger.sessions()}
        wanted = {(line.host, line.session_id) for line in lines}
        peaks: dict[tuple[str, str], int] = {}
        for cell in store.lake.manifests("normalized"):
            for call in store.lake.read_rows("model_calls", cell, "normalized"):
                key = (call.host, call.session_id)
                if call.owner and key in wanted:
                    peaks[key] = max(peaks.get(key, 0), call.context_tokens)
    spent = usage("session", stored=True, settings=settings).by_session()
    figures = {
        "context_tokens": {k: float(peaks.get(k, 0)) for k in wanted},
        "tool_calls": {k: float(rows[k].rows.get("tool_calls") or 0) for k in wanted if k in rows},
        "cost_usd": {k: spent[k]["cost_nano"] / 1e9 if k in spent else 0.0 for k in wanted},
    }
    over = {}
    for limit, values in figures.items():
        most = getattr(chosen, limit)
        over[limit] = sum(v > most for v in values.values()) if most else 0
    used = held = 0
    for line in lines[:_RECALLED]:
        for found in snapshot_recall(f"{line.host}:{line.session_id}", budget=chosen.snapshot_bytes, settings=settings):
            used += found.used
            held += found.held
    return Trial(chosen, len(wanted), over, used, held)
