"""Homes are attacked, not the store: hostile files, planted secrets, clocks that jump; seeded, each trial a draw of its own.

A trial copies the sample homes and their store, changes the homes or the clock, runs,
and asks what must hold: no traceback, a sound store, raw with the bytes of the files,
the other sessions as they were, nothing written elsewhere, a second run without a change.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline_tests.attack import damage
from ctx_pipeline_tests.attack.world import World
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, Transcript, text, thinking
from ctx_pipeline_tests.factories.secret_kinds import FORMS, KINDS
from ctx_pipeline_tests.factories.stored_text import contents, files_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctx_pipeline.redaction.shapes import Planted

DRAWS = 100
"""Trials of each kind that one seed has."""

MARK = "kept-outside-the-home"
"""Stands in a file outside of the homes: no byte of the store may hold it."""

SECRETS = 8
"""Secrets that one trial plants, each in a form and a place that were drawn."""

_ROWS = (
    "select kind, count(*) n, sum(hash(ts, actor, text, call_id) % 1000003) h from events"
    f" where session_id = '{damage.SESSION}' group by all order by all"
)
_OTHER = "5ec0de00-0000-4000-8000-{:012d}"
_YEAR = 365 * 86_400.0
_GIANT = 3_000_000
_SWAPS = 40


# Hostile sources: each writes files into the homes of a world and may return what goes on beside the run.


def malformed(world: World, draw: random.Random) -> None:
    """Lines that are no JSON, or JSON of another shape, between good ones."""
    broken = [
        b"{broken\n",
        b"\n",
        b"[]\n",
        b"null\n",
        b'"text"\n',
        b"{}\n",
        b"}{\n",
        b'{"type": 7}\n',
        b'{"type": "user", "message": []}\n',
    ]
    session = _session(world, draw)
    for _ in range(draw.randrange(1, 20)):
        session.prompt("go on").raw(draw.choice(broken)).answer(text("done"))
    session.save()


def giant_line(world: World, draw: random.Random) -> None:
    """One line of megabytes: words, no words, or nothing but escapes."""
    unit = draw.choice(["word ", "x", '"', "\u202e", "\\", "a\n"])
    _session(world, draw).prompt(unit * (draw.randrange(_GIANT) // len(unit))).answer(text("done")).save()


def nul(world: World, draw: random.Random) -> None:
    """NUL bytes in texts, names and between lines."""
    session = _session(world, draw).prompt("be\0fore").raw(b"\0" * draw.randrange(1, 5_000) + b"\n")
    session.call("toolu_\0", "Ba\0sh", "out\0put", command="echo \0", cwd="/\0").answer(text("\0")).save()


def deep(world: World, draw: random.Random) -> None:
    """JSON that is nested deeper than a parser goes."""
    depth = draw.choice([90, 700, 5_000, 200_000])
    nested = draw.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth])
    session = _session(world, draw).prompt("deep")
    session.raw(b'{"type": "user", "message": {"role": "user", "content": ' + nested + b"}}\n").answer(text("done")).save()


def duplicate_ids(world: World, draw: random.Random) -> None:
    """A copy of a session under another name, whole or in part, and one record many times."""
    lines = _transcript(world).read_bytes().splitlines(keepends=True)
    copied = lines[: draw.randrange(1, len(lines) + 1)] + [draw.choice(lines)] * draw.randrange(1, 50)
    folder = world.folder / "claude" / "projects" / draw.choice(["-home-dev-copy", _transcript(world).parent.name])
    folder.mkdir(exist_ok=True)
    (folder / f"{_name(draw)}.jsonl").write_bytes(b"".join(copied))


def path_ids(world: World, draw: random.Random) -> None:
    """Ids, folders and names that are paths, in every place that says whose a record is."""
    evil = draw.choice(["../../../../evil", "/tmp/../evil", "..", ".", "a/b", "a\\..\\b", "%2e%2e%2f", "x" * 5_000, "", "\n", "con\u2028"])
    session = _session(world, draw, evil)
    session.prompt("go", cwd=evil, gitBranch=evil).call(evil, evil, "done", file_path=evil)
    session.plain("summary", summary=evil, leafUuid=evil).answer(text(evil), message_id=evil).save()
    codex.write(world.folder / "codex", codex.session(evil, prompt=evil), _name(draw))


def link_out(world: World, draw: random.Random) -> None:
    """A link below a home to a file outside of it, where a transcript, a spilled result or a list of to-dos is expected."""
    outside = world.folder / "outside.jsonl"
    outside.write_text(json.dumps({"type": "user", "message": {"role": "user", "content": MARK}, "sessionId": _name(draw)}) + "\n")
    session = _session(world, draw)
    session.prompt("go").save()
    places = [
        session.path.with_name(f"{_name(draw)}.jsonl"),
        session.path.with_suffix("") / "tool-results" / "toolu_1.txt",
        session.path.with_suffix("") / "subagents" / "agent-a1.jsonl",
        world.folder / "claude" / "todos" / f"{session.session_id}-agent-{session.session_id}.json",
    ]
    place = draw.choice(places)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)


def cut_text(world: World, draw: random.Random) -> None:
    """UTF-8 that is cut inside a letter, in the middle of a file and at its end."""
    session = _session(world, draw).prompt("größer 漢字 🙂").raw(b'{"type": "user", "message": {"content": "\xf0\x9f\x99"}}\n')
    session.answer(text("漢" * draw.randrange(1, 30_000))).save()
    data = session.path.read_bytes()
    session.path.write_bytes(data[: draw.randrange(1, len(data))] + draw.choice([b"", b"\n", b"\xff\xfe\n"]))


def replaced_while_read(world: World, draw: random.Random) -> Callable[[], None]:
    """A file that is written anew, cut, removed and made to grow while it is captured."""
    session = _session(world, draw)
    for number in range(draw.randrange(2, 400)):
        session.prompt(f"say {number} " + "x" * draw.randrange(3_000))
    session.save()
    data = session.path.read_bytes()
    seed = draw.random()

    def go_on() -> None:
        then = random.Random(seed)
        for _ in range(_SWAPS):
            at = then.randrange(len(data))
            way = then.randrange(4)
            if way == 0:
                session.path.write_bytes(data[:at])
            elif way == 1:
                other = session.path.with_name("being-written")
                other.write_bytes(data[:at].replace(b"say", b"ask") + data[at:])
                other.replace(session.path)
            elif way == 2:
                session.path.unlink(missing_ok=True)
            else:
                with session.path.open("ab") as file:
                    file.write(data[:at])
            time.sleep(then.uniform(0, 0.05))
        session.path.write_bytes(data)

    return go_on


SOURCES: dict[str, Callable[[World, random.Random], Callable[[], None] | None]] = {
    "malformed lines": malformed,
    "giant line": giant_line,
    "NUL": nul,
    "deep nesting": deep,
    "duplicate ids": duplicate_ids,
    "ids that are paths": path_ids,
    "link out of the home": link_out,
    "cut UTF-8": cut_text,
    "replaced while read": replaced_while_read,
}
_SAME_TOTALS = {"duplicate ids"}
"""What may make another session the owner of a call; the totals stay."""


# Clocks: of files, and of the system.


def _future(world: World, draw: random.Random) -> float:
    _age(world, draw, draw.uniform(0, 50) * _YEAR)
    return 0.0


def _past(world: World, draw: random.Random) -> float:
    _age(world, draw, -time.time() + draw.choice([0.0, 1.0, -86_400.0]))
    return 0.0


def _back(world: World, draw: random.Random) -> float:
    return -(10 ** draw.uniform(0, 8))


def _ahead(world: World, draw: random.Random) -> float:
    return 10 ** draw.uniform(0, 8.5)


CLOCKS: dict[str, Callable[[World, random.Random], float]] = {
    "files of the future": _future,
    "files of 1970": _past,
    "system goes back": _back,
    "system jumps ahead": _ahead,
}
"""kind -> what changes the times of files, and returns by how many seconds the clock jumps after the first run"""

KINDS_OF_TRIALS = (*(f"source: {name}" for name in SOURCES), "secret: planted", *(f"clock: {name}" for name in CLOCKS))


def pairs(seed: int) -> list[tuple[str, str]]:
    """Return what is tried with a seed: (kind, number of the draw), all kinds once before any comes again."""
    return [(kind, f"draw {number}") for number in range(DRAWS) for kind in KINDS_OF_TRIALS]


def is_one(kind: str) -> bool:
    """Tell whether a kind of trial is one of these."""
    return kind in KINDS_OF_TRIALS


def prepare(folder: Path) -> tuple[World, dict[str, Any]]:
    """Make the store and keep the homes beside it; return it with what readers say of it."""
    world = World(folder)
    world.make()
    expected = folder / "expected.json"
    if not expected.exists():
        for host in ("claude", "codex"):
            shutil.copytree(folder / host, folder / "homes" / host)
        world.put_back()
        expected.write_text(json.dumps(world.apart(lambda: {**damage.state(world), "rows": _rows(world)})))
    found: dict[str, Any] = json.loads(expected.read_text())
    return world, found


def attack(world: World, expected: dict[str, Any], kind: str, how: str, seed: int) -> damage.Outcome:
    """Attack fresh copies of homes and store once."""
    world.put_back()
    for host in ("claude", "codex"):
        shutil.rmtree(world.folder / host)
        shutil.copytree(world.folder / "homes" / host, world.folder / host)
    draw = random.Random(f"{seed} {kind} {how}")
    sort, _, name = kind.partition(": ")
    trial = {"source": _source, "secret": _secret, "clock": _clock}[sort]
    try:
        wrong, told = world.apart(lambda: trial(world, expected, name, draw))
        wrong = list(dict.fromkeys(wrong))
    except AssertionError as error:
        wrong, told = ["crash"], str(error)
    return damage.Outcome(kind, how, "", wrong, told)


def _source(world: World, expected: dict[str, Any], name: str, draw: random.Random) -> tuple[list[str], str]:
    beside = SOURCES[name](world, draw)
    around = _around(world)
    wrong: list[str] = []
    if beside is not None:
        going = threading.Thread(target=beside)
        going.start()
        while going.is_alive():
            wrong += ["crash"] if world.ctx("sync").crashed else []
        going.join()
    told = _run(world, wrong)
    if beside is None and _around(world) != around:
        wrong.append("written outside the store")
    if files_with(world.home, MARK):
        wrong.append("captured from outside the home")
    usage = json.loads(world.ctx("usage", "session", "--json").out)
    if not _agrees(usage, json.loads(expected["read"]["usage session --json"]), all_rows=name not in _SAME_TOTALS):
        wrong.append("other sessions count otherwise")
    if _rows(world) != expected["rows"]:
        wrong.append("another session differs")
    return wrong, told if wrong else ""


def _secret(world: World, expected: dict[str, Any], name: str, draw: random.Random) -> tuple[list[str], str]:
    planted = [_drawn(draw) for _ in range(SECRETS)]
    _plant(world, draw, [form.write(one) for _, _, one, form in planted])
    wrong: list[str] = []
    told = _run(world, wrong)
    for rel, data in contents(world.home, skip=("raw",)):
        written = data.decode("utf-8", "replace")
        for kind, shape, one, form in planted:
            spellings = {one.secret, json.dumps(one.secret)[1:-1]}
            if any(s in view for s in spellings for view in (written, form.read(written), form.read(written.replace("\\n", "\n")))):
                wrong.append(f"{kind} as {shape} is in {rel}")
    return wrong, told if wrong else ""


def _clock(world: World, expected: dict[str, Any], name: str, draw: random.Random) -> tuple[list[str], str]:
    seconds = CLOCKS[name](world, draw)
    wrong: list[str] = []
    told = _run(world, wrong)
    with shifted(seconds):
        with _transcript(world).open("rb") as file:
            line = file.readline()
        session = _session(world, draw).prompt("go on").answer(text("done"))
        session.save()
        before = _transcript(world).read_bytes()
        with _transcript(world).open("ab") as more:
            more.write(line)
        told += _run(world, wrong)
        # the same content as where all was captured at once, with a clock that stands where it stood
        _transcript(world).write_bytes(before)
        session.path.unlink()
        told += _run(world, wrong)
    if _rows(world) != expected["rows"]:
        wrong.append("a session differs")
    if world.ctx("forget", "claude", session.session_id, "--yes").code or files_with(world.home, session.session_id, skip=("sources.txt",)):
        wrong.append("not forgotten")
    return wrong, told if wrong else ""


@contextmanager
def shifted(seconds: float) -> Iterator[None]:
    """Let every module of the package see another time of the system: the clock of the process is the one thing that jumps."""
    real, real_ns = time.time, time.time_ns

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override] - what is made stays comparable with all other times
            return datetime.now(tz) + timedelta(seconds=seconds)

    patched = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("ctx_pipeline.") and vars(module).get("datetime") is datetime
    ]
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    for module in patched:
        vars(module)["datetime"] = Shifted
    try:
        yield
    finally:
        time.time, time.time_ns = real, real_ns
        for module in patched:
            vars(module)["datetime"] = datetime


def _run(world: World, wrong: list[str]) -> str:
    """Run until nothing changes, and note what must not be."""
    from ctx_pipeline.pipeline import run

    run.graph_installed = lambda: False  # type: ignore[assignment] - the stages are those of Dagster, which takes seconds to import
    told = world.ctx("run")
    contents_of = damage.state(world)["contents"]
    again = world.ctx("run")
    doctor = world.ctx("doctor")
    if told.crashed or again.crashed or doctor.crashed:
        wrong.append("crash")
    if told.code or again.code:
        wrong.append("a run failed")
    if doctor.code:
        wrong.append("not sound")
    if damage.state(world)["contents"] != contents_of:
        wrong.append("the second run changed something")
    if differing := _raw_differs(world):
        wrong.append(f"raw is not the file: {differing[:3]}")
    return f"{told.said[-800:]}\n{again.said[-400:]}\n{doctor.said[-600:]}" if wrong else ""


def _raw_differs(world: World) -> list[str]:
    """Return the live files whose captured bytes are not those that lie in the home."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.storage import open_store
    from ctx_pipeline.storage.raw.home_files import whole_lines
    from ctx_pipeline.storage.raw.segments import read_stream

    found = []
    with open_store(settings_module.load(world.environ)) as store:
        sources = [s for s in store.ledger.sources().values() if s.state == "live" and not s.marker]
        segments = store.ledger.segments_of(s.stream for s in sources)
        for source in sources:
            held = read_stream(store.files, [s for s in segments.get(source.stream, []) if s.generation == source.generation])
            data = Path(source.path).read_bytes()
            if held != (data[: whole_lines(data)] if source.rel.endswith(".jsonl") else data):
                found.append(source.rel)
    return found


