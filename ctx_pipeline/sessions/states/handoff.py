"""What a session is told when it starts: where its own work stood before a compaction, or where the last other session here stood.

Runs in a hook at every start of a session, so that what was said of a transcript is kept
until the transcript changes, and what reads transcripts is imported only where nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import __version__
from ctx_pipeline.errors import StoreError
from ctx_pipeline.memory.prompt_block import framed, inline
from ctx_pipeline.memory.safety import untold
from ctx_pipeline.memory.scope import below, identity, place_of, same_repository
from ctx_pipeline.model.codec import iso, time_of
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.display import short_id, truncate
from ctx_pipeline.model.hook_kinds import CHOSEN, MADE, PROFILES, SAID, asked_here
from ctx_pipeline.recorded_paths import FILE, look_at
from ctx_pipeline.sessions.last_worked import came_of, last_worked
from ctx_pipeline.storage import FORGETTING
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.written_sessions import LINES, last_written
from ctx_pipeline.tokens.estimates import near_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.journal import Fact
    from ctx_pipeline.storage.written_sessions import WrittenSession

RESUMED = "hook.resumed"
"""Kind of the facts in the journal."""

START, COMPACT = "SessionStart", "compact"
"""Event of the hook that an agent runs when a session starts, and its source right after a compaction."""

HANDOFF = 500
"""Tokens of the block that a new chat begins with."""

FOLDER = "handoffs"
"""Folder of the store that keeps what was said of a transcript, one file a session."""

AHEAD = "compactions"
"""Folder of the store that keeps what sessions are told after a compaction that has begun."""

_BESIDE = 90
"""Tokens of the block that are left for the other sessions of the same day."""

_SIZES = HANDOFF, HANDOFF - _BESIDE

_PATIENCE = 0.05
_LOOKED_BACK = 100
_CANDIDATES = 12
"""Sessions of the repository whose transcripts are looked at, the last active first."""

_ELSEWHERE = 24
"""Folders outside of the repository's own that are looked at."""

_VERSION = 15
"""Of what is kept; what was kept by another one, or by another version of the package, is said anew."""

_MOST_KEPT = 400
_SLACK = 60_000_000
"""Microseconds by which an agent may note a compaction after its hook was answered."""

_MOST_SINCE = 256 << 10
"""Bytes that an agent writes during a compaction, at most."""

_READY, _LOOKED_AT = 8, 60
"""Repositories in which a sync says beforehand what a new chat would be told, and the sessions among which it looks for their last ones."""

_SINCE = "- It was written to since this was noted: what it did last is not in here\n"


def resume(
    payload: Mapping[str, Any],
    *,
    host: str,
    settings: Settings,
    preview: bool = False,
    spare: Callable[[str, Callable[[], bool]], None] | None = None,
) -> str:
    """Return the block for a session that starts; empty where there is nothing to say.

    After a compaction it tells of the session itself, else of the last other session of
    the repository, whichever agent ran it; a session that is resumed is told of another
    one only if that was written later. The text is redacted, scanned and
    framed as notes are, so that it is never mined. A compaction is answered once, and so is
    the start of a session. What is returned was logged, but for a ``preview``, which keeps nothing.
    ``spare`` is given an older block of a session that was written to since, before its
    transcript is read: what a hook tells whose time is over, and what logs that it is told, which
    answers whether that is for the first time. Raises what reading the file
    or writing the journal raises.
    """
    session, source = payload.get("session_id"), payload.get("source")
    if payload.get("hook_event_name") != START or not isinstance(session, str) or not settings.home.is_dir():
        return ""
    if source != COMPACT:
        if not preview:
            begin(settings)
        logs = _once()
        late = (lambda about, text: spare(text, partial(logs, about, text, settings))) if spare else None
        about, text = _other(payload, session, host, settings, keep=not preview, spare=late)
        return text if text and (preview or logs(about, text, settings)) else ""
    profile = _profile(settings)
    told = _kept_ahead(payload.get("transcript_path"), session, host, settings, profile)
    if told is None:
        from ctx_pipeline.sessions.states.resume import own_block

        told = own_block(payload.get("transcript_path"), session, host, settings, profile[0])
    text, mark, at = told
    return text if text and _logged({"host": host, "session_id": session, "compaction": mark}, text, settings, since=at) else ""


