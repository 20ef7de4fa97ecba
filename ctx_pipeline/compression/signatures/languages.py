"""The language of a file, by its name."""

from __future__ import annotations

_EXTENSIONS = {
    "bash": "bash sh zsh",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "csv": "csv",
    "dart": "dart",
    "elixir": "ex exs",
    "go": "go",
    "haskell": "hs",
    "java": "java",
    "javascript": "cjs js jsx mjs",
    "json": "json",
    "jsonl": "jsonl ndjson",
    "kotlin": "kt kts",
    "lua": "lua",
    "markdown": "markdown md mdx",
    "php": "php",
    "python": "py pyi pyw",
    "ruby": "rake rb",
    "rust": "rs",
    "scala": "sc scala",
    "solidity": "sol",
    "swift": "swift",
    "tsv": "tsv",
    "tsx": "tsx",
    "typescript": "cts mts ts",
    "yaml": "yaml yml",
    "zig": "zig",
}
_BY_EXTENSION = {extension: language for language, extensions in _EXTENSIONS.items() for extension in extensions.split()}
_BY_NAME = {"gemfile": "ruby", "rakefile": "ruby", ".bashrc": "bash", ".bash_profile": "bash", ".zshrc": "bash"}
_PROGRAMS = {"bash": "bash", "sh": "bash", "zsh": "bash", "python": "python", "python3": "python", "ruby": "ruby", "node": "javascript"}

DATA = frozenset({"csv", "json", "jsonl", "markdown", "tsv", "yaml"})
"""Formats of data and prose: they have no signatures, and rules of their own."""

CODE = tuple(sorted(set(_EXTENSIONS) - DATA))
"""Languages whose signatures are drawn."""


def language_of(name: str, text: str = "") -> str | None:
    """Return the language of a file by the end of its name, else by the program that its first line names; None for another."""
    last = name.replace("\\", "/").rpartition("/")[2].lower()
    known = _BY_NAME.get(last) or _BY_EXTENSION.get(last.rpartition(".")[2] if "." in last else "")
    if known or not text.startswith("#!"):
        return known
    words = text[2:200].partition("\n")[0].replace("/", " ").split()
    return next((_PROGRAMS[word] for word in words if word in _PROGRAMS), None)