def _rows(world: World) -> str:
    """Return what the store holds of a sample session that no trial changes for good."""
    told = world.ctx("sql", _ROWS, "--json")
    return told.out if not told.code else told.said


def _around(world: World) -> dict[str, str]:
    """Return the files of a world that are not of its store, with a digest of each."""
    skipped = {world.home, world.kept}
    found = {}
    for top in world.folder.iterdir():
        if top not in skipped:
            for path in (top, *top.rglob("*")):
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found


def _agrees(now: Any, before: Any, *, all_rows: bool) -> bool:
    """Tell whether the rows of the sample sessions, or else all tokens together, are what they were."""
    if not all_rows:
        return bool(now["totals"] == before["totals"])
    kept = {json.dumps(row, sort_keys=True) for row in now["rows"]}
    return all(json.dumps(row, sort_keys=True) in kept for row in before["rows"])


def _transcript(world: World) -> Path:
    return next((world.folder / "claude").rglob(f"{damage.SESSION}.jsonl"))


def _name(draw: random.Random) -> str:
    return _OTHER.format(draw.randrange(10**12))


def _session(world: World, draw: random.Random, session_id: str = "") -> Transcript:
    name = _name(draw)
    session = ClaudeHome(world.folder / "claude").session(name, mark=name[-12:])
    session.session_id = session_id or name
    return session


