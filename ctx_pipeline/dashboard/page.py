"""The page as files: an index with its panels, a style, scripts, and the list of sessions as data."""

from __future__ import annotations

import json
import re
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from ctx_pipeline import discovery
from ctx_pipeline.dashboard import figures
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.display import HIDDEN, SEPARATORS, SEQUENCE, escaped, session_title
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.readings import first_place
from ctx_pipeline.model.vocabulary.irregular_words import IRREGULAR
from ctx_pipeline.model.vocabulary.synonyms import SYNONYMS
from ctx_pipeline.storage.search_index import near_words, ranking, tokenize, word_forms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2

    from ctx_pipeline.dashboard.data import PageData, SessionLine
    from ctx_pipeline.model.declared import Panel


# Data chunks: JSON inside a script file, safe wherever a browser may meet it.


_encode = msgspec.json.Encoder().encode
_LEVEL = 4
"""Of zlib: a tenth less than its first level, for 0.25 s of a processor at 500 MB (docs/performance-log.md)."""


def chunk(name: str, value: Any) -> bytes:
    r"""Return a script that hands ``value`` to the page under ``name``.

    Angle brackets, ampersands and the two line separators of JavaScript are written as
    escapes (``\u003c``), so that neither ``</script>`` nor ``<!--<script>`` nor U+2028 has a
    meaning. Keys of objects must be the caller's own words: ``__proto__`` in a literal is
    not data.
    """
    return b"ctx.receive(" + script_json(name) + b"," + script_json(value) + b");\n"


def script_json(value: Any) -> bytes:
    """Return JSON that is also safe inside HTML and inside a script, without characters that nobody sees."""
    text = _encode(value)
    for plain, written in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        text = text.replace(plain, written)
    # every control of ASCII is an escape already
    return text if text.isascii() else HIDDEN.sub(lambda found: escaped(found[0]) if found[0] in SEPARATORS else "", text.decode()).encode()


def packed_chunk(name: str, text: bytes) -> bytes:
    """Return a script that hands JSON to the page as its zlib, byte for byte: the page reads such a file as x-user-defined.

    Base64 of it would take a third more. What nobody sees must be gone: from :func:`script_json`, or :func:`seen`.
    """
    body = zlib.compress(text, _LEVEL)
    for byte, written in _ESCAPES:
        body = body.replace(byte, written)
    return b"ctx.receive(" + script_json(name) + b',"' + body + b'");\n'


