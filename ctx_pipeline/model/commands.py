"""What a recorded shell command runs: its steps, its programs, and whether it checks the work."""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 4000
_TOKEN = re.compile(
    r"""(?P<space>[^\S\n]+)|(?P<break>&&|\|\||;;|[;\n|&])|(?P<redirect>\d*>{1,2}(?:&\d)?|<{1,3})|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\;|&<>])+)|."""
)
_ENV = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "fish", "pwsh"})
_PREFIXES = frozenset({"sudo", "time", "nohup", "env", "command", "exec", "nice", "stdbuf", "xvfb-run", "timeout", "doas"})
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "rye", "hatch", "pdm", "pixi", "bundle", "dotenv"})
_NODE_RUNNERS = frozenset({"npx", "bunx", "pnpx"})
_PACKAGES = frozenset({"npm", "pnpm", "yarn", "bun"})
_SUBCOMMAND = frozenset(
    {"go", "cargo", "git", "gh", "docker", "dotnet", "swift", "mix", "deno", "kubectl", "terraform", "bazel", "uv", "poetry", "pip", "pip3"}
    | {
        "apt",
        "apt-get",
        "brew",
        "conda",
        "gem",
        "composer",
        "helm",
        "aws",
        "gcloud",
        "flutter",
        "dart",
        "zig",
        "stack",
        "cabal",
        "turbo",
        "nx",
    }
)
_TARGETS = frozenset({"make", "just", "mise", "task", "rake", "gradle", "gradlew", "mvn", "mvnw", "ninja", "invoke", "nox", "tox"})
_TEST = frozenset(
    {
        "pytest",
        "py.test",
        "unittest",
        "tox",
        "nox",
        "jest",
        "vitest",
        "mocha",
        "ava",
        "rspec",
        "phpunit",
        "ctest",
        "nextest",
        "playwright",
        "bats",
    }
)
_LINT = frozenset(
    {
        "ruff",
        "flake8",
        "pylint",
        "eslint",
        "biome",
        "golangci-lint",
        "shellcheck",
        "clippy",
        "prettier",
        "black",
        "pre-commit",
        "rubocop",
        "stylelint",
    }
    | {"hadolint", "vet", "isort", "oxlint", "ktlint", "swiftlint", "markdownlint", "actionlint", "lint-imports", "gofmt"}
)
_TYPES = frozenset({"mypy", "pyright", "basedpyright", "ty", "tsc", "pyre", "vue-tsc", "typecheck", "type-check"})
_BUILD = frozenset(
    {
        "make",
        "cmake",
        "ninja",
        "build",
        "compile",
        "package",
        "xcodebuild",
        "webpack",
        "vite",
        "rollup",
        "esbuild",
        "bazel",
        "javac",
        "gcc",
        "g++",
        "clang",
        "rustc",
    }
)
_INSTALL = frozenset({"install", "sync", "add", "ci", "update", "upgrade", "download", "tidy", "i", "ensurepath", "restore"})
_SCRIPT = re.compile(r"\s{0,8}(?:(?:const|let|var)\s|await\s|text\(|for\s?\(|//)")
_EXEC = re.compile(r"""tools\.exec_command\(\s*\{\s*"?cmd"?\s*:\s*("(?:[^"\\]|\\.)*")""")
_INTERPRETERS = re.compile(r"(?:python[\d.]*|node|ruby|perl|php|tsx|ts-node|deno|Rscript|java|lua)$")


class Step(NamedTuple):
    """One program of a command line."""

    subject: str
    """Program with its subcommand or target: ``go test``, ``pytest``, ``npm run build``."""
    purpose: str
    """test, lint, types, build, install, run or other"""
    text: str
    """The step as typed, wrappers included."""

    words: tuple[str, ...] = ()
    """Program and arguments, unquoted, without wrappers, assignments and redirections."""


class Piece(NamedTuple):
    """One simple command of a line, also those that are no program of interest (``cd``, ``echo``)."""

    words: tuple[str, ...]
    """Words unquoted, wrappers and assignments included."""
    writes: tuple[str, ...]
    """Files that its output is redirected to."""
    text: str


def command_text(argv: Sequence[str]) -> str:
    """Return the command line of a recorded argv, without a shell's ``-c`` around it; empty for a script that runs none."""
    if not argv:
        return ""
    words = list(argv)
    if _SCRIPT.match(words[0]) and ("tools." in words[0] or "ALL_TOOLS" in words[0]):
        return _scripted(words[0])
    if len(words) >= 3 and _name(words[0]) in _SHELLS and re.fullmatch(r"-[a-z]*c", words[1]):
        return words[2].strip()
    if len(words) > 1:
        return shlex.join(words)
    text = words[0].strip()
    wrapped = re.match(r"(?:/usr)?(?:/bin/)?(?:bash|sh|zsh) -l?c (['\"])(.*)\1$", text, re.DOTALL)
    return wrapped.group(2).strip() if wrapped else text


def _scripted(script: str) -> str:
    """Return the commands that a script of tool calls runs, a line each.

    Since codex-cli 0.140 a model may write ``tools.exec_command({cmd: "..."})`` in
    JavaScript instead of calling the tool.
    """
    lines = []
    for quoted in _EXEC.findall(script[: 4 * _LONGEST]):
        try:
            lines.append(json.loads(quoted))
        except ValueError:
            continue
    return "\n".join(lines)


