"""How many of the secrets that are told may open something, and how many that may are told.

One secret is planted into each of many copies of the sessions of a home: live ones of every kind, and
what documentation, tests and settings show in their place. The truth of each copy is known.

``python -m ctx_pipeline_tests.bench.bench_secrets HOME PAGE`` writes the figures into a page.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.ledger.rows import LIVE_SECRETS
from ctx_pipeline_tests.bench.rows import Row, many
from ctx_pipeline_tests.factories.other_ids import ID, with_other_ids
from ctx_pipeline_tests.factories.secret_kinds import FORMS, KINDS, leaks
from ctx_pipeline_tests.factories.shown_secrets import KEY, SHOWN, USED

_LARGEST = 120_000
"""bytes of a session that is copied hundreds of times"""
_TEST_MODE = re.compile(r"_TEST|aws key id", re.IGNORECASE)
"""Kinds that open nothing alone, or that their maker has for tries."""


class Plant(NamedTuple):
    """A text with a secret, what is secret in it, and whether it may open something."""

    kind: str
    text: str
    secret: str
    live: bool


class Found(NamedTuple):
    """What was planted and what was told of it."""

    told: Counter[tuple[bool, bool]]
    """(live, told) -> copies"""
    missed: list[tuple[str, str]]
    """(kind, place) of live ones that nobody told"""
    wrong: list[tuple[str, str]]
    """(kind, place) of shown ones that were told"""
    kept: list[tuple[str, str]]
    """(kind, place) of live ones that were not replaced"""
    sessions: int
    hosts: Counter[str]
    """host -> copies"""

    @property
    def precision(self) -> float:
        """Return which part of what is told may open something."""
        right = self.told[True, True]
        return right / max(1, right + self.told[False, True])

    @property
    def recall(self) -> float:
        """Return which part of what may open something is told."""
        right = self.told[True, True]
        return right / max(1, right + self.told[True, False])


def secret_rows(home: Path) -> list[Row]:
    """Return the precision and the recall of what is told, and how many live ones stay, over copies of a home's sessions."""
    found = measured(home, many(2, 1))
    live = found.told[True, True] + found.told[True, False]
    return [
        Row("secrets: told and live, of all that are told", 100 * found.precision, "%"),
        Row("secrets: told and live, of all that are live", 100 * found.recall, "%"),
        Row("secrets: live and replaced, of all that are live", 100 * (1 - len(found.kept) / max(1, live)), "%"),
    ]


