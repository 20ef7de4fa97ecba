"""Compressed files: one measured, several as a checkpoint or in a form; from the disk or from what a session captured."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.compression.analysis import Analysis, analyzed
from ctx_pipeline.compression.forms import FORMS, shortened
from ctx_pipeline.compression.project_files import project_at, source_at, sources_of
from ctx_pipeline.compression.signatures.symbols import lines as signature_lines
from ctx_pipeline.compression.source import Source
from ctx_pipeline.errors import UsageError
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.compression.signatures.symbols import Symbol
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.tokens.tokenizers import Tokenizer


# A checkpoint: several files in a few lines each, to take along into a fresh session.


TOP = 5
"""Signatures of a file that are shown."""

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_COMPOUND = re.compile(r"[^\W_][A-Z_\d]|^[A-Z]")
_PLAIN_WORD = 0.2
_WEIGHT = {
    "class": 5,
    "interface": 5,
    "function": 4,
    **dict.fromkeys(("enum", "type", "module", "section", "rule", "block"), 3),
    "value": 2,
    "property": 2,
    "implementation": 1,
}
"""Kind of a declaration -> how early it is told."""


class Entry(NamedTuple):
    """One file of a checkpoint."""

    ref: str
    """F1, F2, … in the order in which the files came"""
    path: str
    lines: int
    tokens: int
    """of its whole text"""
    signatures: list[str]
    more: int
    """symbols that are not shown"""


class Checkpoint(NamedTuple):
    """What a set of files comes to."""

    entries: list[Entry]
    text: str
    tokens: int
    """of the checkpoint's text"""
    raw_tokens: int
    """of all files"""

    @property
    def saved(self) -> int:
        """Tokens that the checkpoint is shorter; 0 where it is not."""
        return max(0, self.raw_tokens - self.tokens)


def checkpoint(
    sources: Sequence[Source],
    count: Callable[[str], int],
    *,
    signatures: bool = True,
    top: int = TOP,
    stats: str = "",
) -> Checkpoint:
    """Return the checkpoint of some files.

    Of each file the ``top`` symbols that matter most are shown, in the order of its lines:
    exported before hidden, then those that most of the other files name, then types
    before functions before constants. Equal input gives equal text.
    """
    raw = [count(source.text) for source in sources]
    chosen = _ranked_symbols(sources, top) if signatures else [[] for _ in sources]
    entries = [
        Entry(
            f"F{n}",
            source.name,
            source.lines,
            raw[n - 1],
            signature_lines(shown, located=True, documented=False),
            _more(source, shown, signatures),
        )
        for n, (source, shown) in enumerate(zip(sources, chosen, strict=True), 1)
    ]
    text = _text(entries, stats)
    made = Checkpoint(entries, text, count(text), sum(raw))
    part = f" ({1 - made.tokens / made.raw_tokens:.0%})" if made.saved else ""
    part = ": the files themselves are shorter" if made.tokens > made.raw_tokens else part
    ending = f"\nCOMPRESSION: {made.raw_tokens} → {made.tokens} tok\n[{made.saved} tok saved{part}]"
    return made._replace(text=made.text + ending)


def _more(source: Source, shown: list[Symbol], signatures: bool) -> int:
    return len(source.outline.symbols) - len(shown) if signatures else 0


def _text(entries: list[Entry], stats: str) -> str:
    lines = [f"CTX CHECKPOINT ({len(entries)} file{'' if len(entries) == 1 else 's'})"]
    folder = _folder([entry.path for entry in entries])
    lines += [f"in {folder}"] if folder else []
    for entry in entries:
        more = f" +{entry.more}" if entry.more and entry.signatures else ""
        shown = f": {', '.join(entry.signatures)}{more}" if entry.signatures else ""
        size = f"[{entry.lines}L]" if entry.signatures else f"[{entry.lines}L {entry.tokens}t]"
        lines.append(f"{entry.ref} {entry.path.removeprefix(folder)} {size}{shown}")
    return "\n".join([*lines, *([stats] if stats else [])])


def _folder(paths: Sequence[str]) -> str:
    """Return the folder that all paths lie in, with its last slash; empty for one path, and where it is not worth a line."""
    if len(paths) < 2:
        return ""
    shared = paths[0]
    for path in paths[1:]:
        while not path.startswith(shared):
            shared = shared[:-1]
    folder = shared[: shared.rfind("/") + 1]
    return folder if len(folder) > 3 else ""


