"""``ctx doctor`` and ``ctx forget``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import require_project
from ctx_pipeline.cli.output import confirm, counted, emit, json_option, local_time, one_line, plain, say, say_command, table, zone_name
from ctx_pipeline.cli.session_names import complete_sessions, read_name
from ctx_pipeline.model.display import percent, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.maintenance.verify import Verification
    from ctx_pipeline.pipeline.forget.sessions import ForgetReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


_LISTED = 12
"""Unknown types or fields of a version that are printed."""


@click.command()
@click.option("--rebuild-ledger", is_flag=True, help="Restore the ledger from the raw objects alone.")
@click.option("--new-journal", is_flag=True, help="Restart a lost journal with what can be read of it and the tombstones beside it.")
@click.option("--yes", is_flag=True, help="With --new-journal: do not ask.")
@click.option("--formats", is_flag=True, help="Instead: the share of records, types and fields understood, by host and version.")
@click.option("--redactions", is_flag=True, help="Instead: what was redacted, by detector, project and session, without values.")
@click.option(
    "--prune-runs",
    "prune_days",
    metavar="DAYS",
    type=click.IntRange(0),
    help="Instead: remove Dagster's runs of more than DAYS days ago; those with a partition's newest materialization stay.",
)
@json_option
def doctor(
    rebuild_ledger: bool, new_journal: bool, yes: bool, formats: bool, redactions: bool, prune_days: int | None, as_json: bool
) -> None:
    """Check the store and list unreadable records.

    Also shows what agents are about to delete, what they deleted before it was captured,
    and what runs by itself and when it last ran.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose, end_forgetting
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.maintenance import doctor as stage
    from ctx_pipeline.pipeline.repair import damaged_outputs
    from ctx_pipeline.storage import may_write, open_store, temporary

    settings, _ = choose(settings_module.load(), demo=False, end=False)
    try:
        end_forgetting(settings)
    except CtxError as error:
        say(one_line(f"a forgetting that was interrupted cannot be ended: {error.message}", 400), fg="red", err=True)
    if formats:
        _formats(settings, as_json=as_json)
        return
    if redactions:
        _redactions(settings, as_json=as_json)
        return
    if prune_days is not None:
        _prune(settings, prune_days, as_json=as_json)
        return
    reads_alone = not (new_journal or rebuild_ledger or may_write(settings.home))
    with open_store(settings, read_only=reads_alone) as store:
        if new_journal:
            _begin_journal(store, yes=yes)
        rebuilt = stage.rebuild_ledger(store, settings) if rebuild_ledger else None
        for line in rebuilt.lines() if rebuilt is not None and not as_json else ():
            say(line)
        report = stage.examine(store, settings)
        if not reads_alone:
            damaged_outputs.note_damaged(store, [damage.path for damage in report.damaged])
        if not reads_alone and any(not one.named for one in report.temporaries):
            temporary.check_at_next_collection(store.home)
    switched = _switched(settings)
    if as_json:
        emit({**report.to_json(), "by_itself": switched} | ({"rebuilt": rebuilt.to_json()} if rebuilt is not None else {}))
    else:
        for line in report.lines():
            say(line)
        say(_last_backup(report.backups, settings.timezone))
        for one in switched:
            say(f"by itself: {one['name']} ({one['kind']}) is {'on' if one['on'] else 'off'}, last ran {one['last'] or 'never'}")
            if one.get("problem"):
                say(f"  {one['problem']}", fg="yellow")
        if not switched:
            say("by itself: nothing is switched on; ctx schedule install, ctx hooks install HOST, or the sensors in ctx ui")
    if report.damaged:
        raise SystemExit(1)