def plants(places: int, seed: int) -> Iterator[Plant]:
    """Yield live secrets of every kind, each as often as said, and as many again as they are shown."""
    for kind in KINDS:
        for number in range(places):
            text, secret = kind.draw(random.Random(f"{seed} {kind.name} {number}"))
            if "\n" in secret:
                continue
            used = re.sub(r"example(?:\.(?:test|com))?", "shop", text)
            if not _TEST_MODE.search(f"{kind.name} {text}"):
                yield Plant(kind.name, used, secret, live=True)
            half = max(3, len(secret) // 3)
            yield Plant(f"{kind.name}, row of signs", used.replace(secret, secret[:half] + "x" * (len(secret) - half)), "", live=False)
            yield Plant(f"{kind.name}, documentation", f"For example:\n\n    {used}\n", "", live=False)
    for number in range(places * 4):
        rng = random.Random(f"{seed} {number}")
        for name, text in USED.items():
            key = "sk_live_" + "".join(rng.sample("9fQ2mZr7Lw4XbT8kVn3Y", 20))
            yield Plant(name, text.replace("<key>", key), key if "<key>" in text else "", live=True)
        for name, text in SHOWN.items():
            yield Plant(name, text.replace("<key>", KEY), "", live=False)


def measured(home: Path, places: int, seed: int = 1) -> Found:
    """Plant, ingest and count."""
    rng = random.Random(seed)
    sources = [one for host in ("claude", "codex") for one in _transcripts(home, host)]
    planted: dict[str, tuple[Plant, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number, plant in enumerate(plants(places, seed)):
            source = rng.choice(sources)
            line, place = rng.choice(source.places)
            to = root / source.host / _FOLDERS[source.host] / with_other_ids(source.path.name, str(number))
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(with_other_ids(source.marked(line, place), str(number)).replace(_MARK, json.dumps(plant.text)[1:-1]))
            planted[_session(to)] = plant, f"{source.host} {place}"
        settings = Settings(home=root / "store", demo_roots={"claude": (root / "claude",), "codex": (root / "codex",)})
        with open_store(settings) as store:
            ingest(store, settings)
            told = {row.session_id: bool(row.rows.get(LIVE_SECRETS)) for row in store.ledger.sessions()}
            texts: dict[str, list[str]] = {}
            for cell in store.lake.manifests("normalized"):
                for event in store.lake.read_rows("events", cell, "normalized"):
                    texts.setdefault(event.session_id, []).append(event.text or "")
    at = [(plant, place, session) for session, (plant, place) in planted.items()]
    return Found(
        Counter((plant.live, told[session]) for plant, _, session in at),
        [(p.kind, place) for p, place, s in at if p.live and not told[s]],
        [(p.kind, place) for p, place, s in at if not p.live and told[s]],
        [(p.kind, place) for p, place, s in at if p.live and p.secret and any(p.secret in text for text in texts[s])],
        len(sources),
        Counter(place.split()[0] for _, place, _ in at),
    )


_FOLDERS = {"claude": "projects/-home-sam-shop", "codex": "sessions/2026/09/30"}
_MARK = "@planted@"


class _Source(NamedTuple):
    host: str
    path: Path
    lines: list[str]
    places: list[tuple[int, str]]

    def marked(self, line: int, place: str) -> str:
        """Return the transcript with a mark below the text at a place."""
        record = json.loads(self.lines[line])
        holder, key = next((holder, key) for holder, key, name in _texts(record) if name == place)
        holder[key] = f"{holder[key]}\n{_MARK}\n"
        return "\n".join([*self.lines[:line], json.dumps(record), *self.lines[line + 1 :]]) + "\n"


def _transcripts(home: Path, host: str) -> Iterator[_Source]:
    folders = [folder for name in (f".{host}", host) if (folder := home / name).is_dir()]
    for path in sorted(path for folder in folders for path in folder.rglob("*.jsonl")):
        if path.stat().st_size <= _LARGEST and ID.search(path.name) and "subagents" not in path.parts:
            lines = path.read_text(errors="replace").split("\n")
            try:
                places = [(n, name) for n, line in enumerate(lines) if line for _, _, name in _texts(json.loads(line))]
            except json.JSONDecodeError:
                continue
            if places and any(_session(path) in line for line in lines):
                yield _Source(host, path, lines, places)


def _session(path: Path) -> str:
    found = ID.search(path.name)
    return found[0] if found else ""


def _texts(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield (what holds a text, its key, what it is) for the texts of a record in which a secret may stand."""
    message = record.get("message") or record.get("payload")
    if not isinstance(message, dict) or record.get("isMeta"):
        return
    if message.get("type") == "function_call_output" and isinstance(message.get("output"), str):
        yield message, "output", "output"
    content = message.get("content")
    if record.get("type") == "user" and isinstance(content, str) and "<" not in content[:1]:
        yield message, "content", "prompt"
    for block in content if isinstance(content, list) else ():
        kind, given = block.get("type"), block.get("input")
        if kind in {"text", "output_text"} and message.get("role") == "assistant":
            yield block, "text", "answer"
        elif kind == "thinking" and block.get("thinking"):
            yield block, "thinking", "reasoning"
        elif kind == "tool_result" and isinstance(block.get("content"), str):
            yield block, "content", "output"
        elif kind == "tool_use" and isinstance(given, dict):
            yield from ((given, key, name) for key, name in (("command", "command"), ("content", "written file")) if given.get(key))


# The figures in a page.


BLOCK = re.compile(r"(?<=<!-- measured by bench_secrets -->\n).*?(?=<!-- end -->)", re.DOTALL)


SEEDS = (1, 2, 3, 4, 5)
"""All of them are counted: one drawing differs from another by some points."""


def pairs_line(pairs: int, left: Sequence[object]) -> str:
    """Return in how many pairs of kind and form of text nothing of a secret is left; a test holds the page against it."""
    return (
        f"Of {len(KINDS)} kinds in {len(FORMS)} forms of text, {pairs:,} pairs, {pairs - len(left):,}"
        f" ({100 * (1 - len(left) / pairs):.1f} %) have nothing left."
    )


def table(runs: Sequence[Found]) -> str:
    """Return the figures of all drawings as a table of Markdown."""
    told = sum((found.told for found in runs), Counter[tuple[bool, bool]]())
    hosts = sum((found.hosts for found in runs), Counter[str]())
    kept = sum(len(found.kept) for found in runs)
    live, shown = told[True, True] + told[True, False], told[False, True] + told[False, False]
    copies = ", ".join(f"{count:,} of {host}" for host, count in sorted(hosts.items()))
    return (
        f"{pairs_line(*leaks(Redactor()))}\n\n"
        f"| planted into copies of {runs[0].sessions} sessions ({copies}) | copies | told | not told |\n|---|---|---|---|\n"
        f"| a secret that may open something | {live:,} | {told[True, True]:,} | {told[True, False]:,} |\n"
        f"| one that is only shown | {shown:,} | {told[False, True]:,} | {told[False, False]:,} |\n\n"
        f"Of what is told {100 * told[True, True] / max(1, told[True, True] + told[False, True]):.1f} % may open something (precision"
        f"{_spread([found.precision for found in runs])}); of what may open something {100 * told[True, True] / max(1, live):.1f} % is told"
        f" (recall{_spread([found.recall for found in runs])}), and {kept:,} are not replaced.\n"
    )


def _spread(parts: Sequence[float]) -> str:
    return f", {100 * min(parts):.1f} to {100 * max(parts):.1f} in {len(parts)} drawings" if len(parts) > 1 else ""


def main() -> None:
    """Measure over a home, print what was missed and what was told wrongly, and write the figures into a page."""
    parser = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.bench.bench_secrets", description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("page", type=Path, nargs="?")
    chosen = parser.parse_args()
    runs = [measured(chosen.home, 2, seed) for seed in SEEDS]
    left_out = sorted({kind.name for kind in KINDS if _TEST_MODE.search(f"{kind.name} {kind.draw(random.Random(0)).text}")})
    print(table(runs))
    print(f"left out: {', '.join(left_out)}")
    for name in ("missed", "wrong", "kept"):
        print(f"{name}: {Counter(kind for found in runs for kind in getattr(found, name)).most_common(40)}")
    if chosen.page:
        chosen.page.write_text(BLOCK.sub(lambda _: table(runs), chosen.page.read_text()))


if __name__ == "__main__":
    main()
