"""The hub: checks and collects what members published, measures signals over it, and keeps the team's database and lessons.

Each step is idempotent and of one member and month, or of the whole team: the command line runs them in turn,
Dagster as assets (:mod:`ctx_pipeline.defs.hub_location`). Workers share nothing but the bucket.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError, UsageError
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import MEMORIES
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.shell.command_risk import reason
from ctx_pipeline.storage.files import PrivateFolder
from ctx_pipeline.storage.team_tables.bucket import Bucket, at_once, json_object
from ctx_pipeline.storage.team_tables.delta import TeamTable, without_zone
from ctx_pipeline.storage.team_tables.hub_database import HubDatabase, declared
from ctx_pipeline.team.checked_rows import checked
from ctx_pipeline.team.failed_parts import FailedParts
from ctx_pipeline.team.heads import Heads
from ctx_pipeline.team.hub_signals import READINGS_TABLE, family_code, measurable, measured, tables_read
from ctx_pipeline.team.membership import Agreement, agreement, membership
from ctx_pipeline.team.missing_rows import missing
from ctx_pipeline.team.published_tables import LESSON_COLUMNS, LESSONS, LESSONS_MONTH, PARTITIONS, PLACE, PUBLISHED, TEAM_LESSONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.team.failed_parts import Notes
    from ctx_pipeline.team.heads import Head

URL = "CTX_TEAM_URL"
"""Names the team's bucket for a hub that is no member."""

STATE = "team/state"
ERASED = f"{STATE}/erased.json"
"""Object that says which removals for good the team's tables followed: machine -> its count."""
_LOADED = ("sessions", "model_calls", "turns", "check_runs", "command_runs")
_BEFORE = "before"
"""In place of the digest of a part that is loaded as the team has it, since it could not be collected: due, and gone with its member."""


class NotReadable(StoreError):
    """A table of a member cannot be read (damaged, or no table of ours); those of the team are as they were."""


_PARTS = 50
"""Parts of one commit: a refresh holds the rows of so many at a time."""


class Part(NamedTuple):
    """One partition of the hub."""

    member: str
    month: str

    @property
    def key(self) -> str:
        """Partition key as Dagster writes it."""
        return f"{self.member}|{self.month}"


@dataclass
class Collected:
    """What became of parts that were collected."""

    rows: dict[Part, dict[str, pa.Table | None]] = field(default_factory=dict)
    """part -> the rows of its tables as the team has them now"""
    failed: dict[Part, NotReadable] = field(default_factory=dict)
    """parts that stayed as they were"""
    problems: list[str] = field(default_factory=list)
    """what was refused"""


@dataclass
class Refreshed:
    """What a refresh did."""

    collected: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """what of the collected was refused"""
    not_collected: list[str] = field(default_factory=list)
    """parts of which a table of the member cannot be read, and why"""
    up_to_date: list[str] = field(default_factory=list)
    """months of members that the team's tables have as they were published, whenever they were collected"""
    erased: int = 0
    """files of earlier versions that were removed, since a machine erased rows or left"""
    members: int = 0
    lessons: int = 0
    seconds: float = 0.0


def bucket_of(settings: Settings, url: str | None = None) -> str:
    """Return the address of the team's bucket: as asked, of the environment, or of the team that this machine is in."""
    member = membership(settings)
    place = url or settings.environ.get(URL) or (member.url if member else "")
    if not place:
        raise UsageError("no team is named", hint="ctx hub refresh --url URL, or: ctx team join URL")
    return place