def most_named(sources: Sequence[Source], limit: int) -> list[Source]:
    """Return at most so many of some sources, in their order: those whose symbols most of the others name."""
    if len(sources) <= limit:
        return list(sources)
    named = _named(sources)

    def rank(place: int) -> tuple[float, int]:
        return -sum(named[name] for name in {_short(s.name) for s in sources[place].outline.symbols if s.exported}), place

    return [sources[place] for place in sorted(sorted(range(len(sources)), key=rank)[:limit])]


def _ranked_symbols(sources: Sequence[Source], top: int) -> list[list[Symbol]]:
    named = _named(sources)

    def rank(symbol: Symbol) -> tuple[bool, float, int, int]:
        short = _short(symbol.name)
        return not symbol.exported or short.startswith("_"), -named[short], -_WEIGHT[symbol.kind], symbol.first

    found = []
    for source in sources:
        best = sorted(_owned(source.outline.symbols), key=rank)[:top]
        found.append([symbol._replace(level=0) for symbol in sorted(best, key=lambda symbol: (symbol.first, symbol.level))])
    return found


def _named(sources: Sequence[Source]) -> defaultdict[str, float]:
    """Return name -> how many other files name it, shared among the files that declare it: a name that many declare says little.

    A plain word (``name``, ``text``) counts a fifth: most of its places mean something else.
    """
    declaring: Counter[str] = Counter()
    naming: Counter[str] = Counter()
    for source in sources:
        declaring.update({_short(symbol.name) for symbol in source.outline.symbols if symbol.kind != "section"})
        naming.update(set(_IDENTIFIER.findall(source.text)))
    found: defaultdict[str, float] = defaultdict(float)
    for name, files in declaring.items():
        found[name] = max(0, naming[name] - files) / files * (1 if _COMPOUND.search(name) else _PLAIN_WORD)
    return found


def _short(name: str) -> str:
    """Return the last part of a name: of ``Cart.total`` ``total``."""
    return re.split(r"[.:]+", name)[-1]