def prepare(payload: Mapping[str, Any], *, host: str, settings: Settings) -> None:
    """Keep what a session is told after the compaction that begins now; the hook after it need not read the transcript then.

    At the start of a session it keeps what the next one there is told: the time of that hook was over.
    Nothing is kept of a session that was not captured, such as one that was forgotten or is ignored.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline.sessions.states.resume import captured, own_block

    named, session = payload.get("transcript_path"), payload.get("session_id")
    if payload.get("hook_event_name") == START and isinstance(session, str):
        _other(payload, session, host, settings, keep=True, spare=None)
        return
    records = discovery.host(host).records
    seen = look_at(named) if isinstance(named, str) and named.startswith("/") else None
    if not isinstance(session, str) or seen is None or seen.kind != FILE or not records.steps or not captured(host, session, settings):
        return
    profile = _profile(settings)
    made_of = _made_ahead_of(named, (host, session), settings, profile)  # what is noted from here on is not in the text
    text, mark, _ = own_block(named, session, host, settings, profile[0], ahead=True)
    kept = {
        "made_of": made_of,
        "size": seen.size,
        "steps": records.steps,
        "no_steps": records.no_steps,
        "text": text,
        "mark": mark,
    }
    Files(settings.home).write(_place(AHEAD, host, session), json.dumps(kept).encode())
    _prune(settings, AHEAD)


def _kept_ahead(named: object, session: str, host: str, settings: Settings, profile: tuple[str, int]) -> tuple[str, str, int] | None:
    """Return what was kept for a session before its compaction; None where nothing was, or where the session has gone on since.

    It is told once, so it is kept no longer.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        path = settings.home / _place(AHEAD, host, session)
        kept = json.loads(path.read_bytes())
        path.unlink()
        if not isinstance(named, str) or kept["made_of"] != _made_ahead_of(named, (host, session), settings, profile):
            return None
        seen = look_at(named)
        if seen.kind != FILE or not kept["size"] <= seen.size <= kept["size"] + _MOST_SINCE:
            return None
        with Path(named).open("rb") as file:
            file.seek(kept["size"])
            since = [json.loads(line) for line in file.read(_MOST_SINCE).splitlines()]
        if not any(record["type"] in kept["steps"] and not any(record.get(name) for name in kept["no_steps"]) for record in since):
            return str(kept["text"]), str(kept["mark"]), 0
    return None


def _made_ahead_of(named: object, session: tuple[str, str], settings: Settings, profile: tuple[str, int]) -> list[Any]:
    return [__version__, _VERSION, named, _changed(settings.home / "config.toml"), _last_note(*session, settings), *profile]


def _last_note(host: str, session: str, settings: Settings) -> int:
    """Return the fact of the last note on a session; 0 where none is among the newest notes."""
    facts = _newest(SAID, _LOOKED_BACK, settings)
    if not facts:
        return 0
    from ctx_pipeline.storage.session_notes import session_key

    key = session_key(host, session)
    return max((fact.id for fact in facts if fact.payload.get("session") == key), default=0)


def _place(folder: str, *named: str) -> str:
    """Return the file of the store in which a block is kept."""
    return f"{folder}/{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:24]}.json"


def _other(
    payload: Mapping[str, Any],
    session: str,
    host: str,
    settings: Settings,
    *,
    keep: bool,
    spare: Callable[[dict[str, Any], str], None] | None,
) -> tuple[dict[str, Any], str]:
    """Return of whom is told, and the block of the last other session of the repository around the folder in which a session starts."""
    cwd, source = payload.get("cwd"), payload.get("source")
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\0" in cwd:
        return {}, ""
    known = (settings.home / "ledger.db").exists()
    others = _written_here(cwd, settings, session, before_own=source == "resume") if known else []
    profile = _profile(settings)
    own = _last_write(session, settings) if known and source == "resume" else 0
    if (own or source != "resume") and _was_imported(settings):
        from ctx_pipeline.sessions.states.resume import imported_block

        since = max(own, _active(others[0])[0] if others else 0)
        brought = imported_block(since, cwd, HANDOFF - _BESIDE, settings, profile[0])
        if brought is not None and brought[2]:
            about = {"host": host, "session_id": session, "source": source, "told_host": brought[0], "told_session": brought[1]}
            return about, framed(brought[2])
    for n, last in enumerate(others[:_CANDIDATES]):
        # a transcript that its agent packed or moved is written in two files, of which one is there
        others_later = {w.session_id: w for w in others[n + 1 :]}
        later = {one: w for one, w in others_later.items() if one != last.session_id}
        also = "".join(f"- {line}\n" for line in _also(list(later.values())[:2], last, [w.session_id for w in others]))
        about = {"host": host, "session_id": session, "source": source, "told_host": last.host, "told_session": last.session_id}

        late = partial(spare, about) if spare else None
        told = _block_of(last, settings, profile, keep=keep, beside=bool(also), spare=late, stored=last.session_id not in others_later)
        if told is None:
            continue  # nothing of it is left, or it is in the other file
        return about, framed(told + also) if told else ""
    return {}, ""


def _last_write(session: str, settings: Settings) -> int:
    """Return when a session recorded something last, microseconds since 1970; 0 for one that was not captured."""
    return next((_active(one)[0] for one in last_written(settings.home / "ledger.db") if one.session_id == session), 0)


