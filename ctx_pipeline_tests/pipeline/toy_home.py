"""A host made for tests: small enough to know by heart, with every kind of source that capture treats apart."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Database, HomeFiles, Host, Records
from ctx_pipeline.model.raw import Identity, Parsed
from ctx_pipeline.pipeline import capture
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage.raw import segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Source


def classify(rel: str) -> str | None:
    if rel == "index.jsonl":
        return "index"
    if rel == "calls.db":
        return "rows"
    if rel == "settings.json":
        return "settings"
    if rel.startswith(("sessions/", "archive/")) and rel.endswith((".jsonl", ".jsonl.zst")):
        return "transcript"
    return "note" if rel.startswith("notes/") and rel.endswith(".txt") else None


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    name = rel.rpartition("/")[2].partition(".")[0]
    if kind == "note":
        return Identity(f"note-{name}", name, "part")
    if kind == "rows":
        return Identity(rel.rpartition("#")[2], first_ts=micros(json.loads(head.partition(b"\n")[0])["row"]["ts"]))
    first = head.partition(b"\n")[0]
    try:
        said = json.loads(first)
    except ValueError:
        said = {}
    if not isinstance(said, dict):
        said = {}
    return Identity(said.get("id", name), said.get("parent"), said.get("relation", "main"), said.get("root"), micros(said.get("ts")))


def hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    if kind == "index":
        for line in data.splitlines():
            row = json.loads(line)
            yield row["id"], "title", row["title"]


def retention(root: Path) -> int | None:
    path = root / "settings.json"
    return json.loads(path.read_text()).get("days", 30) if path.exists() else 30


TOY = Host(
    key="toy",
    title="Toy",
    version=1,
    files=HomeFiles(
        roots_env="TOY_HOME",
        classify=classify,
        enter=lambda rel: True,
        identify=identify,
        session_kinds=frozenset({"transcript", "note", "rows"}),
        databases={"rows": Database(tables=(("calls", "id"),), split_by="session")},
        hints=hints,
        retention_days=retention,
    ),
    records=Records(parse=lambda session: Parsed()),
)

HOSTS = {"toy": TOY}


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def write(root: Path, rel: str, *lines: bytes) -> Path:
    """Write a file of these lines (a later size or time than before is certain)."""
    path = root / rel
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat() if path.exists() else None
    path.write_bytes(b"".join(lines))
    after = path.stat()
    if before and (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
        # the clock of a file system ticks every few milliseconds
        os.utime(path, ns=(after.st_atime_ns, after.st_mtime_ns + 10_000_000))
    return path


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def age(path: Path, days: float) -> None:
    """Set a file's time so many days back."""
    at = path.stat().st_mtime - days * 86_400
    os.utime(path, (at, at))


def settings_of(tmp_path: Path, *roots: Path, **more: Any) -> Settings:
    return Settings(home=tmp_path / "store", demo_roots={"toy": roots or (tmp_path / "toy",)}, **more)


def take(store: Store, settings: Settings, **options) -> StageReport:
    return capture.capture(store, settings, hosts=HOSTS, **options)


def look(store: Store, settings: Settings) -> capture.Scan:
    return capture.scan(store, settings, hosts=HOSTS)


def only(store: Store, rel: str) -> Source:
    return next(source for (_, name), source in store.ledger.sources().items() if name == rel)


def held(store: Store, rel: str, generation: int = 0) -> bytes:
    stream = only(store, rel).stream
    rows = [s for s in store.ledger.segments_of([stream]).get(stream, []) if s.generation == generation]
    return segments.read_stream(store.files, rows)