@lru_cache(maxsize=8192)
def pieces(command: str) -> tuple[Piece, ...]:
    """Return the simple commands of a command line in order; here-documents and what follows them are left out."""
    command = command[:_LONGEST].partition("<<")[0]
    found: list[Piece] = []
    words: list[str] = []
    writes: list[str] = []
    first = 0
    redirect = ""

    def end(last: int) -> None:
        if words or writes:
            found.append(Piece(tuple(words), tuple(writes), " ".join(command[first:last].split())))

    for match in _TOKEN.finditer(command):
        kind = match.lastgroup
        if kind == "break":
            end(match.start())
            words, writes, first, redirect = [], [], match.end(), ""
        elif kind == "redirect":
            redirect = "" if match.group().endswith(("&1", "&2")) else match.group()
        elif kind == "word":
            word = match.group().strip("'\"")
            if not redirect:
                words.append(word)
            elif ">" in redirect:
                writes.append(word)
            redirect = ""
    end(len(command))
    return tuple(found)


@lru_cache(maxsize=8192)
def steps(command: str) -> tuple[Step, ...]:
    """Return the programs of a command line in order; here-documents and what follows them are left out."""
    found: list[Step] = []
    for piece in pieces(command):
        _add(found, list(piece.words), piece.text)
    return tuple(found)


def _add(found: list[Step], words: list[str], text: str) -> None:
    core = _unwrap(words)
    if not core or _name(core[0]) in (
        "cd",
        "pushd",
        "popd",
        "export",
        "set",
        "source",
        ".",
        "echo",
        "true",
        "sleep",
        "then",
        "do",
        "if",
        "fi",
        "done",
    ):
        return
    subject = _subject(core)
    found.append(Step(subject, _purpose(subject, core), text, tuple(core)))


def _name(word: str) -> str:
    return word.rpartition("/")[2] if not word.startswith("./") else word


def _unwrap(words: list[str]) -> list[str]:
    """Take off environment assignments and wrappers such as ``sudo``, ``timeout 60`` and ``uv run``."""
    while words:
        name = _name(words[0])
        if _ENV.fullmatch(words[0]) or words[0] in "({!":
            words = words[1:]
        elif name in _PREFIXES:
            words = words[1:]
            while words and (words[0].startswith("-") or (name == "timeout" and re.fullmatch(r"[\d.]+[smh]?", words[0]))):
                words = words[1:]
        elif name in _RUNNERS and len(words) > 2 and words[1] in ("run", "exec", "tool"):
            words = words[2:]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in ("--with", "-p", "--python", "--extra", "--group") else words[1:]
        elif name in _NODE_RUNNERS and len(words) > 1:
            words = [w for w in words[1:] if w not in ("-y", "--yes", "--no-install")]
        elif (name in _PACKAGES and len(words) > 2 and words[1] in ("exec", "dlx", "x")) or (
            _INTERPRETERS.match(name) and len(words) > 2 and words[1] == "-m"
        ):
            words = words[2:]
        else:
            return words
    return words


def _subject(words: list[str]) -> str:
    name = _name(words[0])
    plain = [w for w in words[1:] if not w.startswith("-") and not _ENV.fullmatch(w)]
    if name in _PACKAGES and plain:
        return f"{name} run {plain[1]}" if plain[0] in ("run", "run-script") and len(plain) > 1 else f"{name} {plain[0]}"
    if name in _TARGETS:
        target = [w for w in plain if w != "run" and re.fullmatch(r"[\w:.-]+", w)]
        return f"{name} {target[0]}" if target and not target[0].endswith(".py") else name
    if name in _SUBCOMMAND and plain:
        return f"{name} {plain[0]}"
    if _INTERPRETERS.match(name) or name in _SHELLS:
        return f"{name} {plain[0]}" if plain and "-c" not in words[1:2] and "-e" not in words[1:2] else name
    return name


def _purpose(subject: str, words: list[str]) -> str:
    parts = set(re.split(r"[ :]", subject))
    head = subject.partition(" ")[0]
    last = subject.rpartition(" ")[2].partition(":")[0]
    if parts & _TEST or (" " in subject and last in ("test", "tests", "spec", "check", "verify") and head not in ("git", "gh")):
        return "types" if last == "check" and head == "cargo" else "test"
    if parts & _TYPES:
        return "types"
    if parts & _LINT or (head != "git" and last in ("lint", "fmt", "format", "eslint")):
        return "lint"
    if head in (
        "pip",
        "pip3",
        *_PACKAGES,
        "uv",
        "poetry",
        "apt",
        "apt-get",
        "brew",
        "gem",
        "conda",
        "go",
        "cargo",
        "composer",
        "mix",
        "dotnet",
        "bundle",
    ):
        if last in _INSTALL or (head == "uv" and words[1:3] == ["pip", "install"]):
            return "install"
        if last in ("run", "start", "dev"):
            return "run"
    if parts & _BUILD:
        return "build"
    if _INTERPRETERS.match(head) or head in _SHELLS or head.startswith("./") or head.endswith((".sh", ".py")):
        return "run"
    return "other"


def found_nothing(argv: Sequence[str], exit_status: int | None) -> bool:
    """Tell whether an exit status of 1 only says that a search or comparison came out negative.

    grep, rg, diff, cmp, test and pgrep answer "no" with 1 (POSIX); 2 and above are errors.
    """
    if exit_status != 1:
        return False
    found = steps(command_text(argv))
    return (bool(found) and found[-1].subject.partition(" ")[0] in _ANSWERS) or _quiet_git(found)


_ANSWERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "[[", "pgrep", "which", "type", "git-grep"})


def _quiet_git(found: Sequence[Step]) -> bool:
    return bool(found) and found[-1].subject in ("git grep", "git diff")
