"""Readings of known sessions, kept beside the tests and reviewed as deltas.

``python -m ctx_pipeline_tests.signals.golden`` takes them anew and prints what moved;
the diff of the files is what a reviewer looks at. One file a family: every reading of
every shipped sample, and of the published corpus what the readings add up to.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ctx_pipeline import discovery, settings
from ctx_pipeline.model.readings import aggregate
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.conftest import CORPUS

FOLDER = Path(__file__).parent / "golden"
SAMPLES = Path(discovery.__file__).parent / "samples"
OUTSIDE = frozenset({"external", "llm_judge"})
"""Methods that ask the world: their readings depend on it."""


def readings(home: Path, claude: Path, codex: Path) -> list:
    """Return the readings of all sessions below two homes, from an ingest and a measuring of its own."""
    environ = {"HOME": str(home), "CTX_HOME": str(home / "store"), "CLAUDE_CONFIG_DIR": str(claude), "CODEX_HOME": str(codex), "TZ": "UTC"}
    chosen = settings.load(environ)
    asked = {s.name for s in discovery.signals().values() if s.method not in OUTSIDE}
    with open_store(chosen) as store:
        sync(store, chosen)
        measure(store, chosen)
        rows = [
            r
            for cell in store.ledger.cells()
            for name in discovery.families()
            for r in store.lake.read_rows("readings", cell, f"signals/{name}")
        ]
    return [r for r in rows if r.signal in asked]


def of_samples(rows: list) -> dict[str, dict]:
    """Return family -> signal -> session -> value; a reason in angle brackets where there is none."""
    found: dict[str, dict] = {}
    for r in sorted(rows, key=lambda r: (r.family, r.signal, r.host, r.session_id)):
        value = r.label if r.label is not None else f"<{r.reason}>" if r.value is None else round(r.value, 6)
        found.setdefault(r.family, {}).setdefault(r.signal, {})[f"{r.host}/{r.session_id[:13]}"] = value
    return found


def of_corpus(rows: list) -> dict[str, dict]:
    """Return family -> signal -> what the readings add up to, for each host."""
    found: dict[str, dict] = {}
    for host in sorted({r.host for r in rows}):
        own = [r for r in rows if r.host == host]
        for name, added in aggregate(own).items():
            family = next(r.family for r in own if r.signal == name)
            line = {"count": added.count, "missing": added.missing}
            for figure in ("sum", "median", "max"):
                if getattr(added, figure) is not None:
                    line[figure] = round(getattr(added, figure), 4)
            line |= {"true": added.true} if added.true is not None else {}
            line |= {"labels": dict(list(added.labels.items())[:8])} if added.labels else {}
            found.setdefault(family, {}).setdefault(name, {})[host] = line
    return found


def kept(name: str) -> dict[str, dict]:
    """Return family -> readings as they were accepted, of ``samples`` or ``corpus``."""
    return {p.stem: json.loads(p.read_text()) for p in sorted((FOLDER / name).glob("*.json"))}


def delta(before: dict, after: dict) -> list[str]:
    """Return one line for each reading that moved: family, signal, session or host, before and after."""
    lines = []
    for family in sorted(before.keys() | after.keys()):
        old, new = before.get(family, {}), after.get(family, {})
        for signal in sorted(old.keys() | new.keys()):
            was, now = old.get(signal, {}), new.get(signal, {})
            lines += [
                f"{family}.{signal} {key}: {was.get(key)} -> {now.get(key)}"
                for key in sorted(was.keys() | now.keys())
                if was.get(key) != now.get(key)
            ]
    return lines


def accept(name: str, found: dict[str, dict]) -> list[str]:
    """Keep readings as the ones to hold and return what moved."""
    moved = delta(kept(name), found)
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for family, rows in found.items():
        lines = [f"{json.dumps(signal)}: {json.dumps(values, ensure_ascii=False, sort_keys=True)}" for signal, values in rows.items()]
        (folder / f"{family}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return moved


def main() -> None:
    """Take the readings of the samples, and of the corpus where it is, and keep them."""
    with tempfile.TemporaryDirectory() as folder:
        moved = accept("samples", of_samples(readings(Path(folder), SAMPLES / "claude", SAMPLES / "codex")))
    if CORPUS.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            moved += accept("corpus", of_corpus(readings(Path(folder), CORPUS / "claude", CORPUS / "codex")))
    print("\n".join(moved) or "nothing moved")  # noqa: T201 - the answer of a tool for developers


if __name__ == "__main__":
    main()