def _age(world: World, draw: random.Random, seconds: float) -> None:
    """Change the times of half of the files of the homes."""
    at = time.time() + seconds
    for host in ("claude", "codex"):
        for path in sorted((world.folder / host).rglob("*")):
            if path.is_file() and draw.random() < 0.5:
                os.utime(path, (at, at))


def _drawn(draw: random.Random) -> tuple[str, str, Planted, Any]:
    """Return a secret in a form in which the detectors know it; which they do not know, docs/reliability.md counts."""
    from ctx_pipeline.redaction import Redactor

    redactor = Redactor()
    while True:
        kind, (shape, form) = draw.choice(KINDS), draw.choice(list(FORMS.items()))
        if form.shaped_only and not kind.shaped:
            continue
        planted = kind.draw(draw)
        if planted.secret not in form.read(redactor.redact(form.write(planted))):
            return kind.name, shape, planted, form


def _plant(world: World, draw: random.Random, texts: list[str]) -> None:
    """Put each text into a drawn place of a session, of what lies beside it, or of a rollout."""
    session = _session(world, draw).prompt("look at the settings")
    for number, planted in enumerate(texts):
        place = draw.randrange(9)
        if place == 0:
            session.prompt(planted)
        elif place == 1:
            session.answer(text(planted))
        elif place == 2:
            session.answer(thinking(planted))
        elif place == 3:
            session.call(f"toolu_{number}", "Bash", "done", command=f"echo {planted}")
        elif place == 4:
            session.call(f"toolu_{number}", "Read", planted, file_path="/home/dev/shop/.env", is_error=draw.random() < 0.5)
        elif place == 5:
            session.plain("summary", summary=planted, leafUuid=session.last_uuid)
        elif place == 6:
            session.plain("never-seen-before", payload={"deep": [planted]})
        elif place == 7:
            codex.write(world.folder / "codex", codex.session(name := _name(draw), prompt=planted), name)
        else:
            line = {"display": planted, "timestamp": 1772704800000, "project": "/p", "sessionId": session.session_id}
            with (world.folder / "claude" / "history.jsonl").open("a") as history:
                history.write(json.dumps(line) + "\n")
    session.answer(text("done")).save()