class Hub:
    """The hub of one team on this machine."""

    def __init__(self, settings: Settings, url: str | None = None) -> None:
        self.settings = settings
        discovery.look_in(settings.home / "config")
        self.bucket = Bucket(bucket_of(settings, url))
        self.team = agreement(self.bucket) or Agreement()
        self.folder = settings.home / "hub" / digest(self.bucket.url)[:12]
        """of this team's bucket alone: what another one published is no part of it"""
        _drop_earlier(settings.home / "hub")
        lessons = (*PLACE, *(c for c in MEMORIES.columns if c.name in LESSON_COLUMNS))
        kept = {name: (*PLACE, *(c for c in declared(name) if c.name != "month")) for name in (*_LOADED, "readings")}
        self.database = HubDatabase(self.folder, {**kept, LESSONS: lessons})
        self.said = Heads(self.bucket)
        self.failed = FailedParts(self.bucket)
        self._tables: dict[str, TeamTable] = {}

    def table(self, path: str) -> TeamTable:
        """Return a table of the team as it is now; one of a member is opened each time, since its folder may have gone and come."""
        found = self._tables.setdefault(path, TeamTable(self.bucket, path))
        found.opened(anew=True)
        return found

    # what members say

    def heads(self) -> list[Head]:
        """Return the last word of every machine, as :meth:`Heads.read` does."""
        return self.said.read()

    def parts(self, heads: Iterable[Head] | None = None) -> dict[Part, str]:
        """Return every member and month that somebody published, with a digest of what all machines of the member said of it."""
        said: dict[Part, list[tuple[str, str]]] = {}
        for head in self.heads() if heads is None else heads:
            months = {**head.months, **({LESSONS_MONTH: head.lessons} if head.lessons else {})}
            for month, value in months.items():
                said.setdefault(Part(head.member, month), []).append((head.machine, value))
        return {part: digest(sorted(rows)) for part, rows in sorted(said.items())}

    def stale(self) -> dict[Part, str]:
        """Return the parts whose rows in the hub's database are not those that were published, and those that nobody publishes any more."""
        now = self.parts()
        return self.without_unsure_removals(stale_parts(now, self.database.loaded()))

    def without_unsure_removals(self, due: dict[Part, str]) -> dict[Part, str]:
        """Return what is due without removals of members of whom a head cannot be read: perhaps it says what is there."""
        members = {member for member, _ in self.said.unreadable}
        return {part: made_of for part, made_of in due.items() if made_of or part.member not in members}

    # steps

    def collect(self, parts: Sequence[Part], published: Mapping[Part, str] | None = None) -> Collected:
        """Copy what members published of some months to the team's tables, checked: one commit a table, whatever the number of parts.

        The numbers of the commits, one for each part, are drawn before anything is read: a worker that stalled
        meanwhile, while another one did its work, fails with Fenced at its commit. Of a part nothing is
        committed before all its tables were read: where one cannot be, the others stay as they are too.
        ``published`` is what :meth:`parts` said before.
        """
        said = self.parts() if published is None else published
        of_table: dict[str, list[Part]] = {}
        for part in parts:
            for name in [LESSONS] if part.month == LESSONS_MONTH else [t.name for t in PUBLISHED]:
                of_table.setdefault(name, []).append(part)

        def drawn(name: str) -> tuple[TeamTable, dict[str, int]]:
            target = self.table(f"team/{name}")
            return target, {writer: number + 1 for writer, number in target.last_numbers(map(_writer, of_table[name])).items()}

        targets = dict(zip(of_table, at_once(drawn, list(of_table)), strict=True))
        wanted: dict[tuple[str, str], list[str]] = {}
        for name, chosen in of_table.items():
            for part in chosen:
                wanted.setdefault((part.member, name), []).append(part.month)
        found: dict[tuple[str, str], dict[str, pa.Table | StoreError | None]] = dict(
            zip(wanted, at_once(lambda one: self._published(*one, wanted[one]), list(wanted)), strict=True)
        )
        done = Collected()
        for part in parts:
            names = [name for name, chosen in of_table.items() if part in chosen]
            read = {name: found[part.member, name][part.month] for name in names}
            if error := next((one for one in read.values() if isinstance(one, StoreError)), None):
                done.failed[part] = NotReadable(error.message, hint=error.hint)
                continue
            # read again where rows are missing: a machine may have removed its own meanwhile
            if missing(self.said.last, *part, read) and (lacks := missing(self.heads(), *part, read)):
                done.failed[part] = NotReadable(f"members/{part.member}/{lacks}", hint="on that machine: ctx publish --all")
                continue
            rows = done.rows[part] = {}
            for name, source in read.items():
                rows[name] = (
                    checked(name, *part, source, done.problems) if source is not None and not isinstance(source, StoreError) else None
                )

        def put(name: str) -> None:
            target, numbers = targets[name]
            chosen = [part for part in of_table[name] if part in done.rows]
            found = [rows for part in chosen if (rows := done.rows[part][name]) is not None]
            if chosen and (found or target.opened() is not None):
                own = {_writer(part): numbers[_writer(part)] for part in chosen}
                target.put_all(joined(found), numbers=own, keys=_places(chosen), by=PARTITIONS)

        at_once(put, list(of_table))
        at_once(
            lambda part: self.bucket.write(_collected_path(part), json.dumps({"published": said.get(part, "")}).encode()), list(done.rows)
        )
        members: dict[str, list[Part]] = {}
        for part in parts:
            members.setdefault(part.member, []).append(part)
        self.failed.change({member: partial(_with_failures, member, chosen, done) for member, chosen in members.items()})
        return done

    def failures(self) -> dict[Part, dict[str, Any]]:
        """Return the parts that could not be collected when it was tried last: since when, how often and why."""
        found = self.failed.read()
        return {part: noted for part in self.parts() if (noted := found.get(part.member, {}).get(part.month))}

    def made(self, parts: Mapping[Part, str]) -> set[Part]:
        """Return which parts the team's tables have as they were published, with readings of that; two small reads a part."""

        def is_made(part: Part) -> bool:
            wanted = parts[part]
            if json_object(self.bucket.read(_collected_path(part))).get("published", "") != wanted:
                return False
            if not wanted or part.month == LESSONS_MONTH:
                return True
            readings = json_object(self.bucket.read(_state_path(part)))
            return all(str(readings.get(name, "")).startswith(f"{wanted} ") for name in measurable())

        asked = list(parts)
        return {part for part, made in zip(asked, at_once(is_made, asked), strict=True) if made}

    def _published(self, member: str, name: str, months: Sequence[str]) -> dict[str, pa.Table | StoreError | None]:
        """Return what a member's table holds of some months, or why that month cannot be read; the table is opened once."""
        import pyarrow.compute as pc

        table = TeamTable(self.bucket, f"members/{member}/{name}")
        try:
            table.opened()
        except StoreError as error:
            return dict.fromkeys(months, error)

        def read(chosen: Sequence[str]) -> dict[str, pa.Table | StoreError | None]:
            try:
                rows = table.rows_of([{"month": chosen}])
                return {
                    month: rows if rows is None or len(chosen) == 1 else rows.filter(pc.equal(rows["month"], month)) for month in chosen
                }
            except StoreError as error:
                if len(chosen) == 1:
                    return {chosen[0]: error}
            return {month: read([month])[month] for month in chosen}

        return read(months)

    def measure(
        self,
        parts: Sequence[Part],
        families: Collection[str] | None = None,
        known: Mapping[Part, dict[str, pa.Table | None]] | None = None,
        problems: list[str] | None = None,
    ) -> dict[Part, list[str]]:
        """Take the readings of members' months that signals can be asked for over published facts; return the families that were due.

        Readings are of what had been published when the part was collected: what members publish between the two is due when it was
        collected. Families whose code and input are as they were cost two small reads a part; all others are one commit.
        ``known`` are rows that this process has just collected; their readings join them where all families were due.
        ``problems`` gets the sessions that a signal failed on.
        """
        asked = list(parts)
        states = dict(zip(asked, at_once(lambda part: json_object(self.bucket.read(_state_path(part))), asked), strict=True))
        collected = self._collected(asked)
        due: dict[Part, dict[str, str]] = {}
        for part, state in states.items():
            wanted = {name: f"{collected[part]} {family_code(name)}" for name in (families if families is not None else measurable())}
            if changed := {name: value for name, value in wanted.items() if state.get(name) != value}:
                due[part] = changed
        if not due:
            return {}
        target = self.table(f"team/{READINGS_TABLE}")
        numbers = {writer: number + 1 for writer, number in target.last_numbers(map(_writer, due)).items()}
        tables = dict(known or {})
        if missing := [part for part in due if part not in tables]:
            tables |= self._rows(missing, tables_read({name for part in missing for name in due[part]}))
        rows = {part: measured(self.settings, *part, _needed(tables[part], due[part]), due[part], problems=problems) for part in due}
        alike: dict[frozenset[str], list[Part]] = {}
        for part, names in due.items():
            alike.setdefault(frozenset(names), []).append(part)
        keys = [{**place, "family": names} for names, chosen in alike.items() for place in _places(chosen)]
        target.put_all(joined(list(rows.values())), numbers=numbers, keys=keys, by=("member", "month", "family"))
        at_once(lambda part: self.bucket.write(_state_path(part), json.dumps(states[part] | due[part]).encode()), list(due))
        every = set(measurable())
        for part, readings in rows.items():
            if known and part in known and due[part].keys() >= every:
                known[part][READINGS_TABLE] = without_zone(readings)
        return {part: sorted(names) for part, names in due.items()}

    def _collected(self, parts: Sequence[Part]) -> dict[Part, str]:
        """Return a digest of what had been published when each part was collected; where that is not known, of what is now."""
        found = at_once(lambda part: json_object(self.bucket.read(_collected_path(part))).get("published"), parts)
        now = {} if all(isinstance(one, str) for one in found) else self.parts()
        return {part: one if isinstance(one, str) else now.get(part, "") for part, one in zip(parts, found, strict=True)}

    def load(self, parts: Mapping[Part, str], known: Mapping[Part, Mapping[str, pa.Table | None]] | None = None) -> None:
        """Load parts of the team's tables into this machine's database; a part with an empty digest is removed.

        ``known`` are rows that this process has just collected.
        """
        tables: dict[Part, dict[str, pa.Table | None]] = {part: {} for part in parts}
        for month_is_all, names in ((True, (LESSONS,)), (False, (*_LOADED, READINGS_TABLE))):
            chosen = [part for part in parts if (part.month == LESSONS_MONTH) is month_is_all]
            kept = {part: {name: rows for name, rows in (known or {}).get(part, {}).items() if name in names} for part in chosen}
            missing = [name for name in names if any(name not in kept[part] for part in chosen)]
            found = self._rows(chosen, missing) if missing else {}
            for part in chosen:
                tables[part] = {**found.get(part, {}), **kept[part]}
        self.database.load({(part.member, part.month): (tables[part], made_of or None) for part, made_of in parts.items()})

    def _rows(self, parts: Sequence[Part], names: Sequence[str]) -> dict[Part, dict[str, pa.Table | None]]:
        """Return the team's rows of some parts, by table; each table is read once."""
        import pyarrow.compute as pc

        keys = _places(parts)

        def read(name: str) -> dict[Part, pa.Table | None]:
            rows = self.table(f"team/{name}").rows_of(keys)
            if rows is None or len(parts) == 1:
                return dict.fromkeys(parts, rows)
            of_member = {m: rows.filter(pc.equal(rows["member"], m)) for m in {part.member for part in parts}}
            return {part: of_member[part.member].filter(pc.equal(of_member[part.member]["month"], part.month)) for part in parts}

        found = dict(zip(names, at_once(read, names), strict=True))
        return {part: {name: found[name][part] for name in names} for part in parts}

    def judged_lessons(self) -> list[dict[str, Any]]:
        """Return the lessons of members, each with a verdict by their votes.

        A lesson is accepted with the votes that ``team.json`` asks for and more than those
        against it. What the injection and secret checks find something in, or what
        proposes a command that publishes or destroys, waits for a person.
        """
        redactor = Redactor(self.settings.patterns)
        judged = []
        for row in self.database.reports(("lessons",))["lessons"]:
            texts = [row["text"], row["when_to_use"]]
            flags = scan(texts, lambda text: {name for name, _, _ in redactor.find(text)})
            if any(reason(str(row["kind"]), text, {}) for text in texts if text):
                flags = [*flags, "dangerous-command"]
            votes, against = len(row["accepted_by"] or ()), len(row["rejected_by"] or ())
            verdict = "held" if flags else "accepted" if votes >= self.team.votes and votes > against else "proposed"
            judged.append({"verdict": verdict} | row | {"flags": flags})
        return judged

    def lessons(self) -> list[dict[str, Any]]:
        """Judge the lessons, write those that the team accepted for members to pull, and return all."""
        judged = self.judged_lessons()
        accepted = [
            {
                name: row[name]
                for name in ("memory_id", "kind", "text", "when_to_use", "scope", "repository", "risk", "confidence", "priority")
            }
            | {"by": self.shown(row["accepted_by"]), "evidence": row["evidence"], "support": row["support"]}
            for row in judged
            if row["verdict"] == "accepted"
        ]
        body = json.dumps({"protocol": 1, "lessons": accepted}, ensure_ascii=False, sort_keys=True).encode()
        if self.bucket.read(TEAM_LESSONS) != body:
            self.bucket.write(TEAM_LESSONS, body)
        return judged

    def shown(self, members: Iterable[str] | None) -> list[str]:
        """Return the names of members as the team's policy shows them."""
        return [self.alias(name) for name in members or ()]

    def alias(self, member: str) -> str:
        """Return a member's name, or where ``team.json`` says so a name that says nothing."""
        return f"member-{digest(self.bucket.url, member)[:6]}" if self.team.aliases else member

    def refresh(self, families: Collection[str] | None = None) -> Refreshed:
        """Bring tables, readings, database and lessons up to date with what was published; what did not change costs one listing.

        Of a member whose tables cannot be read (damaged, or no tables of ours) the hub keeps what it has, says why, and tries again
        at the next refresh; the others go on. What the hub itself cannot do (its own tables, the bucket) is raised.
        """
        began = time.perf_counter()
        done = Refreshed()
        heads = self.heads()
        now, held = self.parts(heads), self.database.loaded()
        due = self.without_unsure_removals(stale_parts(now, held))
        place = self.folder / "measured.json"
        before = json_object(place.read_bytes() if place.exists() else None)
        code = digest("loaded", *(f"{name} {family_code(name)}" for name in (families if families is not None else measurable())))
        failed: set[Part] = set()
        known = dict(before)
        """part -> code by which its readings were taken last; no request where that is the code of now"""
        asked = [part for part in now | due if part in due or (part.month != LESSONS_MONTH and known.get(part.key) != code)]
        for start in range(0, len(asked), _PARTS):
            parts = asked[start : start + _PARTS]
            collected = self.collect([part for part in parts if part in due], now)
            done.problems += collected.problems
            for part, error in collected.failed.items():
                done.not_collected.append(f"{part.key} {error.message}")
                failed.add(part)
            done.collected += [part.key for part in collected.rows]
            sound = [part for part in parts if part not in collected.failed]
            wanted = [part for part in sound if part.month != LESSONS_MONTH]
            made = self.measure(wanted, families, collected.rows, done.problems) if wanted else {}
            done.measured += [f"{part.key} {name}" for part, names in made.items() for name in names]
            known |= {part.key: code for part in sound}
            # those too whose readings another process took: a backfill, or a worker
            loads = {part: now.get(part, "") for part in sound}
            loads |= {part: _BEFORE for part in collected.failed if part.key not in held}
            if loads:
                self.load(loads, collected.rows)
        known = {key: value for key, value in known.items() if Part(*key.split("|", 1)) in now}
        done.up_to_date = [part.key for part in now if part not in failed and part.month != LESSONS_MONTH]
        if known != before:
            place.write_text(json.dumps(known), "utf-8")
        done.erased = self.erase({part.member for part in failed} | {member for member, _ in self.said.unreadable}, heads)
        done.members = len({part.member for part in now})
        done.lessons = sum(row["verdict"] == "accepted" for row in self.lessons())
        done.seconds = time.perf_counter() - began
        return done

    def erase(self, failed: Collection[str] = (), heads: Sequence[Head] | None = None) -> int:
        """Remove the earlier versions of the team's tables where a machine removed rows for good or is gone; return how many files went.

        What was done is noted in the bucket, so that it is done once, whichever hub does it. Of members whose parts ``failed`` the
        team's tables still hold what was: their note stays as it is, so that it is done when they could be collected.
        """
        known = json_object(self.bucket.read(ERASED))
        heads = self.heads() if heads is None else heads
        self._erase_here(failed, heads)
        said = _erasures(heads, known, failed)
        if said == known:
            return 0
        gone = 0
        if _erased_since(said, known):
            members = {name.partition("/")[0] for name in said} | set(failed)
            left = [e.path for e in self.bucket.entries(STATE) if e.path.removeprefix(f"{STATE}/").partition("/")[0] not in members]
            self.bucket.remove(path for path in left if path != ERASED)
            self.failed.forget(members)
            gone = sum(self.table(f"team/{name}").vacuum(0) for name in (*(t.name for t in PUBLISHED), READINGS_TABLE, LESSONS))
        self.bucket.write(ERASED, json.dumps(said, sort_keys=True).encode())
        return gone

    def _erase_here(self, failed: Collection[str], heads: Sequence[Head]) -> None:
        """Remove from the bytes of this machine's database what a machine removed for good; every hub does so for itself."""
        place = self.folder / "erased.json"
        known = json_object(place.read_bytes() if place.exists() else None)
        said = _erasures(heads, known, failed)
        if _erased_since(said, known):
            self.database.forget()
        if said != known:
            PrivateFolder(self.folder).text(place.name, json.dumps(said, sort_keys=True))


