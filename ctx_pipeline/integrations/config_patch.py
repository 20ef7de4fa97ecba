"""Settings files as text: entries of ours are put in and taken out, everything else is kept; what cannot be read is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctx_pipeline.settings import Settings


NAME = "ctx"
"""Name of the server in a host's table of servers."""

_OURS = re.compile(r"(?:^|[\s/'\"])(?:ctx(?:\.exe)?['\"]?|-m\s+ctx_pipeline)\s+hook\s")
_INDENT = re.compile(r"^([ \t]+)\"", re.MULTILINE)
_BEGIN, _END = "<!-- ctx_pipeline: begin -->", "<!-- ctx_pipeline: end -->"
_BLOCK = re.compile(rf"\n*{re.escape(_BEGIN)}.*?{re.escape(_END)}\n?", re.DOTALL)


def parsed_json(text: str, name: str) -> dict[str, Any]:
    """Return the object that a settings file holds; raises SettingsError for comments, broken JSON and keys that stand twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands in it twice")
        return found

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no number")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse) if text.strip() else {}
        json.dumps(value, allow_nan=False)  # a number beyond all floats would come back as another word
    except (ValueError, RecursionError) as error:
        raise _refusal(name, f"it is no plain JSON ({error})") from error
    if not isinstance(value, dict):
        raise _refusal(name, "it holds no JSON object")
    return value


def dumped_json(value: Mapping[str, Any], like: str) -> str:
    """Return an object as JSON with the indent and the last newline of a text."""
    found = _INDENT.search(like)
    indent: str | int | None = found[1] if found else (None if like.strip() not in ("", "{}") and "\n" not in like.strip() else 2)
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    return text + ("\n" if like.endswith("\n") or not like.strip() else "")


def with_json_server(text: str, name: str, table: str, entry: Mapping[str, Any]) -> str:
    """Return the text with the server in it; the same text where it is there already."""
    value = parsed_json(text, name)
    servers = value.setdefault(table, {})
    if not isinstance(servers, dict):
        raise _refusal(name, f"its {table} is no table")
    held = servers.get(NAME)
    if held == entry:
        return text
    if held is not None and not is_our_server(held):
        raise _refusal(name, f"it has another server named {NAME}")
    servers[NAME] = dict(entry)
    return dumped_json(value, text)


def without_json_server(text: str, name: str, table: str) -> str:
    """Return the text without the server; the same text where it is not there."""
    value = parsed_json(text, name)
    servers = value.get(table)
    if not isinstance(servers, dict) or not is_our_server(servers.get(NAME)):
        return text
    del servers[NAME]
    if not servers:
        del value[table]
    return dumped_json(value, text)


def with_toml_server(text: str, name: str, table: str, entry: Mapping[str, Any]) -> str:
    """Return the text with the server in it; comments and order stay."""
    import tomlkit
    from tomlkit.items import InlineTable

    servers = parsed_toml(text, name).get(table, {})
    if not isinstance(servers, dict):
        raise _refusal(name, f"its {table} is no table")
    held = servers.get(NAME)
    if held == entry:
        return text
    if held is not None and not is_our_server(held):
        raise _refusal(name, f"it has another server named {NAME}")
    rest = without_toml_server(text, name, table)
    document: Any = tomlkit.parse(rest)
    if isinstance(document.get(table), InlineTable):
        document[table][NAME] = tomlkit.inline_table() | dict(entry)
        return tomlkit.dumps(document)
    gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    made = rest + gap + tomlkit.dumps({table: {NAME: entry}})
    parsed_toml(made, name)  # raises where dotted keys hold the servers
    return made


def without_toml_server(text: str, name: str, table: str) -> str:
    """Return the text without the server's tables."""
    import tomlkit

    value = parsed_toml(text, name)
    servers = value.get(table)
    if not isinstance(servers, dict) or not is_our_server(servers.get(NAME)):
        return text
    document: Any = tomlkit.parse(text)
    del document[table][NAME]
    if len(servers) == 1:
        del document[table]
    return tomlkit.dumps(document)


def parsed_toml(text: str, name: str) -> dict[str, Any]:
    """Return what a TOML file holds; raises SettingsError when it cannot be parsed."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _refusal(name, f"it is no TOML ({error})") from error


def is_our_server(entry: Any) -> bool:
    """Tell whether an entry of a host's servers starts this package."""
    if not isinstance(entry, dict):
        return False
    arguments = entry.get("args")
    said = " ".join(str(word) for word in (entry.get("command"), *(arguments if isinstance(arguments, list) else ())))
    return bool(re.search(r"(?:(?:^|/)ctx(?:\.exe)?|-m ctx_pipeline) mcp$", said))


