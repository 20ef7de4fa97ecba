"""Which homes and which store a command works on: the person's, or the sample ones of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli.output import counted, say
from ctx_pipeline.storage import FORGETTING

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.model.declared import Database, Host
    from ctx_pipeline.settings import Settings

_SAMPLES_TOLD = "ctx_pipeline.samples_told"
SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def choose(settings: Settings, *, demo: bool, samples: bool = True, end: bool = True) -> tuple[Settings, str]:
    """Return the settings to work with and what to tell the person.

    Where no home has a session, and the store has none and nothing that anybody said, the
    sample homes are used with ``$CTX_HOME/demo`` as the store. A store whose sessions are
    gone from the homes stays the person's own. Unless ``end`` is false a forgetting that was
    interrupted in that store is ended first.
    """
    chosen = _resolve(settings, demo=demo, samples=samples)
    if end:
        end_forgetting(chosen[0])
    return chosen


def end_forgetting(settings: Settings) -> None:
    """End a forgetting that was interrupted, or wait for the one under way; raises CtxError where it cannot be ended."""
    if not (settings.home / FORGETTING).exists():
        return
    from ctx_pipeline.pipeline.forget.sessions import finish
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        ended = finish(store, settings)
    if ended is not None:
        say(f"a forgetting that was interrupted is ended: {ended.totals['sessions']:,} sessions", err=True)


def _resolve(settings: Settings, *, demo: bool, samples: bool) -> tuple[Settings, str]:
    if demo:
        return _demo(settings), ""
    from ctx_pipeline.storage.own_sessions import holds_sessions, holds_words

    if not samples or holds_sessions(settings.home):
        return settings, ""
    from ctx_pipeline import discovery

    hosts = discovery.hosts().values()
    if any(_has_session(host, root, settings) for host in hosts for root in settings.roots_of(host)) or holds_words(settings.home):
        return settings, ""
    return _demo(settings), f"No sessions found; {looked(settings, hosts)}. Showing sample sessions instead."


def looked(settings: Settings, hosts: Collection[Host]) -> str:
    """Return where sessions were looked for: the homes that are there or that a variable names, else the agents that have none."""
    named = {h.key: settings.roots_of(h) or (settings.candidate_roots(h) if settings.environ.get(h.files.roots_env) else ()) for h in hosts}
    places = [str(root) for roots in named.values() for root in roots]
    if not places:
        *names, last = [h.title for h in hosts if settings.candidate_roots(h)] or ["an agent"]
        return f"there is no home of {' or '.join(filter(None, (', '.join(names), last)))} here"
    without = sum(not roots for roots in named.values())
    return f"looked in {', '.join(places)}" + (f"; {counted(without, 'other agent')} that ctx reads have no home here" if without else "")


def tell_samples() -> None:
    """Say that the sample sessions are shown; once a command."""
    context = click.get_current_context(silent=True)
    told = context.find_root().meta if context else {}
    if not told.get(_SAMPLES_TOLD):
        say("(sample sessions)", err=True)
    told[_SAMPLES_TOLD] = True


def for_reading() -> Settings:
    """Return the settings of a command that only reads; tells when they are those of the samples."""
    settings, note = choose(settings_module.load(), demo=False)
    if note:
        tell_samples()
    return settings


def for_notes() -> Settings:
    """Return the settings of a command that keeps what somebody says: those of the samples only where these were read before."""
    own = settings_module.load()
    settings, note = choose(own, demo=False)
    if note and not (settings.home / "ledger.db").exists():
        return own
    if note:
        tell_samples()
    return settings


def _has_session(host: Host, root: Path, settings: Settings) -> bool:
    """Tell whether a home has a session: looks no further than the first."""
    from ctx_pipeline.storage.raw.home_files import walk

    kinds = host.usage.kinds or host.files.session_kinds  # a list of things to do outlives the session that made it
    for _, kind, path, size, *_ in walk(host, root, settings, []):
        if size and kind in kinds and (kind not in host.files.databases or _has_rows(path, host.files.databases[kind])):
            return True
    return False


def _has_rows(path: str, database: Database) -> bool:
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.storage.raw import databases

    try:
        return bool(databases.streams(path, database))
    except (CtxError, OSError, ValueError):
        return True  # what cannot be read now is the person's all the same


def _demo(settings: Settings) -> Settings:
    roots = {folder.name: (folder,) for folder in sorted(SAMPLES.iterdir()) if folder.is_dir()}
    return replace(settings, home=settings.home / "demo", demo_roots=roots)