def _erasures(heads: Iterable[Head], known: Mapping[str, int], failed: Collection[str]) -> dict[str, int]:
    """Return how often each machine removed rows for good; of members whose parts failed, what is known."""
    said = {f"{head.member}/{head.machine}": head.erased for head in heads if head.member not in failed}
    return said | {name: count for name, count in known.items() if name.partition("/")[0] in failed}


def _erased_since(said: Mapping[str, int], known: Mapping[str, int]) -> bool:
    return any(said.get(name) != count for name, count in known.items()) or any(said[name] for name in said.keys() - known.keys())


def stale_parts(now: Mapping[Part, str], held: Mapping[str, str]) -> dict[Part, str]:
    """Return the parts that are otherwise than held, and those that are gone, with an empty digest."""
    due = {part: made_of for part, made_of in now.items() if held.get(part.key) != made_of}
    return due | {part: "" for key in held if (part := Part(*key.split("|", 1))) not in now}


def _writer(part: Part) -> str:
    """Return the name under which a part is committed: of two workers on one part the second fails."""
    # a log keeps the names of its writers for good, and a member who leaves is not to be named there
    return f"hub:{digest(part.key)[:16]}"


def _state_path(part: Part) -> str:
    return f"{STATE}/{part.member}/{part.month}/readings.json"