def _owned(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Return symbols, those that stand in a type with its name before theirs: ``Cart.total``."""
    owners: list[str] = []
    found = []
    for symbol in symbols:
        del owners[symbol.level :]
        above = owners[-1] if owners and symbol.kind != "section" else ""
        found.append(symbol._replace(name=f"{above}.{symbol.name}") if above else symbol)
        short = re.split(r" for |<", symbol.name)[1 if " for " in symbol.name else 0]
        owners += [""] * (symbol.level - len(owners))
        owners.append(short if symbol.kind in {"class", "interface", "implementation", "enum"} else "")
    return found


LEAST_FILES = 3
LEAST_LETTERS = 10
MOST_ENTRIES = 50
_SIGN = re.compile(r"§\d+")


class Coded(NamedTuple):
    """Texts in which shared lines stand as ``§1``, ``§2``, …, and the book that says what these mean; empty where it would not pay."""

    book: list[str]
    texts: list[str]

    @property
    def legend(self) -> str:
        """The book as text, an entry a line."""
        return "\n".join(f"§{number} {line}" for number, line in enumerate(self.book, 1))


def coded(texts: Sequence[str], count: Callable[[str], int]) -> Coded:
    """Return the texts with lines that three or more of them hold in a book, where all together is cheaper than before.

    A line pays when what its places save is more than its entry costs. Indentation stays.
    Texts that hold such a sign already are left alone.
    """
    plain = Coded([], list(texts))
    if len(texts) < LEAST_FILES or any(_SIGN.search(text) for text in texts):
        return plain
    holders: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for text in texts:
        lines = [line.strip() for line in text.split("\n")]
        places.update(lines)
        holders.update(set(lines))
    shared = [line for line, held in holders.items() if held >= LEAST_FILES and len(line) >= LEAST_LETTERS]
    gains = {line: (places[line] - 1) * (count(line) - 3) - 4 for line in shared}
    book = sorted((line for line in shared if gains[line] > 0), key=lambda line: (-gains[line], line))[:MOST_ENTRIES]
    if not book:
        return plain
    signs = {line: f"§{number}" for number, line in enumerate(book, 1)}
    made = Coded(book, [_replaced(text, signs) for text in texts])
    return made if count(made.legend) + sum(map(count, made.texts)) < sum(map(count, texts)) else plain


def _replaced(text: str, signs: dict[str, str]) -> str:
    lines = []
    for line in text.split("\n"):
        sign = signs.get(line.strip())
        lines.append(line if sign is None else line[: len(line) - len(line.lstrip())] + sign)
    return "\n".join(lines)


def spelled_out(code: Coded) -> list[str]:
    """Return the texts with every sign replaced by its line; blanks at the ends of replaced lines are gone."""
    return [re.sub(r"(?m)^(\s*)§(\d+)$", lambda match: match[1] + code.book[int(match[2]) - 1], text) for text in code.texts]


ENCODING = "o200k_base"
"""What counts the tokens: a public encoding, exact for recent OpenAI models and a measure to compare with for others."""

MOST_FILES = 50
"""Files of a checkpoint, unless told otherwise."""

SCHEMA = 1
"""Version of the JSON shapes of compress, analyze and benchmark."""


class Captured(NamedTuple):
    """The files in a session's window at a moment."""

    host: str
    session_id: str
    thread_id: str
    sources: list[Source]
    reads: int
    hits: int
    """reads that brought nothing new"""


def counting() -> Tokenizer:
    """Return what counts tokens here; the first call reads the encoding (a quarter of a second)."""
    return tokenizer_from_name(ENCODING)


def analyze(path: Path | str, *, root: Path | None = None, settings: Settings | None = None) -> Analysis:
    """Return what a file's lines say, what each form of it costs and keeps, and which one fits best.

    Raises UsageError for what is no text file or lies outside ``root``.
    """
    return analyzed(_clean([source_at(path, root=root)], settings)[0], counting())


def analysis_row(path: str, found: Analysis) -> dict[str, Any]:
    """Return an analysis as plain values."""
    return {
        "schema": SCHEMA,
        "path": path,
        "language": found.language,
        "lines": found.lines,
        "tokens": found.tokens,
        "encoding": ENCODING,
        "entropy": [{**spread._asdict(), "mean": round(spread.mean, 3)} for spread in (found.chars, found.by_token)],
        "compressed_ratio": round(found.ratio, 3),
        "compressibility": found.compressibility,
        "repeats": [
            {"first": r.block.first, "last": r.block.last, "of_first": r.of.first, "of_last": r.of.last, "likeness": round(r.likeness, 3)}
            for r in found.repeats
        ],
        "forms": [form_row(row) for row in found.rows],
        "recommended": found.recommended,
        "reason": found.reason,
    }


def form_row(row: Any) -> dict[str, Any]:
    """Return one form as plain values: shares of 0 to 1, null where nothing was measured."""
    kept = row.quality
    return {
        "form": row.form,
        "tokens": row.tokens,
        "saved": round(row.saved, 4),
        "quality": None if kept is None else round(kept.score, 4),
        "structure": None if kept is None else round(kept.structure, 4),
        "identifiers": None if kept is None else round(kept.identifiers, 4),
        "risk": row.risk,
    }


def sources_at(
    paths: Sequence[Path | str], *, root: Path | None = None, limit: int = MOST_FILES, settings: Settings | None = None
) -> tuple[list[Source], dict[str, int]]:
    """Return the sources of files and folders in the order in which they are named, and why others are not among them.

    Of a folder at most ``limit`` files with symbols are taken: those whose symbols most of
    the others name. Raises UsageError for a path that is neither.
    """
    found: list[Source] = []
    left_out: dict[str, int] = {}
    for path in paths:
        place = Path(path) if root is None else root / path
        if not os.path.isdir(place):  # noqa: PTH112 - any text, and it never raises
            found.append(source_at(path, root=root))
            continue
        if root is not None and not place.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{path}: the path leads out of the project", hint="name a folder of it")
        inside, missing = sources_of(project_at(place))
        for reason, count in missing.items():
            left_out[reason] = left_out.get(reason, 0) + count
        chosen = most_named([source for source in inside.values() if source.outline.symbols], limit)
        if rest := len(inside) - len(chosen):
            left_out["not chosen"] = left_out.get("not chosen", 0) + rest
        base = str(path).rstrip("/")
        found += [Source(name if base in {"", "."} else f"{base}/{name}", one.text) for one in chosen for name in [one.name]]
    return _clean(found, settings), left_out


def captured(
    host: str, session_id: str, *, at: str | int | None = None, thread: str | None = None, settings: Settings | None = None
) -> Captured:
    """Return the files that stood in a session's window at a moment, from what was captured: no repository is needed.

    A moment is named as for ``ctx history --at``. Raises UnknownName and UsageError.
    """
    from ctx_pipeline.compression.captured_files import captured_files

    seq = None
    if at is not None and str(at) not in {"end", "now"}:
        from ctx_pipeline.sessions.windows.window_history import open_window

        window = open_window(host, session_id, thread=thread, moments=(at,), settings=settings)
        seq, thread = window.asked[0].seq, window.thread.thread_id
        seq = -1 if seq is None else seq
    told = captured_files(host, session_id, thread=thread, at=seq, settings=settings)
    mine = [one for one in told.shown if one.thread_id == told.thread_id and (seq is None or one.seq <= seq)]
    sources = [Source(held.path, held.text, fragment=held.partial) for held in told.held]
    return Captured(told.host, told.session_id, told.thread_id, sources, len(mine), sum(one.already_delivered for one in mine))


def compress(
    sources: Sequence[Source],
    *,
    signatures: bool = True,
    top: int = TOP,
    reads: int | None = None,
    hits: int = 0,
) -> Checkpoint:
    """Return the checkpoint of some files; ``reads`` and ``hits`` are those of the session they come from."""
    tokenizer = counting()
    stats = (
        ""
        if reads is None
        else f"STATS: {reads} read{'' if reads == 1 else 's'}, {hits} hit{'' if hits == 1 else 's'} ({hits / reads if reads else 0:.0%})"
    )
    return checkpoint(sources, lambda text: tokenizer.count_tokens(text).count, signatures=signatures, top=top, stats=stats)


def checkpoint_row(found: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint as plain values."""
    return {
        "schema": SCHEMA,
        "files": [entry._asdict() for entry in found.entries],
        "notation": "plain",
        "raw_tokens": found.raw_tokens,
        "tokens": found.tokens,
        "saved_tokens": found.saved,
        "encoding": ENCODING,
        "text": found.text,
    }


def in_form(sources: Sequence[Source], form: str) -> dict[str, Any]:
    """Return files in a form: ``files`` with their text, and ``book``, the lines that three or more share, where that pays.

    ``best`` is the form that an analysis recommends for each. A file that the form has
    nothing to say of, or says with as many tokens, stays raw. Raises UsageError for an unknown form.
    """
    if form not in {*FORMS, "best"}:
        raise UsageError(f"there is no form {form!r}", hint=f"use one of {', '.join([*FORMS, 'best'])}")
    tokenizer = counting()

    def count(text: str) -> int:
        return tokenizer.count_tokens(text).count

    rows: list[dict[str, Any]] = []
    for source in sources:
        chosen = analyzed(source, tokenizer).recommended if form == "best" else form
        text = shortened(source, chosen)
        said = source.text if text is None or (not text.strip() and source.text.strip()) else text
        raw, told = count(source.text), count(said)
        if told >= raw:
            said, told = source.text, raw
        used = chosen if said is text else "raw"
        rows.append({"path": source.name, "form": used, "raw_tokens": raw, "tokens": told, "text": said})
    code = coded([row["text"] for row in rows], count)
    for row, text in zip(rows, code.texts, strict=True):
        row |= {"text": text, "tokens": count(text)}
    total = count(code.legend) + sum(row["tokens"] for row in rows) if code.book else sum(row["tokens"] for row in rows)
    raw = sum(row["raw_tokens"] for row in rows)
    return {"schema": SCHEMA, "files": rows, "book": code.book, "raw_tokens": raw, "tokens": total, "encoding": ENCODING}


def session_here(folder: Path, settings: Settings | None = None) -> tuple[str, str]:
    """Return host and id of the captured session that every command means in a folder without a name.

    Raises NothingYet where there is none, StoreError when nothing was captured yet.
    """
    from ctx_pipeline.sessions.session_choice import select_captured
    from ctx_pipeline.storage.reader import reading

    with reading(settings) as (store, asked):
        choice = select_captured(store, asked, str(folder))
    return choice.host, choice.session_id


def session_named(name: str, settings: Settings | None = None) -> tuple[str, str]:
    """Return host and id of the session of a name, as every command reads names."""
    from ctx_pipeline.sessions.naming import find_session
    from ctx_pipeline.storage.reader import reading

    with reading(settings) as (store, _):
        return find_session(store, name)


def _clean(sources: Sequence[Source], settings: Settings | None) -> list[Source]:
    """Return sources without secrets: what is shown of them may be pasted anywhere."""
    redactor = Redactor((settings or settings_module.load()).patterns)
    texts = [source.text for source in sources]
    found = set(redactor.suspects(texts))
    return [
        Source(source.name, redactor.redact(source.text), source.language, fragment=source.fragment) if place in found else source
        for place, source in enumerate(sources)
    ]