def _last_backup(known: Mapping[str, str], zone: str | None) -> str:
    for folder, at in known.items():
        if not at:
            where = plain(folder) if len(known) == 1 else counted(len(known), "folder")
            return f"backups: in {where}, at times that were not written down"
        others = f"; {counted(len(known) - 1, 'other folder holds', 'other folders hold')} one too" if len(known) > 1 else ""
        return f"last backup: {local_time(at, zone)} in {plain(folder)}{others}"
    return "no backup is known: ctx backup DIR"


def _begin_journal(store: Store, *, yes: bool) -> None:
    """Ask, and begin a lost journal anew."""
    from ctx_pipeline.pipeline.repair.rebuild import new_journal
    from ctx_pipeline.storage.journal import LOST

    if not yes:
        confirm(f"In the journal: {LOST}. Go on without what cannot be read of it?")
    made = new_journal(store)
    say(str(made), err=True)
    if made.aside:
        say(f"the old file is kept as {made.aside}", err=True)


def _switched(settings: Settings) -> list[dict[str, Any]]:
    """Return what runs without being asked: entered hooks, timers, and the sensors, automation and schedule of the store's instance."""
    from ctx_pipeline.integrations.status import entered, timed
    from ctx_pipeline.pipeline.run import graph_installed
    from ctx_pipeline.storage import may_write

    by_others = [one._asdict() for one in (*entered(settings), *timed(settings))]
    if not graph_installed() or not may_write(settings.home):  # Dagster runs nothing where it cannot write
        return by_others
    from ctx_pipeline.defs import upkeep

    return [*by_others, *(one._asdict() for one in upkeep.switches(settings))]


def _prune(settings: Settings, days: int, *, as_json: bool) -> None:
    from ctx_pipeline.defs import upkeep

    made = upkeep.prune(settings, days=days)
    if as_json:
        emit({"removed": made.removed, "kept": made.kept})
    else:
        say(f"{made.removed:,} old runs removed; {made.kept:,} stay, since they hold the newest materialization of a partition")


def _redactions(settings: Settings, *, as_json: bool) -> None:
    from ctx_pipeline.maintenance.doctor import redactions

    found = redactions(settings=settings)
    if as_json:
        emit(found)
        return
    if not found["detectors"]:
        say("nothing was redacted")
        return
    table(found["detectors"], {"detector": "detector", "found": "redactions", "sessions": "sessions"})
    say()
    table(found["projects"], {"project": "project", "found": "redactions"})
    say()
    table(
        found["sessions"][:_LISTED],
        {"host": "host", "session_id": "session", "project": "project", "detector": "detector", "found": "redactions"},
    )
    if len(found["sessions"]) > _LISTED:
        say(f"and {len(found['sessions']) - _LISTED} more (--json has all)")
    kinds = ", ".join(f"{name} {number:,}" for name, number in found["live"].items())
    say(
        f"{counted(sum(found['live'].values()), 'different secret')} among them may be in use: {kinds}"
        if kinds
        else "none of them looks like a working secret: examples, test values, ids"
    )
    say("to see them:")
    say_command(f"ctx search --regex 'REDACTED:{found['detectors'][0]['detector']}'", "  ")


def _formats(settings: Settings, *, as_json: bool) -> None:
    from ctx_pipeline.maintenance.doctor import understood
    from ctx_pipeline.storage import open_store

    with open_store(settings, read_only=True) as store:
        found = understood(store)
    if as_json:
        emit({"versions": [one.to_json() for one in found]})
        return
    rows = []
    for one in found:
        shares = dict(zip(("records_share", "types_share", "fields_share"), (f"{share:.2%}" for share in one.shares), strict=True))
        counts: dict[str, object] = {"sessions": one.sessions, "records": one.records, "types": one.types, "fields": one.fields}
        rows.append(counts | shares | {"host": one.host, "version": one.version or "(not said)"})
    names = {"sessions": "sessions", "records": "records", "records_share": "understood", "types": "types", "types_share": "known"}
    table(rows, {"host": "host", "version": "version", **names, "fields": "fields", "fields_share": "known"})
    for one in found:
        for what, unknown in (("types", one.unknown_types), ("fields", one.unknown_fields)):
            if unknown:
                listed = ", ".join(f"{name} {count:,}" for name, count in list(unknown.items())[:_LISTED])
                more = f" and {len(unknown) - _LISTED} more (--json has all)" if len(unknown) > _LISTED else ""
                say(f"{one.host} {plain(one.version) or '(not said)'}, unknown {what}: {one_line(listed, 400)}{more}")


