"""Whether what formatted files before may be told at a failure that finds others not formatted: for its folder and kind of files alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.memory.scope import below, place_of
from ctx_pipeline.mining.lessons.commands import formats
from ctx_pipeline.mining.lessons.failures import UNFORMATTED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

_PYTHON, _RUST, _GO = frozenset({"py", "pyi", "ipynb"}), frozenset({"rs"}), frozenset({"go"})
_WEB = frozenset(
    {"js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "json", "jsonc", "css", "scss", "less", "html", "vue", "svelte", "astro"}
    | {"md", "mdx", "yaml", "yml", "graphql"}
)
_FILES = {
    **dict.fromkeys(("black", "ruff"), _PYTHON),
    **dict.fromkeys(("cargo", "rustfmt"), _RUST),
    **dict.fromkeys(("go", "gofmt", "gofumpt"), _GO),
    **dict.fromkeys(("prettier", "biome", "deno"), _WEB),
    "mix": frozenset({"ex", "exs", "eex", "heex"}),
    "dart": frozenset({"dart"}),
    "terraform": frozenset({"tf", "tfvars"}),
    "zig": frozenset({"zig", "zon"}),
}
"""Formatter, or the program that has one as its subcommand -> how the names of the files end that it rewrites."""
_KNOWN = frozenset[str]().union(*_FILES.values())

_FILE = lazy_pattern(r"[\w\])][\w\])-]*\.([a-z]{1,7})(?![\w.])")
_WORD = lazy_pattern(r"[\w.@/-]+")
_IN_FOLDER = lazy_pattern(
    r"(?:^|[;&|(]\s*)cd\s+(?P<entered>[^\s;&|]+)"
    r"|\s(?:--(?:cd|directory|prefix|cwd|dir|manifest-path|filter|workspace|project|package)[ =]|-C\s?)(?P<chosen>[^\s;&|]+)"
)
_OF_FOLDER = lazy_pattern(r"(?i)in `")


def formats_project(memory: Memory, command: str, output: str, cwd: str | None) -> bool:
    """Tell whether a memory says what formats the project in which a command found files of that kind not formatted."""
    if memory.kind != "repo_convention" or _OF_FOLDER.match(memory.text) or _of_another_folder(memory, cwd):
        return False
    return any(formats(known) and _fits(known, command, output, cwd) for known in map(str, memory.body.get("commands", ())))


def formatted_others(memory: Memory, command: str, output: str, cwd: str | None) -> bool:
    """Tell whether what ended a failure on formatting was about files or a folder of its own."""
    if memory.body.get("signature") != UNFORMATTED:
        return False
    if _of_another_folder(memory, cwd):
        return True
    did = [str(one) for one in memory.body.get("did", ())]
    files = {word for one in did for word in _WORD.findall(one) if _FILE.search(word)}
    return any(file not in f"{command}\n{output}" for file in files) or not all(_fits(one, command, output, cwd) for one in did)


def _fits(known: str, command: str, output: str, cwd: str | None) -> bool:
    folders = [(found["entered"] or found["chosen"]).strip("'\"").rstrip("/") for found in _IN_FOLDER.finditer(known)]
    if any(folder not in _WORD.findall(command) and not f"{cwd}".endswith(f"/{folder}") for folder in folders):
        return False
    rewrites = [_FILES[word] for word in _WORD.findall(known) if word in _FILES]
    unformatted = _KNOWN.intersection(_FILE.findall(output))
    return not (rewrites and unformatted) or any(unformatted & kinds for kinds in rewrites)


def _of_another_folder(memory: Memory, cwd: str | None) -> bool:
    """Tell whether a memory is of sessions that began in a folder of this checkout that does not hold a folder."""
    if not (memory.cwd and cwd) or below(cwd, memory.cwd):
        return False
    return any(memory.cwd != root and below(memory.cwd, root) for root in place_of(cwd).roots)