def _was_imported(settings: Settings) -> bool:
    """Tell whether a session was imported lately: what reads bundles is loaded then alone."""
    facts = _newest(MADE, _LOOKED_BACK, settings)
    if not facts:
        return False
    from ctx_pipeline.context.session_state.state import BUNDLE

    return any(fact.payload.get("kind", BUNDLE) == BUNDLE for fact in facts)


def _newest(kind: str, count: int, settings: Settings) -> list[Fact]:
    """Return the newest facts of a kind; none where nothing was ever said, or the journal cannot be read."""
    if not (settings.home / "journal.db").exists():
        return []
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, read_only=True)
    try:
        return journal.newest(kind, count)
    except StoreError:
        return []
    finally:
        journal.close()


def begin(settings: Settings) -> None:
    """Have every sync keep what a new chat would be told, also where the first hook's time is over before it has read a transcript."""
    Files(settings.home).folder(settings.home / FOLDER)


def end(settings: Settings) -> None:
    """Remove what was kept, and have no sync keep more."""
    import shutil  # it brings lzma and bz2, which no start of a session needs

    shutil.rmtree(settings.home / FOLDER, ignore_errors=True)


def ready(settings: Settings) -> None:
    """Keep what a new chat would be told of the last session of each repository that was worked in last, where new chats are told."""
    if not (settings.home / FOLDER).is_dir() or not (settings.home / "ledger.db").exists():
        return
    profile = _profile(settings)
    lasts: dict[str, WrittenSession] = {}
    # as a chat chooses: before those that only asked something, or said hello
    for one in sorted(_last_active(settings, _LOOKED_AT), key=lambda one: came_of(one.rows)):
        lasts.setdefault(str(one.rows.get("repository") or one.rows.get("cwd") or ""), one)
    for last in sorted(lasts.values(), key=lambda one: -_active(one)[0])[:_READY]:
        with suppress(Exception):  # it was captured all the same; the hook that needs it says what is wrong
            _block_of(last, settings, profile)


def _profile(settings: Settings) -> tuple[str, int]:
    """Return the name of the active profile, empty for the default one, and when files of profiles changed last."""
    name = next((str(f.payload.get("name")) for f in _newest(CHOSEN, 1, settings)), "")
    folder = settings.home / PROFILES
    return name, max(map(_changed, folder.glob("*.toml")), default=0) if name and folder.is_dir() else 0


def _block_of(
    last: WrittenSession,
    settings: Settings,
    profile: tuple[str, int],
    *,
    keep: bool = True,
    beside: bool = False,
    spare: Callable[[str], None] | None = None,
    stored: bool = True,
) -> str | None:
    """Return the block of a session as its transcript shows it now, else, where ``stored``, as the store holds it; None without either.

    It is shorter where other sessions are told of ``beside`` it. Both are kept: which one is needed shows when a chat begins.
    """
    seen = look_at(os.path.join(last.root, last.rel))  # noqa: PTH118 - the text of a recorded path
    there = seen.kind == FILE and last.rel.endswith(LINES) and last.main
    if not there and not stored:
        return None
    # what subagents did stands in files of their own: it is told as the store holds it, where that is up to date
    in_store = stored and there and (last.rows.get("threads") or 1) > 1 and seen.mtime_ns == last.mtime_ns
    noted = _last_note(last.host, last.session_id, settings)
    made_by = [__version__, _VERSION, last.root, last.rel, last.archived, _changed(settings.home / "config.toml"), noted, *profile]
    as_stored = (last.rows.get("last_ts"), last.rows.get("events"))
    made_of = [*((seen.size, seen.mtime_ns) if there else as_stored), *made_by, *(as_stored if in_store else ())]
    rel = _place(FOLDER, last.host, last.session_id)
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((settings.home / rel).read_bytes())
        if kept["made_of"] == made_of:
            return None if kept["texts"] is None else str(kept["texts"][beside])
        if spare and kept["made_of"][2 : 2 + len(made_by)] == made_by and kept["texts"] and kept["texts"][True]:
            spare(framed(f"{kept['texts'][True]}{_SINCE}"))  # the shorter one, with room for what is said of it
    from ctx_pipeline.sessions.states.resume import captured, other_blocks, stored_blocks

    texts = None if there and not in_store else stored_blocks(last, _SIZES, settings, profile[0])
    if texts is None and there:
        texts = other_blocks(last, _SIZES, settings, profile[0])
    if keep:
        Files(settings.home).write(rel, json.dumps({"made_of": made_of, "texts": texts}).encode())
        _prune(settings, FOLDER)
    if (settings.home / FORGETTING).exists() or not captured(last.host, last.session_id, settings):
        (settings.home / rel).unlink(missing_ok=True)  # it was forgotten while its transcript was read
        return None
    return None if texts is None else texts[beside]