@click.command()
@click.argument("session_words", nargs=-1, metavar="[SESSION]...", shell_complete=complete_sessions)
@click.option("--project", help="Every session of this project.")
@click.option("--before", metavar="DATE", help="Every session that ended before this day, 2026-01-31.")
@click.option("--text", "pattern", help="Every session whose records contain this text.")
@click.option("--copies", is_flag=True, help="Their forks too, and other sessions of any name that hold the same calls, lines or texts.")
@click.option("--finish", "only_finish", is_flag=True, help="End a forgetting that was interrupted, as any other command does first.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def forget(
    session_words: tuple[str, ...],
    project: str | None,
    before: str | None,
    pattern: str | None,
    copies: bool,
    only_finish: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove sessions from every layer, for good: raw objects and all that was derived.

    Copies of their messages in conversations that were saved in the store go too.
    Shows what would go, then asks; at the end every file of the store is checked.
    The agents' own files stay as they are; what was forgotten is not captured again.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UnknownName, UsageError
    from ctx_pipeline.maintenance import backup as backups
    from ctx_pipeline.pipeline.forget import sessions as stage
    from ctx_pipeline.storage import open_store

    host, session_id = read_name(session_words, None)
    others: list[tuple[str, str]] = []
    if (host and not session_id) or sum((bool(session_id), bool(project), bool(before), bool(pattern), only_finish)) != 1:
        raise UsageError("say what to forget", hint="ctx forget SESSION, or one of --project, --before, --text")
    settings, _ = choose(settings_module.load(), demo=False, end=False)
    with open_store(settings) as store:
        store.journal.demand()
        ended = stage.finish(store, settings)
        if ended is not None and not as_json:
            say(f"a forgetting that was interrupted is ended: {ended.totals['sessions']:,} sessions", err=True)
        if only_finish:
            _tell_forgotten(ended, as_json=as_json)
            return
        if session_id:
            try:
                (host, session_id), *others = _named(store, host, session_id)
            except UnknownName:
                if ended is None:
                    raise
                _tell_forgotten(ended, as_json=as_json)
                return
        selection = stage.Selection(
            host or None, session_id or None, project=project, before=before, text=pattern, copies=copies, others=tuple(others)
        )
        preview = stage.select(store, selection)
        if not preview.sessions and not pattern:
            if ended is None:
                require_project(settings, project)
            if as_json:
                emit({"forgotten": 0, "sessions": []})
            else:
                say("nothing fits; nothing was removed")
            return
        if not as_json:
            say(f"{counted(len(preview.sessions), 'session')}, {counted(preview.streams, 'file')}, {size(preview.bytes)} of raw records:")
            for example in preview.examples[:10]:
                say(f"  {one_line(example, 100)}")
            if preview.copies:
                say(f"{_holders(preview.copies)} the same texts and would stay (--copies: forgotten too):")
                _name_copies(preview.copies)
        if not yes:
            confirm("Remove them from the store for good?")
        _withdraw(store, settings, preview.sessions)
        report = stage.forget(store, settings, selection)
        for folder, trouble in backups.update_known(store):
            say(f"backup {folder}: {trouble or 'they left it too'}", fg="yellow" if trouble else None, err=True)
    _tell_forgotten(report, preview.sessions, preview.copies, as_json=as_json)


def _named(store: Store, host: str, words: str) -> list[tuple[str, str]]:
    """Return the session that words name together, else those whose ids, or transcripts, each of them is; UnknownName for one that is none.

    A project is forgotten by its option, and not by its newest session; a word of a title is too little beside others.
    """
    from pathlib import Path

    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.sessions.session_details import resolve

    try:
        return [resolve(store, host, words, projects=False)]
    except UnknownName:
        each = words.split()
        if len(each) == 1:
            raise
        found = [resolve(store, host, word, projects=False) for word in each]
        for word, (_, session_id) in zip(each, found, strict=True):
            if not (session_id.startswith(word.rpartition("/")[2].partition("…")[0]) or Path(word).is_file()):
                raise
        return list(dict.fromkeys(found))


def _withdraw(store: Store, settings: Settings, sessions: Sequence[tuple[str, str]]) -> None:
    """Remove what a team has of sessions that are forgotten; where it cannot be reached, the next publish does it."""
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.team.membership import FILE, elsewhere

    if not sessions:
        return
    for command in elsewhere(settings):
        say(
            f"this machine took part in a team under other names, which may still have them: {command}, then ctx team leave --erase",
            fg="yellow",
            err=True,
        )
    if not (settings.home / FILE).exists():
        return
    from ctx_pipeline.team.withdraw import withdraw

    try:
        removed = withdraw(store, settings, sessions)
    except CtxError as error:
        say(f"the team still has them: {error}; ctx publish removes them there", fg="yellow", err=True)
        return
    if removed:
        say(f"{removed:,} of them were removed from the team; the hub's copies go with its next refresh", err=True)


def _holders(copies: Sequence[tuple[str, str]]) -> str:
    return counted(len(copies), "fork or copy holds", "forks or copies hold")


def _name_copies(copies: Sequence[tuple[str, str]], before: str = "") -> None:
    for host, session in copies[:_LISTED]:
        say(f"  {before}{host} {one_line(session, 200)}")
    if len(copies) > _LISTED:
        say(f"  and {len(copies) - _LISTED:,} more (--json has all)")


def _tell_forgotten(
    report: ForgetReport | None, sessions: Sequence[tuple[str, str]] = (), copies: Sequence[tuple[str, str]] = (), *, as_json: bool
) -> None:
    """Say what was forgotten, what the last look through the store found, and who else holds it; None where nothing was forgotten."""
    if as_json:
        told = {**report.totals, **report.searched.to_json()} if report else {}
        named = {"sessions": [list(one) for one in sessions], "copies": [list(one) for one in copies]}
        emit({**told, "forgotten": report.totals["sessions"] if report else 0, **named})
        return
    if report is None:
        say("no forgetting was interrupted")
        return
    if report.totals["saved"]:
        say(f"{report.totals['saved']:,} copies of their messages went from conversations that you saved.")
    seen = report.searched
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.files.items()))
    say(f"{counted(report.totals['sessions'], 'session')} forgotten. The page is rebuilt by: ctx run")
    say(f"Searched every file of the store, unpacked ({kinds}): {'nothing of them is left' if not seen.found else 'still named in'}")
    for rel in seen.found[:_LISTED]:
        say(f"  {one_line(rel, 200)}")
    if seen.found:
        say(f"  {len(seen.found):,} files in all: what stays in them is told by sessions that stay, such as forks")
    for rel in seen.unreadable[:_LISTED]:
        say(f"  could not be read: {one_line(rel, 200)}", fg="yellow", err=True)
    if copies:
        say(f"{_holders(copies)} the same texts still. To remove one and those like it:")
        _name_copies(copies, "ctx forget --copies ")


