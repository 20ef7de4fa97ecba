"""A checkpoint: several files in a few lines each, to take along into a fresh session."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.signatures.notation import signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.compression.signatures.symbols import Symbol
    from ctx_pipeline.compression.source import Source

TOP = 5
"""Signatures of a file that are shown."""

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_COMPOUND = re.compile(r"[^\W_][A-Z_\d]|^[A-Z]")
_PLAIN_WORD = 0.2
_WEIGHT = {"class": 5, "interface": 5, "function": 4, "enum": 3, "type": 3, "module": 3, "section": 3, "value": 2, "implementation": 1}


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
        Entry(f"F{n}", source.name, source.lines, raw[n - 1], [signature(s) for s in shown], _more(source, shown, signatures))
        for n, (source, shown) in enumerate(zip(sources, chosen, strict=True), 1)
    ]
    text = _text(entries, stats)
    made = Checkpoint(entries, text, count(text), sum(raw))
    percent = f" ({1 - made.tokens / made.raw_tokens:.0%})" if made.saved else ""
    ending = f"\nCOMPRESSION: {made.raw_tokens} → {made.tokens} tok\n[{made.saved} tok saved{percent}]"
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
