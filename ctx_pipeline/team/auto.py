"""Publishing without being asked: after ``ctx run``, at the end of a session, and after Dagster's nightly run.

Only where a policy stands and neither the membership nor config.toml says no. It is never in the way: what
goes wrong is one line, and the next publication sends what this one did not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.pull import Pulled

PULLED = "team/pulled"
"""File that is written when lessons were asked for last."""

_PULL_SECONDS = 3_600
"""Where nothing was sent, lessons of the team are asked for so seldom: a run that finds nothing new needs no network."""


def publishes(settings: Settings) -> bool:
    """Tell whether this machine publishes by itself: it is in a team, a policy shares something, and nobody said no."""
    from ctx_pipeline.team.membership import membership

    member = membership(settings)
    return member is not None and member.auto and settings.publishes and any(member.share.values())


def publish_quietly(settings: Settings) -> str:
    """Publish and pull where this machine does so by itself; return one line of what was done, empty where nothing was. Never raises."""
    from ctx_pipeline.storage import open_store

    try:
        if not publishes(settings):
            return ""
        with open_store(settings) as store:
            return _published(store, settings)
    except CtxError as error:
        why = error.message
    except ModuleNotFoundError as error:
        why = f"{error.name} is not installed, which pip install 'ctx-pipeline[team]' does"
    except Exception as error:  # noqa: BLE001 - what was asked for is done, and this is no part of it
        why = f"{type(error).__name__}: {error}"
    return f"not published: {why}; again: ctx publish"


def pull_lessons(store: Store, settings: Settings) -> Pulled:
    """Pull lessons and bring the memories up to date where any came or went."""
    from ctx_pipeline.pipeline.consolidate import consolidate
    from ctx_pipeline.pipeline.index import index_memory
    from ctx_pipeline.team.pull import pull

    done = pull(store, settings)
    store.files.write(PULLED, b"")
    if done.changes:
        consolidate(store, settings)
        index_memory(store, settings)
    return done


def _published(store: Store, settings: Settings) -> str:
    from ctx_pipeline.team.membership import demand
    from ctx_pipeline.team.publish import publish

    done = publish(store, settings)
    told = [
        f"{count:,} {what if count == 1 else f'{what}s'} {verb}"
        for count, what, verb in (
            (done.sessions, "session", "sent"),
            (done.transcripts, "transcript", "sent encrypted"),
            (done.removed, "session", "removed"),
            (done.lessons, "lesson", "sent"),
        )
        if count
    ]
    if demand(settings).pull and (told or _long_ago(store)):
        pulled = pull_lessons(store, settings)
        if came := len(pulled.new) + len(pulled.changed):
            told.append(f"{came:,} {'lesson' if came == 1 else 'lessons'} came")
    return f"team: {', '.join(told)}" if told else ""


def _long_ago(store: Store) -> bool:
    if not store.files.exists(PULLED):
        return True
    return time.time() - store.files.local(PULLED).stat().st_mtime > _PULL_SECONDS