def _collected_path(part: Part) -> str:
    return f"{STATE}/{part.member}/{part.month}/collected.json"


def _with_failures(member: str, parts: Iterable[Part], done: Collected, before: Notes) -> Notes:
    """Return which months of a member could not be collected, until they are: those noted before, and what became of some parts now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    failed = {month: one for month, one in before.items() if Part(member, month) not in done.rows}
    for part in parts:
        if error := done.failed.get(part):
            held = failed.get(part.month, {})
            failed[part.month] = {"since": held.get("since", now), "last": now, "tries": held.get("tries", 0) + 1, "why": error.message}
    return failed


def _places(parts: Iterable[Part]) -> list[dict[str, set[str]]]:
    """Return the values of partitions by which exactly these parts are found: members by month."""
    members: dict[str, set[str]] = {}
    for part in parts:
        members.setdefault(part.month, set()).add(part.member)
    return [{"month": {month}, "member": chosen} for month, chosen in members.items()]


def _needed(tables: Mapping[str, pa.Table | None], families: Collection[str]) -> dict[str, pa.Table | None]:
    return {name: tables.get(name) for name in tables_read(families)}


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables as one; a column that one of them lacks is null there."""
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _drop_earlier(folder: Path) -> None:
    """Remove what an earlier version, whose folder was of all teams, made of a team's rows: they would be forgotten there never."""
    if (folder / "team.duckdb").exists():
        shutil.rmtree(folder)
