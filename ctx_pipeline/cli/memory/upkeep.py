"""``ctx memory init``, ``reindex``, ``doctor``, ``import-authored``, ``export`` and ``backtest``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import choose, for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say, table
from ctx_pipeline.memory.injection_policy import BEFORE_COMMAND, COMMAND_MOMENTS, LEAST_TOLD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


# ctx memory init, reindex, doctor, import-authored, export and export-skill.


_SHOWN = 20


def _settings() -> Settings:
    from ctx_pipeline import settings as settings_module

    return choose(settings_module.load(), demo=False, samples=False)[0]


def _brought_up_to_date(store: Store, settings: Settings, *, force: bool = False) -> dict[str, Any]:
    from ctx_pipeline.pipeline.consolidate import consolidate
    from ctx_pipeline.pipeline.index import index_memory
    from ctx_pipeline.pipeline.lessons.lesson_outcomes import score_lesson_use

    score_lesson_use(store, settings, force=force)
    merged = consolidate(store, settings, force=force)
    index_memory(store, settings, force=force)
    return {"path": str(store.memories.path), "memories": sum(store.memories.counts().values()), **merged.totals}


@click.command()
@json_option
def init(as_json: bool) -> None:
    """Create the store of memories; an existing one stays."""
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        made = _brought_up_to_date(store, settings)
    if as_json:
        emit(made)
    else:
        say(f"{plain(made['path'])}: {counted(made['memories'], 'memory', 'memories')}")


@click.command()
@json_option
def reindex(as_json: bool) -> None:
    """Rebuild the memories and their index.

    From the mined candidates, the notes and the journal.
    """
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        made = _brought_up_to_date(store, settings, force=True)
    if as_json:
        emit(made)
    else:
        held = made.get("needs_review", 0)
        lost = f"; {counted(made['errors'], 'method')} raised an error" if made.get("errors") else ""
        of = f"{counted(made['memories'], 'memory', 'memories')} of {counted(made.get('candidates', 0), 'candidate')}"
        say(f"{of}, {held:,} held back for review{lost}")


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Count the memories and show what is wrong with them.

    Links to nothing, what is held back, contradictions, files gone or changed.
    """
    from ctx_pipeline.learning import memories as api

    found = api.condition(settings=for_reading())
    if as_json:
        emit(found)
        return
    say(f"{counted(found['memories'], 'memory', 'memories')} in {plain(found['path'])}")
    for name in ("status", "scope", "kind", "source"):
        if found[f"by_{name}"]:
            say(f"  {name}: " + ", ".join(f"{plain(key)} {count:,}" for key, count in found[f"by_{name}"].items()))
    for title, rows in (("links to nothing", found["dangling"]), ("held back", found["held_back"]), ("to be minded", found["marks"])):
        if rows:
            say(f"{title}: {len(rows):,}", bold=True)
        for memory_id, what in list(rows.items())[:_SHOWN]:
            say(f"  {plain(memory_id)}: {one_line(', '.join(what), 200)}")
        if len(rows) > _SHOWN:
            say(f"  and {len(rows) - _SHOWN:,} more (--json has all)")


@click.command("import-authored")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def import_authored(folder: Path, as_json: bool) -> None:
    """Bring Markdown notes below FOLDER in as memories.

    A note that did not change is left alone, one that did keeps its id and what it has
    been worth. Front matter may say id, kind, scope, status, when_to_use, repository,
    confidence, priority, risk, tags, title and aliases; what is not understood is named
    with the words that would be. A note with a repository and no scope holds there only.
    """
    from ctx_pipeline.pipeline.lessons.memory_files import import_authored as stage
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        report = stage(store, settings, folder)
        made = _brought_up_to_date(store, settings)
    if as_json:
        emit({**vars(report), "memories": made["memories"]})
        return
    say(f"{counted(report.notes, 'note')}: {report.added:,} new, {report.changed:,} changed, {report.unchanged:,} as they were")
    told = [f"{path}: left out, {why}" for path, why in report.skipped.items()]
    told += [f"{path}: {'; '.join(what)}" for path, what in report.problems.items()]
    for line in told[:_SHOWN]:
        say(f"  {one_line(line, 200)}")
    if len(told) > _SHOWN:
        say(f"  and {len(told) - _SHOWN:,} more (--json has all)")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def export(folder: Path, as_json: bool) -> None:
    """Write the memories as JSON lines into FOLDER.

    items.jsonl has the memories, events.jsonl all that was said of them.
    """
    from ctx_pipeline.pipeline.lessons.memory_files import export as stage
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        _brought_up_to_date(store, settings)
        written = stage(store, folder)
    if as_json:
        emit(written)
    else:
        say(f"{plain(folder)}: items.jsonl {written['items']:,}, events.jsonl {written['events']:,}")