def unpacked_chunk(script: bytes) -> Any:
    """Return the value of a script that :func:`packed_chunk` wrote; raises ValueError for anything else."""
    begin, end = script.find(b',"'), script.rfind(b'");')
    if not script.startswith(b"ctx.receive(") or begin < 0 or end < begin:
        raise ValueError("no packed chunk")
    body = _ESCAPED.sub(lambda found: _MEANT.get(found[0], b""), script[begin + 2 : end])
    try:
        return json.loads(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError("no packed chunk") from error


_ESCAPES = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\0", b"\\x00"))
"""Bytes that cannot stand in a string of JavaScript as they are, the sign of escapes first."""
_MEANT = {written: byte for byte, written in _ESCAPES}
_ESCAPED = lazy_pattern(rb"\\(?:x00|.)", re.DOTALL)


def seen(text: str | None) -> str:
    """Return a text without the characters that nobody sees and without what colors it in a terminal."""
    return without_hidden(SEQUENCE.sub("", text) if text and ("\x1b" in text or "\x9b" in text) else text)


def without_hidden(text: str | None) -> str:
    """Return a text without the characters that nobody sees, its words as the search index has them."""
    if not text or text.isascii():
        return text or ""
    return HIDDEN.sub(lambda found: found[0] if found[0] in SEPARATORS else "", text)


ASSETS = Path(__file__).parent / "assets"
STYLES = ("style.css", "panels.css", "transcript.css")
SHARED = ("format.js", "tips.js", "draw.js", "grid.js", "prose.js")
"""Scripts that those of panels use, in the order in which a browser runs them."""

LAST = ("window.js", "finder.js", "transcript.js", "session.js", "ranking.js", "search.js")
"""The drill-down: it reads what the table of sessions has left."""

POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src data:; base-uri 'none'; form-action 'none'"
"""Content security policy: scripts and style from beside the page, pictures that such a script holds, nothing inline, no network."""


def files(data: PageData, chunks: Mapping[SessionLine, str], words: Sequence[str] = ()) -> dict[str, bytes]:
    """Return path below the site -> content, without the drill-downs; ``chunks`` names the file of each session's.

    ``words`` names the pieces that are searched, the newest first.
    """
    found = discovery.panels()
    made = {name: (ASSETS / name).read_bytes() for name in (*STYLES, *scripts(found))}
    built = [(p, Markup(p.build(data))) for p in found]  # noqa: S704 - a panel returns HTML that it has escaped
    pages = list(dict.fromkeys(["", *(p.page for p in found)]))
    links = [(file_of(title), title or "Overview", [p.name for p in found if p.page == title]) for title in pages]
    for title in pages:
        panels = [(p, html) for p, html in built if p.page == title]
        text = template(
            "page.html",
            data=data,
            title=title,
            file=file_of(title),
            links=links,
            panels=panels,
            styles=STYLES,
            scripts=scripts(found),
            policy=POLICY,
        )
        made[file_of(title)] = text.encode("utf-8", "replace")
    made["data/sessions.js"] = chunk("sessions", session_list(data, chunks) | {"words": list(words), "scoring": scoring()})
    signals = {s.signal: [s.signal, s.kind, s.unit, data.meanings[s.signal]] for s in data.signals}
    # told once: in the drill-downs, all of a memory's sessions would be drawn anew with each one that it is found in
    made["panels/readings.js"] = chunk("panel-readings", sorted(signals.values(), key=lambda signal: first_place(signal[0])))
    made["panels/learned.js"] = chunk("panel-learned", data.learned)
    for panel in found:
        if panel.data is not None:
            made[f"panels/{panel.name}.js"] = chunk(f"panel-{panel.name}", panel.data(data))
    return made


def file_of(title: str) -> str:
    """Return the name of the file of a page: ``index.html`` for the first one."""
    return f"{title.lower().replace(' ', '-') or 'index'}.html"


def scripts(panels: Sequence[Panel]) -> list[str]:
    """Return the names of the page's scripts in the order in which they run: those of panels between the shared ones and the last."""
    own = [f"{p.name}.js" for p in panels if (ASSETS / f"{p.name}.js").is_file()]
    return [*SHARED, *own, *LAST]


def template(template_name: str, **values: Any) -> str:
    """Return a template of ``assets`` filled with values, every one of them escaped."""
    return _environment().get_template(template_name).render(**values)


def session_list(data: PageData, chunks: Mapping[SessionLine, str]) -> dict[str, Any]:
    """Return what the table needs: hosts, zone, and one array a session in the order of ``columns``."""
    titles = data.host_titles
    return {
        "zone": data.timezone,
        "hosts": [[h.key, h.title, h.tone] for h in titles.values()],
        "columns": list(_COLUMNS),
        "rows": [_row(s, chunks[s], list(titles).index(s.host)) for s in data.sessions],
    }


def scoring() -> dict[str, Any]:
    """Return how ``ctx search`` scores a row, so that the search from disk has no numbers of its own."""
    return {
        "work": ranking.WORK._asdict(),
        "talk": ranking.TALK._asdict(),
        "around": ranking.AROUND,
        "saturation": ranking.SATURATION,
        "saidCounts": ranking.SAID_COUNTS,
        "enough": ranking.ENOUGH,
        "wordsAtOnce": ranking.MOST_WORDS_AT_ONCE,
        "ofSynonym": ranking.OF_SYNONYM,
        "readWhole": ranking.READ_WHOLE,
        "sample": ranking.SAMPLE,
        "pool": ranking.POOL,
        "strict": ranking.STRICT,
        "counted": ranking.COUNTED,
        "scored": ranking.SCORED,
        "shortestTypo": near_words.SHORTEST,
        "typos": near_words.MOST,
        "common": near_words.ENOUGH,
        "words": tokenize.WORDS,
        "joined": tokenize.JOINED,
        "characters": tokenize.CHARS,
        "stop": sorted(tokenize.STOP),
        "endings": list(word_forms.ENDINGS),
        "added": list(word_forms.ADDED),
        "irregular": [list(group) for group in IRREGULAR],
        "synonyms": [list(group) for group in SYNONYMS],
    }


def content_of(data: PageData) -> str:
    """Return the hash of what the page says, without the time at which it was made."""
    return digest(
        [(name, repr(value)) for name, value in sorted(vars(data).items()) if name in data.__dataclass_fields__ and name != "generated"]
    )


_COLUMNS = (
    "key",
    "chunk",
    "host",
    "title",
    "id",
    "project",
    "branch",
    "status",
    "start",
    "seconds",
    "prompts",
    "calls",
    "tools",
    "failed",
    "tokens",
    "cost",
    "unpriced",
    "odd",
    "copy",
)


def _row(s: SessionLine, chunk_name: str, host: int) -> list[Any]:
    seconds = int((s.last_ts - s.first_ts).total_seconds()) if s.first_ts and s.last_ts else None
    return [
        s.key,
        chunk_name,
        host,
        session_title(s.title),
        s.session_id,
        s.project,
        s.branch or "",
        s.status,
        figures.milliseconds(s.first_ts),
        seconds,
        s.prompts,
        s.usage.calls,
        s.tool_calls,
        s.failed_tool_calls,
        s.usage.tokens,
        s.usage.cost_nano / 1e9,
        s.usage.unpriced_calls,
        s.unknown + s.quarantined,
        s.copy_of,
    ]


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2

    from ctx_pipeline.dashboard.compiled_templates import CompiledTemplates

    options: dict[str, Any] = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    compiled = CompiledTemplates(Path(__file__).parent / "__pycache__", {"autoescape": True, **options})
    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(ASSETS), bytecode_cache=compiled, **options)
    for name in ("cost", "count", "short", "money", "share", "size", "reading", "duration", "plural", "day", "words"):
        environment.filters[name] = getattr(figures, name)
    return environment
