"""What a person chose, where it was said, and how it is changed: ``config.toml`` is edited as text and compared as data."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.settings import PLAIN, TABLES
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.settings import Settings

FILE = "config.toml"
VARIABLES: Mapping[str, str] = {"cost_mode": "CTX_COST_MODE", "timezone": "TZ"}
"""Settings that a variable of the environment overrides."""

_HEADER = re.compile(r"^[ \t]*\[\[?[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Value:
    """One setting: its value in force and where that is from."""

    key: str
    value: Any
    origin: str
    """default, config.toml, or the variable of the environment that overrides both"""


def path_of(settings: Settings) -> Path:
    """Return where the configuration lies, whether or not it is there."""
    return settings.home / FILE


def values(settings: Settings) -> list[Value]:
    """Return every setting with its value in force, the plain ones first, then what the tables hold."""
    found = []
    for key in PLAIN:
        variable = VARIABLES.get(key, "")
        said = settings.environ.get(variable) if variable else None
        origin = variable if said else FILE if key in settings.config else "default"
        found.append(Value(key, getattr(settings, key), origin))
    found.append(Value("ignore.paths", list(settings.ignore), FILE if "ignore" in settings.config else "default"))
    for name in [table for table in TABLES if table != "ignore"]:
        found += [Value(key, value, FILE) for key, value in _flat(settings.config.get(name), name)]
    return found


def change(settings: Settings, key: str, words: Sequence[str]) -> Value:
    """Write one setting and return it as it is in force now; without words it is taken out of the file.

    Several words are a list. The rest of the file stays as it was written. Raises
    UnknownName for a setting that does not exist and SettingsError for a value that
    cannot be used or a file that cannot be edited; nothing is written then.
    """
    place = _place(key)
    path = path_of(settings)
    text = path.read_text("utf-8") if path.exists() else ""
    wanted = tomllib.loads(text)
    if words:
        table = wanted
        for part in place[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise _by_hand(path, f"{part} is no table in it")
        value = _value(words, several=place == ["ignore", "paths"])
        table[place[-1]] = value
        text = _with(text, place, f"{_key(place[-1])} = {_literal(value)}")
    else:
        table = wanted
        for part in place[:-1]:
            table = table.get(part, {})
        if place[-1] in table:
            del table[place[-1]]
            text = _with(text, place, None)
    made = _parsed(text, path)
    if _without_empty(made) != _without_empty(wanted):
        raise _by_hand(path, f"{key} is written in a way that cannot be changed here")
    checked = settings_module.load(settings.environ, home=settings.home, config=made)
    _usable(checked)
    Files(settings.home).write(FILE, text.encode())
    return next((v for v in values(checked) if v.key == ".".join(place)), Value(".".join(place), None, "default"))


def _usable(settings: Settings) -> None:
    """Raise SettingsError for patterns, prices, a zone or an embedding function that nothing could work with."""
    from ctx_pipeline.context.retrieval.chosen import chosen
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.stages.capture import redactor_of
    from ctx_pipeline.storage.days import day_sql

    redactor_of(settings)
    PriceBook.of(settings)
    day_sql("ts", settings.timezone)
    _ = settings.plans
    if settings.embedder:
        chosen(settings.embedder)


def _place(key: str) -> list[str]:
    """Return the parts of a setting's name, quoted ones included."""
    asked = "ignore.paths" if key == "ignore" else key
    try:
        table = tomllib.loads(f"{asked} = 0")
    except tomllib.TOMLDecodeError:
        table = {}
    parts: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        ((name, table),) = table.items()
        parts.append(name)
    plain = len(parts) == 1 and parts[0] in PLAIN
    if not plain and not (len(parts) > 1 and parts[0] in TABLES):
        raise UnknownName("setting", key, [*PLAIN, "ignore", "redaction.patterns.NAME", 'prices."MODEL".input'])
    return parts


def _value(words: Sequence[str], *, several: bool) -> Any:
    """Return what words mean: a number, a truth, a list, or text."""
    if several or len(words) > 1:
        return list(words)
    try:
        found = tomllib.loads(f"value = {words[0]}")["value"]
    except tomllib.TOMLDecodeError:
        return words[0]
    return found if isinstance(found, bool | int | float | list | str) else words[0]


def _with(text: str, place: Sequence[str], line: str | None) -> str:
    """Return the text with the line of a key replaced, added or (None) taken out."""
    start, end = _section(text, place[:-1])
    name = re.escape(place[-1])
    pattern = re.compile(rf"^[ \t]*(?:{name}|\"{name}\"|'{name}')[ \t]*=[^\n]*\n?", re.MULTILINE)
    found = pattern.search(text, start, end) if start >= 0 else None
    if found:
        return text[: found.start()] + (f"{line}{_remark(found[0])}\n" if line else "") + text[found.end() :]
    if line is None:
        return text
    if start < 0:
        header = ".".join(map(_key, place[:-1]))
        return text + ("" if not text else "\n" if text.endswith("\n") else "\n\n") + f"[{header}]\n{line}\n"
    body = text[start:end].rstrip("\n")
    gap = "\n" if text[end:] else ""
    return text[:start] + body + ("\n" if body else "") + f"{line}\n{gap}" + text[end:]


def _remark(line: str) -> str:
    """Return the comment at the end of a line, with the blanks before it."""
    for place in (m.start() for m in re.finditer("#", line)):
        try:
            if tomllib.loads(line[:place]) == tomllib.loads(line):
                return line[len(line[:place].rstrip()) :].rstrip("\n")
        except tomllib.TOMLDecodeError:
            continue
    return ""


def _section(text: str, table: Sequence[str]) -> tuple[int, int]:
    """Return where the lines of a table begin and end; (-1, -1) where it has no header."""
    headers = list(_HEADER.finditer(text))
    starts = [h.start() for h in headers] + [len(text)]
    if not table:
        return 0, headers[0].start() if headers else len(text)
    for header, end in zip(headers, starts[1:], strict=True):
        try:
            named: Any = tomllib.loads(header[0])
        except tomllib.TOMLDecodeError:
            continue
        path = []
        while isinstance(named, dict) and named:
            ((part, named),) = named.items()
            path.append(part)
        if path == list(table) and not header[0].lstrip().startswith("[["):
            return min(header.end() + 1, len(text)), end
    return -1, -1


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _by_hand(path, "the setting is written over several lines") from error


def _by_hand(path: Path, why: str) -> SettingsError:
    return SettingsError(f"{path} was left as it is: {why}", hint="change it in the file: docs/settings.md", path=str(path))


def _without_empty(value: Any) -> Any:
    """Return data without tables that hold nothing: taking the last key out leaves a bare header."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(held) for key, held in value.items()}
    return {key: held for key, held in inner.items() if held != {}}


def _flat(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(prefix, value)] if value is not None else []
    return [pair for key, held in value.items() for pair in _flat(held, f"{prefix}.{_key(key)}")]


def _key(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _literal(part)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    # a JSON string is a TOML basic string but for DEL, which JSON leaves as it is
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