@click.command("export-skill")
@click.argument("memory_id")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of skills, such as .agents/skills.")
@click.option("--name", help="Name of the skill; made of its title or text without it.")
@json_option
def export_skill(memory_id: str, out: Path | None, name: str | None, as_json: bool) -> None:
    """Write a memory as a skill, or print it.

    NAME/SKILL.md below --out; printed without --out.
    """
    from ctx_pipeline.learning import memories as api

    text, named, path = api.export_skill(memory_id, out=out, name=name, settings=for_reading())
    if as_json:
        emit({"name": named, "path": str(path) if path else None, "text": text})
    elif path is None:
        say(text, nl=False)
    else:
        say(plain(path))


# ctx memory backtest: the person's own history, replayed.


_BACKTEST_SHOWN = 10
_CAME = {
    "error": "an error, as it was printed",
    "failed": "a failure, before it",
    "changed": "a file, before its change",
    "ran": "a check, before it ran",
    "ruled": "a rule, before it was typed",
}
_STARTS = {"accepted": "what was accepted", "proven": "what was accepted or learned twice"}


@click.command()
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="One split at this day (UTC) instead of several that follow each other.")
@click.option("--splits", default=8, show_default=True, type=click.IntRange(1, 100), help="Days of a rolling backtest.")
@click.option("--precision", default=0.5, show_default=True, type=click.FloatRange(0, 1), help="Precision that thresholds should have.")
@click.option("--gate", is_flag=True, help="End with status 1 when a figure is worse than the last ones that were kept.")
@click.option("--history", is_flag=True, help="Show the figures that were kept, and replay nothing.")
@json_option
def backtest(before: datetime | None, splits: int, precision: float, gate: bool, history: bool, as_json: bool) -> None:
    """Replay your history against its memories.

    Would memories of the past have answered what came after? Memories are mined from the
    sessions that ended before a day and asked with the prompts and errors from that day on,
    beside chance, the raw text of the past and controls.
    Nothing is changed; suggested settings are shown as commands. What each figure
    means: docs/backtest.md.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.learning.backtest import backtest as stage
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        if history:
            rows = stage.stored_results(store)
            if as_json:
                emit({"kept": rows})
            else:
                _print_history(rows)
            return
        day = int(before.replace(tzinfo=UTC).timestamp() * 1_000_000) if before else None
        report = stage.backtest(store, settings, before=day, splits=splits, wanted=precision)
        usual = day is None and splits == stage.SPLITS
        report["worse"] = stage.keep(store, report) if usual else []
    if as_json:
        emit(report)
    else:
        _tell(report)
    if gate and report["worse"]:
        raise SystemExit(1)


def _tell(report: Mapping[str, Any]) -> None:
    if report["reason"]:
        say(report["reason"])
    if report["splits"]:
        _recall(report)
        _injection(report)
        _hook_events(report)
        _warned(report)
    _effect(report["effect"])
    _proposals(report["proposals"])
    for name, (was, now) in (report["worse"][0]["versions_changed"] if report["worse"] else {}).items():
        say(f"changed since: {plain(name)} {plain(was)} → {plain(now)}")
    for figure in report["worse"]:
        say(
            f"worse than before: {figure['figure']} is {_share(figure['is'])}, was {_share(figure['was'])}"
            f" ({_share(figure['low'])} to {_share(figure['high'])})",
            fg="red",
        )


_RECALL_MEANS = (
    ("questions", "prompts and errors after a day, where what followed had happened before it"),
    ("learned", "of these, how many a memory is about"),
    ("first, in five", "a right memory is the best answer, or among the best five"),
    ("chance", "one is among five memories drawn at random"),
    ("other session", "the same answers, held against what came in another session"),
    ("raw text", "one is among five hits of a text search over all earlier sessions"),
    ("hooks told", "a hook would have told one by then"),
    ("(0%-19%)", "in 95 of 100 histories like this one the share lies between these"),
)
_THRESHOLD_MEANS = (
    ("threshold", "share of the prompt's words, by weight, that a memory must hold to be told"),
    ("told, of prompts", "how many memories that is, and the share of prompts that are told one"),
    ("right", "of these, those about something that followed in the session"),
    ("first of a search right", "the same of the best answer of a search with the prompt"),
)
_MOMENT_MEANS = (
    ("moments, told, right", "how often hooks could speak, what they told, and what of it was about something that followed"),
    ("text search, newest turn", "how often the best hit of a text search, or the last turn before, was"),
    ("other repository", "how many lessons of another repository would have been told there"),
    (
        "told by default",
        f"whether hooks tell this kind where nobody accepted the lesson; told fewer than {LEAST_TOLD} times it is unproven",
    ),
)


def _means(names: tuple[tuple[str, str], ...]) -> None:
    """Print one line for each number of a table: what it is."""
    for name, meaning in names:
        say(f"  {name}: {meaning}", dim=True)


def _recall(report: Mapping[str, Any]) -> None:
    splits = report["splits"]
    days = f"{splits[0]['before']} to {splits[-1]['before']}" if len(splits) > 1 else splits[0]["before"]
    counted = [sum(s[name] for s in splits) for name in ("sessions_after", "prompts", "questions")]
    title = f"{len(splits)} split{'s' * (len(splits) != 1)}, {days}"
    say(f"{title}: {counted[0]:,} sessions after, {counted[1]:,} prompts, {counted[2]:,} questions")
    say("a split is a day: memories of the sessions before it are asked with the prompts and errors after it", dim=True)
    if not report["recall"]:
        say("nothing that came after a day had come before it")
        return
    say("what came again, and whether a memory about it was found:", bold=True)
    rows = [
        {
            "what": _CAME[r["kind"]],
            "questions": r["questions"],
            "learned": r["learned"],
            "first": _estimate(r["hit_at_1"]),
            "five": _estimate(r["hit_at_5"]),
            "chance": _share(r["chance_at_5"]["value"]),
            "shuffled": _share(r["shuffled_at_5"]["value"]),
            "raw": _estimate(r["raw_at_5"]),
            "told": _estimate(r["injected"]),
        }
        for r in report["recall"]
    ]
    columns = {
        "what": "asked with",
        "questions": "questions",
        "learned": "learned",
        "first": "first",
        "five": "in five",
        "chance": "chance",
    }
    table(rows, {**columns, "shuffled": "other session", "raw": "raw text", "told": "hooks told"})
    _means(_RECALL_MEANS)


def _injection(report: Mapping[str, Any]) -> None:
    say("what hooks would have told, and how much of it was about what came after:", bold=True)
    for rule in report["starts"]:
        used = " (in use)" if rule["start"] == report["recommended"]["start_in_use"] else ""
        told = f"{rule['told']:,} in {rule['sessions']:,} sessions, right {_estimate(rule['precision'])}"
        say(f"  at the start, {_STARTS[rule['start']]}{used}: {told}")
    rows = [
        {
            "threshold": f"{r['threshold']:g}",
            "told": r["told"],
            "prompts": _share(r["prompts_told"]["value"]),
            "right": _estimate(r["injection_precision"]),
            "search": _estimate(r["search_precision"]),
        }
        for r in report["thresholds"]
    ]
    columns = {"threshold": "threshold", "told": "told", "prompts": "of prompts", "right": "right", "search": "first of a search right"}
    table(rows, columns)
    _means(_THRESHOLD_MEANS)
    best = report["recommended"]
    wanted = _share(best["wanted"])
    in_use = "nothing is told at prompts" if best["in_use"] is None else f"in use: {best['in_use']:g}"
    if best["injection"] is not None:
        say(f"  right in {wanted} at prompts from {best['injection']:g} on; {in_use}")
    else:
        say(f"  no threshold is known to be right in {wanted}; {in_use}")
    say(f"  right in {wanted} at the start: {_STARTS[best['start']] if best['start'] else 'no rule is known to be'}")
    none = best["injection"] is None and best["start"] is None
    say(f"  hooks that keep to it{' (they would tell nothing)' if none else ''}: ctx hooks install HOST --precision {best['wanted']:g}")
    own, other, everyday = (_estimate(report["controls"][name]) for name in ("own_repository", "other_repository", "everyday"))
    say(f"  prompts that are told something: at their own repository {own}")
    say(f"  controls: the same prompts at another repository {other}, everyday questions {everyday}")


def _hook_events(report: Mapping[str, Any]) -> None:
    """Print what lessons would have told at each moment beside what a text search and the newest turn show there."""
    rows = []
    for moment, row in report["moments"].items():
        searched = row["plain"] if moment != BEFORE_COMMAND else "-"
        kinds = row["kinds"] or {"-": {"told": 0, "right": 0, "plain": searched, "newest": row["newest"]}}
        rows += [
            {
                "moment": moment,
                "moments": row["moments"],
                "kind": kind,
                "told": count["told"],
                "right": count["right"],
                "plain": count["plain"],
                "newest": count["newest"],
                "elsewhere": row["elsewhere"] if moment in COMMAND_MOMENTS else "-",
                "default": _default(count),
            }
            for kind, count in kinds.items()
        ]
    say("at each moment, what was about something that came after; nothing told is right 0 times:", bold=True)
    columns = {"moment": "moment", "moments": "moments", "kind": "lesson", "told": "told", "right": "right"}
    table(rows, {**columns, "plain": "text search", "newest": "newest turn", "elsewhere": "other repository", "default": "told by default"})
    _means(_MOMENT_MEANS)
    say("lessons against text search, over all of these moments:", bold=True)
    for moment, row in report["moments"].items():
        if (apart := row["against_search"])["value"] is not None:
            known = f"{row['knew']} of the {row['answerable']} where something that came had been there before"
            seen = f"a right lesson was told by then at {known}; the first hit is right at {row['plain']} of all {row['moments']:,}"
            say(f"  {moment}: {seen}; difference {_difference(apart)}; {_better(row, apart)}")


def _default(count: Mapping[str, Any]) -> str:
    """Return whether a kind is told without being asked to, and whether that is proven."""
    if "by_default" not in count:
        return "-"
    return ("yes" if count["by_default"] else "no") + (", unproven" if count["told"] < LEAST_TOLD else "")


def _better(row: Mapping[str, Any], apart: Mapping[str, Any]) -> str:
    """Return in words which of lessons and text search is right more often at a moment, or why that cannot be told."""
    low, high = apart["low"], apart["high"]
    if low is None or row["answerable"] < LEAST_TOLD:
        return "too few to tell which is better"
    if low > 0:
        return "lessons beat text search"
    return "text search beats lessons" if high < 0 else "neither is clearly better"


def _warned(report: Mapping[str, Any]) -> None:
    if not report["recurred"]:
        say("no failure came again")
        return
    say(f"{report['recurred']:,} failures came again; hooks would have warned before {_estimate(report['warned_share'])}", bold=True)
    for w in report["warned"][:_BACKTEST_SHOWN]:
        say(f"  {w['memory_id']}  {w['seconds_before'] / 60:,.0f} min before, in {w['host']} {one_line(w['session_id'], 40)}")
        say(f"    {one_line(plain(w['text']), 160)}")
    _more(len(report["warned"]))


def _effect(effect: Mapping[str, Any]) -> None:
    logged = effect["logged"]
    if not logged["memories_told"] and effect["kind"] == "nothing told":
        say("no session was told a memory yet: what memories do cannot be compared (ctx hooks install)")
        return
    say(
        f"hooks told {_count(logged['sessions_told'], 'session')}; of {_count(logged['memories_told'], 'memory', 'memories')} told,"
        f" {effect['memories_judged']:,} judged: used {_estimate(effect['used'])}, followed {_estimate(effect['followed'])}",
        bold=True,
    )
    if effect["kind"] == "nothing told":
        say("  none of these sessions is captured with a time and a folder: what memories do cannot be compared yet")
        return
    what = "an experiment" if effect["kind"] == "experiment" else "observational: these sessions may differ in more than the memories"
    compared = _count(effect["sessions_told"], "captured session")
    say(f"  compared: {compared} told, {effect['sessions_not_told']:,} not ({what})")
    for m in effect["memories"][:_BACKTEST_SHOWN]:
        say(f"  {plain(m['memory_id'])}: " + ", ".join(f"{plain(name)} {count:,}" for name, count in m["outcomes"].items()))
    _more(len(effect["memories"]))
    rows = [
        {"what": name, "told": d["told"], "not_told": d["not_told"], "apart": _difference(d)} for name, d in effect["differences"].items()
    ]
    table(rows, {"what": "a session", "told": "told", "not_told": "not told", "apart": "difference (95 %)"})


def _proposals(rows: list[dict[str, Any]]) -> None:
    for verb, title in (("accept", "they keep helping; accept them:"), ("retire", "they never helped; retire them:")):
        some = [r for r in rows if r["propose"] == verb]
        if some:
            say(title, bold=True)
        for r in some[:_BACKTEST_SHOWN]:
            told = f"told {r['told']}, helped {r['helped']}, harmed {r['harmed']}; replayed {r['replayed']}, right {r['right']}"
            say(f"  {r['command']}  ({told})")
            say(f"    {one_line(plain(r['text']), 160)}")
        _more(len(some))


def _print_history(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("no figures were kept yet")
    for row in rows:
        say(f"{row['at']}  ctx_pipeline {row['versions']['package']}, {len(row['splits'])} splits", bold=True)
        for name, figure in sorted(row["figures"].items()):
            say(f"  {name}: {_estimate(figure)}")


def _more(count: int) -> None:
    if count > _BACKTEST_SHOWN:
        say(f"  and {count - _BACKTEST_SHOWN:,} more (--json has all)")


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def _estimate(figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return "-"
    low, high = figure["low"], figure["high"]
    return f"{_share(figure['value'])} of {figure['of']:,}" if low is None else f"{_share(figure['value'])} ({_share(low)}-{_share(high)})"


def _difference(figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return "-"
    low, high = figure["low"], figure["high"]
    return f"{figure['value']:+.2f}" + ("" if low is None else f" ({low:+.2f} to {high:+.2f})")