def with_hooks(text: str, name: str, wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with one group of hooks for each event (event -> group); groups of other people stay as they are."""
    value = parsed_json(text, name)
    hooks = _events(value, name)
    for event, group in wanted.items():
        groups = hooks.setdefault(event, [])
        ours = [g for g in groups if _holds_ours(g)]
        if ours != [group]:
            hooks[event] = [*_cleaned(groups), dict(group)]
    for event in set(hooks) - set(wanted):
        if any(_holds_ours(g) for g in hooks[event]):
            hooks[event] = _cleaned(hooks[event])
    return text if value == parsed_json(text, name) else dumped_json(value, text)


def without_hooks(text: str, name: str) -> str:
    """Return the text without our hooks, and without groups and events that held nothing else."""
    value = parsed_json(text, name)
    if "hooks" not in value:
        return text
    hooks = _events(value, name)
    for event in [e for e, groups in hooks.items() if any(_holds_ours(g) for g in groups)]:
        hooks[event] = _cleaned(hooks[event])
        if not hooks[event]:
            del hooks[event]
    if value == parsed_json(text, name):
        return text
    if not hooks:
        del value["hooks"]
    return dumped_json(value, text)


def hooks_in(text: str, name: str) -> list[str]:
    """Return the events for which one of our hooks is installed."""
    value = parsed_json(text, name)
    return [event for event, groups in _events(value, name).items() if any(_holds_ours(g) for g in groups)] if "hooks" in value else []


def kinds_lacking(text: str, name: str, wanted: Mapping[str, str]) -> dict[str, list[str]]:
    """Return event -> kinds of a matcher for which none of our hooks there runs; ``wanted`` is event -> matcher."""
    value = parsed_json(text, name)
    found: dict[str, list[str]] = {}
    for event, groups in _events(value, name).items() if "hooks" in value else ():
        matchers = [str(group.get("matcher") or "*") for group in groups if _holds_ours(group)]
        lacking = [kind for kind in wanted.get(event, "").split("|") if kind and not any(_takes(m, kind) for m in matchers)]
        if matchers and lacking:
            found[event] = lacking
    return found


def _takes(matcher: str, kind: str) -> bool:
    """Tell whether a matcher takes a kind of tool: * takes all, plain names are a list, anything else is a regex found anywhere."""
    if matcher == "*":
        return True
    if re.fullmatch(r"[\w\-,| ]*", matcher, re.ASCII):
        return kind in map(str.strip, re.split("[,|]", matcher))
    try:
        return re.search(matcher, kind) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def our_commands(text: str, name: str, does: str) -> list[str]:
    """Return the commands of our hooks that do one thing, in the order of the file."""
    value = parsed_json(text, name)
    events = _events(value, name) if "hooks" in value else {}
    handlers = [h for groups in events.values() for group in groups for h in _handlers(group) if _is_ours(h)]
    return [command for h in handlers if f" hook {does} " in (command := str(h["command"]))]


def _events(value: dict[str, Any], name: str) -> dict[str, list[Any]]:
    hooks = value.setdefault("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise _refusal(name, "its hooks are not written as events with lists")
    return hooks


def _handlers(group: Any) -> list[Any]:
    found = group.get("hooks") if isinstance(group, dict) else None
    return found if isinstance(found, list) else []


def _is_ours(handler: Any) -> bool:
    return isinstance(handler, dict) and bool(_OURS.search(str(handler.get("command", ""))))


def _holds_ours(group: Any) -> bool:
    return any(_is_ours(h) for h in _handlers(group))


def _cleaned(groups: Sequence[Any]) -> list[Any]:
    """Return groups without our handlers; a group of ours alone goes as a whole."""
    kept = []
    for group in groups:
        if not _holds_ours(group):
            kept.append(group)
            continue
        rest = [h for h in _handlers(group) if not _is_ours(h)]
        if rest:
            kept.append({**group, "hooks": rest})
    return kept


def with_block(text: str, words: str) -> str:
    """Return a text with the marked block at its end."""
    block = f"{_BEGIN}\n{words.strip()}\n{_END}\n"
    if block in text:
        return text
    rest = without_block(text)
    return rest + ("" if not rest else "\n" if rest.endswith("\n") else "\n\n") + block


def without_block(text: str) -> str:
    """Return a text without the marked block."""
    return _BLOCK.sub(lambda m: "\n" if m.start() else "", text, count=1)


def has_block(text: str) -> bool:
    """Tell whether the marked block is in a text."""
    return _BLOCK.search(text) is not None


def block_in(text: str) -> str:
    """Return the marked block of a text, empty where there is none."""
    found = _BLOCK.search(text)
    return found[0] if found else ""


def _refusal(name: str, why: str) -> SettingsError:
    return SettingsError(f"{name} was left as it is: {why}", hint="mend the file, or install it by hand: docs/agents.md", path=name)


# A change of somebody else's file: written whole, with a backup, and taken back to the same bytes where nobody
# changed it since.


FOLDER = "wiring"
"""Backups and receipts, in the store."""

_LARGEST = 64 << 20
ADDED, UNCHANGED, RESTORED, REMOVED, ABSENT = "added", "unchanged", "restored", "removed", "absent"


@dataclass(frozen=True)
class Change:
    """What was done to a file: added, unchanged, restored (to the same bytes), removed (our entries only) or absent."""

    path: Path
    did: str
    backup: Path | None = None


def read(path: Path) -> str | None:
    """Return the text of a file, None when there is none; raises SettingsError for what is no readable text file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise SettingsError(f"{path} was left as it is: it is no file of settings", hint="look at what it is", path=str(path))
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} was left as it is: it is no UTF-8 text", hint="mend the file", path=str(path)) from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}", hint="check its permissions", path=str(path)) from error