# ctx verify: whether every stage holds what it promises, and every session its limits.


@click.command()
@click.option("--history", "past", type=click.IntRange(1, 1000), help="Show the last N verifications instead.")
@click.option("--summary", is_flag=True, help="Four lines.")
@click.option("--no-record", is_flag=True, help="Do not keep what is found.")
@click.option("--deep", is_flag=True, help="Instead: read every file of the store and hold it against its digest, SQLite and raw.")
@click.option("--recount", is_flag=True, help="Share out every model call again, instead of adding up what is kept of sessions.")
@json_option
def verify(past: int | None, summary: bool, no_record: bool, deep: bool, recount: bool, as_json: bool) -> None:
    """Check every stage and the limits over all sessions; exit 1 where one does not hold.

    A check without data says so and is no pass. Limits stand in slos.toml of the store:
    [[slo]] with name, metric, threshold, direction = "max" or "min" and action = "warn" or
    "fail". Metrics: session_context_tokens, session_cost_usd, tool_calls_total,
    failed_tool_calls.
    """
    from ctx_pipeline.maintenance import verify as api

    settings = for_reading()
    if deep:
        _verify_deep(settings, as_json=as_json)
        return
    if past is not None:
        rows = api.history(past, settings=settings)
        if as_json:
            emit({"history": rows})
            return
        shown = [{**r, "at": local_time(r["at"], settings.timezone), "rate": _percent(r["pass_rate"])} for r in rows]
        table(shown, {"at": "time", "pass": "pass", "fail": "fail", "no_data": "no data", "rate": "rate", "violated": "limits violated"})
        say(f"times in {zone_name(settings.timezone)}")
        return
    found = api.verify(recount=recount, settings=settings)
    if not no_record:
        from ctx_pipeline.cli.session.writing import act

        counts = found.counts
        violated = sum(bool(v.violated) for v in found.limits)
        act(
            "verified",
            figures={
                "pass": counts["pass"],
                "fail": counts["fail"],
                "no_data": counts["no data"],
                "pass_rate": found.rate,
                "violated": violated,
            },
        )
    if as_json:
        emit(found.to_json())
    elif summary:
        _summary(found)
    else:
        table(
            [
                {**c._asdict(), "status": f"pass (up to {c.tolerated:.1%} may)" if c.failed and c.status == "pass" else c.status}
                for c in found.checks
            ],
            {"stage": "stage", "name": "check", "checked": "checked", "failed": "failed", "status": "status"},
        )
        for c in found.checks:
            for example in c.examples:
                say(f"  {c.stage}: {one_line(example, 160)}")
        for v in found.limits:
            worst = f", worst {plain(v.worst[0])} with {v.worst[1]:g}" if v.worst else ""
            of = f"{v.violated} of {counted(v.sessions, 'session')}"
            limit = f"{v.limit.metric} {v.limit.direction} {v.limit.threshold:g}"
            say(f"limit {plain(v.limit.name)}: {limit}: {v.status} ({of}{worst}; {v.limit.action})")
        _summary(found)
    if found.failed:
        raise SystemExit(1)


def _verify_deep(settings: Settings, *, as_json: bool) -> None:
    from ctx_pipeline.maintenance.repair import verify_deep
    from ctx_pipeline.pipeline.repair import damaged_outputs
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        found = verify_deep(store, settings)
        damaged_outputs.note_damaged(store, [path for path, _ in found.damaged])
    if as_json:
        emit(found.to_json())
    else:
        for line in found.lines():
            say(one_line(line, 400))
    if not found.sound:
        raise SystemExit(1)


def _summary(found: Verification) -> None:
    counts = found.counts
    say(f"checks: {counts['pass']} pass, {counts['fail']} fail, {counts['no data']} without data")
    looked = counts["pass"] + counts["fail"]
    say(f"pass rate: {_percent(found.rate)}" + (f" of {counted(looked, 'check')} with data" if counts["no data"] and looked else ""))
    say(f"limits: {len(found.limits)}, violated: {sum(bool(v.violated) for v in found.limits)}")
    verified = f"verified, but for {counted(counts['no data'], 'check')} without data" if counts["no data"] else "verified"
    say("not verified" if found.failed else "no data" if found.rate is None else verified)


def _percent(rate: float | None) -> str:
    return "no data" if rate is None else percent(rate)
