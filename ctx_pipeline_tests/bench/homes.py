"""A home of any size: the sample sessions again and again, with ids, days and folders of their own.

A session is one of the samples, its lines written over until it has its share of the
bytes; each time they have new ids and go on, in time and in the running totals of their
tokens, where the last ones stopped. Sessions lie on the days of the year before a fixed
day, so that two homes of one size are equal to the byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import ctx_pipeline

_SAMPLES = Path(ctx_pipeline.__file__).parent / "samples"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_SLOT = re.compile(
    rf"(?P<id>{_UUID}|\b(?:msg|toolu|req|call)_\w+)|(?P<time>{_TIME})|(?P<folder>/home/sam/code/[\w-]+)"
    r'|(?P<total>"total_token_usage":\{[^}]*\})'
)

LAST_DAY = datetime(2026, 10, 31, 18, tzinfo=UTC)
PER_DAY = 12
"""sessions of one day, half of them of each host; more where a year of such days holds too few"""
PROJECTS = 40
_LATER = 10_000_000
"""number of the first session that is added"""


class _Piece(NamedTuple):
    kind: str
    text: str


class _Sample(NamedTuple):
    """A transcript cut at what differs from one copy to the next."""

    host: str
    pieces: tuple[_Piece, ...]
    size: int
    session: str
    began: datetime
    took: timedelta
    total: dict[str, int]
    """running totals at its end"""


def make_home(to: Path, *, sessions: int, megabytes: float) -> Path:
    """Write a home of so many sessions, half of each host, and so many bytes together.

    Raises ValueError for fewer bytes than so many of the samples have.
    """
    by_host = _samples()
    least = max(one.size for alike in by_host.values() for one in alike) * sessions / 1e6
    if sessions < 1 or megabytes < least:
        raise ValueError(f"{sessions:,} sessions have at least {least:.1f} MB")
    share = megabytes * 1e6 / sessions
    per_day = max(PER_DAY, sessions / 365)
    for number in range(sessions):
        alike = by_host["claude" if number % 2 == 0 else "codex"]
        sample = alike[number // 2 % len(alike)]
        write_session(to, sample, number, LAST_DAY - timedelta(days=number / per_day), round(share / sample.size) or 1)
    return to


def add_sessions(home: Path, number: int, *, megabytes: float) -> None:
    """Write one more session of each host, with the bytes that are named together, begun after all others."""
    for alike in _samples().values():
        sample = alike[0]
        write_session(home, sample, _LATER + number, LAST_DAY + timedelta(hours=number + 1), round(megabytes * 5e5 / sample.size) or 1)


def write_session(home: Path, sample: _Sample, number: int, began: datetime, times: int) -> Path:
    """Write a sample as another session that begins at another time, its lines so many times over."""
    session = _other(sample.session, f"{sample.host}{number}")
    project = f"/home/sam/code/project-{number * 7 % PROJECTS:02}"
    parts = []
    for turn in range(times):
        moved = began - sample.began + sample.took * turn
        salt = f"{sample.host}{number}.{turn}"
        for kind, text in sample.pieces:
            if kind == "text":
                parts.append(text)
            elif kind == "time":
                parts.append(f"{(datetime.fromisoformat(text) + moved).isoformat(timespec='milliseconds').removesuffix('+00:00')}Z")
            elif kind == "total":
                told = json.loads(text.partition(":")[2])
                parts.append(f'"total_token_usage":{json.dumps({name: n + turn * sample.total[name] for name, n in told.items()})}')
            elif kind == "folder":
                parts.append(project)
            else:
                parts.append(session if text == sample.session else _other(text, salt))
    if sample.host == "claude":
        path = home / ".claude" / "projects" / project.replace("/", "-") / f"{session}.jsonl"
    else:
        path = home / ".codex" / "sessions" / f"{began:%Y/%m/%d}" / f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(parts), "utf-8")
    return path


@cache
def _samples() -> dict[str, list[_Sample]]:
    found = [_cut(path) for path in sorted(_SAMPLES.rglob("*.jsonl")) if re.search(_UUID, path.name)]
    return {host: [one for one in found if one.host == host] for host in ("claude", "codex")}


def _cut(path: Path) -> _Sample:
    text = path.read_text("utf-8")
    pieces, end, times = [], 0, []
    for found in _SLOT.finditer(text):
        pieces += [_Piece("text", text[end : found.start()]), _Piece(str(found.lastgroup), found[0])]
        end = found.end()
        times += [datetime.fromisoformat(found[0])] if found.lastgroup == "time" else []
    pieces.append(_Piece("text", text[end:]))
    ids = re.findall(_UUID, path.stem)
    host = "codex" if path.stem.startswith("rollout-") else "claude"
    totals = [piece.text for piece in pieces if piece.kind == "total"]
    total = json.loads(totals[-1].partition(":")[2]) if totals else {}
    return _Sample(host, tuple(pieces), len(text.encode()), ids[-1], min(times), max(times) - min(times) + timedelta(seconds=5), total)


def _other(text: str, salt: str) -> str:
    drawn = hashlib.sha256(f"{salt} {text}".encode()).hexdigest()
    return str(UUID(drawn[:32])) if "-" in text else f"{text.partition('_')[0]}_{drawn[:24]}"