def put(settings: Settings, path: Path, edit: Callable[[str], str], *, own: Callable[[str], bool]) -> Change:
    """Write the edited text, after a backup of the one before; unchanged where the edit changes nothing.

    ``own(text)`` tells whether entries of ours are in a text already: such a text is no
    state to go back to.
    """
    before = read(path)
    after = edit(before or "")
    if before is not None and after == before:
        return Change(path, UNCHANGED)
    files = Files(settings.home)
    name = f"{FOLDER}/{digest(str(path), size=16)}"
    receipt = _receipt(files, name)
    backup = None
    if before is None:
        kept: dict[str, object] = {"existed": False}
    elif receipt and receipt.get("after") == _hash(before):
        kept = {key: receipt[key] for key in ("existed", "backup") if key in receipt}
    elif own(before):
        kept = {}
    else:
        backup = f"{name}-{_hash(before)[:12]}.backup"
        files.write(backup, before.encode())
        kept = {"existed": True, "backup": backup}
    files.write(f"{name}.json", json.dumps({"path": str(path), "after": _hash(after), **kept}).encode())
    _replace(path, before, after)
    return Change(path, ADDED, files.local(backup) if backup else None)


def revert(settings: Settings, path: Path, edit: Callable[[str], str]) -> Change:
    """Restore the bytes from before :func:`put` where nobody changed the file since, else write the edited text."""
    files = Files(settings.home)
    name = f"{FOLDER}/{digest(str(path), size=16)}"
    receipt = _receipt(files, name)
    now = read(path)
    if now is None:
        files.remove(f"{name}.json")
        return Change(path, ABSENT)
    if receipt and receipt.get("after") == _hash(now) and "existed" in receipt:
        backup = str(receipt.get("backup", ""))
        if not receipt["existed"]:
            Path(os.path.realpath(path)).unlink()
        else:
            _replace(path, now, files.read(backup).decode("utf-8"))
            files.remove(backup)
        files.remove(f"{name}.json")
        return Change(path, RESTORED)
    after = edit(now)
    if after == now:
        return Change(path, ABSENT)
    _replace(path, now, after)
    files.remove(f"{name}.json")
    return Change(path, REMOVED)


def _receipt(files: Files, name: str) -> dict[str, object] | None:
    if not files.exists(f"{name}.json"):
        return None
    try:
        value = json.loads(files.read(f"{name}.json"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(path: Path, before: str | None, after: str) -> None:
    """Write a file whole or not at all, behind its links, with the mode it had; raises SettingsError when it changed meanwhile."""
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(real.stat().st_mode) if before is not None else 0o600
        temporary = real.with_name(f".{real.name}.{token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(after.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            if read(path) != before:
                raise SettingsError(f"{path} changed while it was edited", hint="run the command again", path=str(path))
            temporary.replace(real)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}", hint="check its permissions", path=str(path)) from error