def _changed(path: Path) -> int:
    """Return when a file changed last, in nanoseconds; 0 where none is."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _prune(settings: Settings, folder: str) -> None:
    """Remove the oldest of what is kept beyond :data:`_MOST_KEPT`."""
    found = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(settings.home / folder))
    for _, path in found[:-_MOST_KEPT]:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - a path of scandir


def _written_here(cwd: str, settings: Settings, session: str, *, before_own: bool) -> list[WrittenSession]:
    """Return the newest sessions of the repository around a folder in which something was done, else in which something was asked.

    A session belongs to it by the remote that it recorded, as for ``ctx session load``, or by its folder.
    ``before_own`` takes those alone that were written later than the asking session. Of folders that do
    not lie below the repository (other worktrees and clones of it) the newest are looked at: each takes
    a look at the disk.
    """
    written = _last_active(settings)
    if before_own:
        own = next((n for n, w in enumerate(written) if w.session_id == session), 0)
        written = written[:own]
    place = place_of(cwd)
    known: dict[tuple[str, str], bool] = {("", ""): False}
    elsewhere = busy = 0
    found: list[WrittenSession] = []
    for one in written:
        folder, remote = str(one.rows.get("cwd") or ""), str(one.rows.get("repository") or "")
        if one.session_id == session or not (one.rows.get("prompts") or one.rows.get("tool_calls")):
            continue
        if (folder, remote) not in known:
            recorded = bool(remote) and identity(remote) in place.identities
            far = not recorded and not any(below(folder, root) for root in (place.cwd, *place.roots)) and not below(place.cwd, folder)
            elsewhere += far
            here = recorded or ((elsewhere <= _ELSEWHERE or not far) and bool(folder) and same_repository(folder, place))
            known[folder, remote] = here and not asked_here(folder)
        if known[folder, remote]:
            found.append(one)
            busy += bool(one.rows.get("tool_calls"))
            if busy >= _CANDIDATES + 2:
                break
    return last_worked(found, lambda one: one.rows, lambda one: (_active(one)[0], one.host, one.session_id))


def _also(others: Sequence[WrittenSession], last: WrittenSession, ids: Sequence[str]) -> Iterator[str]:
    """Yield the other sessions that were active on the same day, so that two agents are told apart."""
    for other in others:
        if _active(last)[0] - _active(other)[0] <= _DAY:
            title = inline(truncate(str(other.rows.get("title") or ""), 80))
            named = f" “{title}”" if title and not untold(title) else ""
            last_at, of_file = _active(other)
            what = "its file was last written" if of_file else "last active"
            short, at = short_id(other.session_id, ids), time_of(iso(last_at))
            yield f"Another session here: {other.host} {short}{named}, {what} {at}"


_DAY = 86_400_000_000


def _last_active(settings: Settings, limit: int = 400) -> list[WrittenSession]:
    """Return the sessions whose files were written last, by what they recorded: files that were copied have the time of that."""
    return sorted(last_written(settings.home / "ledger.db", limit), key=lambda one: -_active(one)[0])


def _active(session: WrittenSession) -> tuple[int, bool]:
    """Return when a session recorded something last, in microseconds since 1970; True with it where that is the time of its file."""
    recorded = session.rows.get("last_ts")
    return (recorded, False) if isinstance(recorded, int) else (session.mtime_ns // 1_000, True)


def _once() -> Callable[[dict[str, Any], str, Settings], bool]:
    """Return what logs once what is told, for both threads of a hook, and tells each what came of it."""
    lock = threading.Lock()
    came: list[bool] = []

    def logs(about: dict[str, Any], text: str, settings: Settings) -> bool:
        with lock:
            if not came:
                came.append(_logged(about, text, settings))
            return came[0]

    return logs


def _logged(about: dict[str, Any], text: str, settings: Settings, *, since: int = 0) -> bool:
    """Log what is told, and tell whether it is told for the first time; what was told of a compaction ``since`` it happened is the same."""
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, durable=False)
    try:
        facts = journal.newest(RESUMED, _LOOKED_BACK)
        if any({name: f.payload.get(name) for name in about} == about for f in facts):
            return False
        # what was made while a compaction ran is marked by the size of the transcript, for want of a record of it
        own = [
            f for f in facts if f.payload.get("session_id") == about["session_id"] and str(f.payload.get("compaction")).startswith("at ")
        ]
        if since and any((from_iso(f.at) or 0) >= since - _SLACK for f in own):
            return False
        journal.append(RESUMED, {**about, "tokens": near_count(text)}, actor="hook")
    finally:
        journal.close()
    return True
