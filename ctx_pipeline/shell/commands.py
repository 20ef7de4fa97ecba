"""What a recorded shell command runs: its steps, its programs, and whether it checks the work."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.parsing import Piece, pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_LONGEST = 4000
_LIST = lazy_pattern(r"""\[\s*"(?:[^"\\]|\\.)*"(?:\s*,\s*"(?:[^"\\]|\\.)*")*(?:\s*,)?\s*\]""")
"""A list of strings in a program."""
_ENV = lazy_pattern(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "fish", "pwsh"})
_PREFIXES = {
    "sudo": ("-u", "-g", "-h", "-p", "-C", "-T", "-D"),
    "doas": ("-u", "-C"),
    "env": ("-u", "-C"),
    "nice": ("-n",),
    "timeout": ("-k", "-s"),
    "time": ("-f", "-o"),
    "exec": ("-a",),
    "xvfb-run": ("-s", "-n", "-e"),
    "xargs": ("-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E"),
    "nohup": (),
    "command": (),
    "stdbuf": ("-i", "-o", "-e"),
}
"""Program that runs the command behind it -> its options whose value is the next word."""
_GLOBAL = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace"),
    "gh": ("-R", "--repo"),
    "npm": ("--prefix", "-w", "--workspace", "-C"),
    "pnpm": ("--filter", "-F", "-C", "--dir"),
    "yarn": ("--cwd",),
    "bun": ("--cwd", "--filter"),
    "make": ("-C", "-f", "--directory", "--file", "-I"),
    "ninja": ("-C", "-f"),
    "just": ("-f", "-d", "--justfile", "--working-directory"),
    "go": ("-C",),
    "cargo": ("--manifest-path", "--color", "-Z", "-C"),
    "mvn": ("-f", "--file", "-pl", "--projects", "-P", "-s"),
    "gradle": ("-p", "--project-dir", "-b", "-c", "-I"),
    "docker": ("--context", "-H", "--host", "-c"),
    "kubectl": ("-n", "--namespace", "--context", "--kubeconfig"),
    "helm": ("-n", "--namespace", "--kube-context"),
    "uv": ("--directory", "--project"),
    "poetry": ("-C", "--directory", "-P"),
    "aws": ("--profile", "--region"),
    "python": ("-W", "-X"),
}
"""Program -> its options before the subcommand whose value is the next word."""
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "rye", "hatch", "pdm", "pixi", "bundle", "dotenv"})
_RUN_VALUED = frozenset({"--with", "--from", "-p", "--python", "--extra", "--group", "--directory", "--project", "--package"})
_NODE_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})
_PACKAGES = frozenset({"npm", "pnpm", "yarn", "bun"})
_SUBCOMMAND = frozenset(
    {"go", "cargo", "git", "gh", "docker", "dotnet", "swift", "mix", "deno", "kubectl", "terraform", "bazel", "uv", "poetry", "pip", "pip3"}
    | {"rails", "hatch", "sbt", "lein", "next"}
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
    | {
        "knip",
        "hadolint",
        "vet",
        "isort",
        "oxlint",
        "ktlint",
        "swiftlint",
        "markdownlint",
        "actionlint",
        "lint-imports",
        "gofmt",
        "py_compile",
        "pip-audit",
        "govulncheck",
        "osv-scanner",
        "bandit",
        "semgrep",
        "yamllint",
        "zizmor",
    }
)
_NO_JOBS = frozenset({"--list", "--graph", "--dryrun", "--help", "--version", "bug-report"})
_OF_DEPENDENCIES = frozenset(
    {
        "cargo deny",
        "cargo-deny",
        "cargo-audit",
        "cargo audit",
        "cargo machete",
        "cargo udeps",
        "npm audit",
        "pnpm audit",
        "yarn audit",
        "bun audit",
    }
)
"""Programs that check what a project depends on."""
_CHECKS_NOTHING = {
    "pre-commit": frozenset({"install", "install-hooks", "uninstall", "autoupdate", "clean", "gc", "init-templatedir", "sample-config"}),
    "playwright": frozenset({"install", "install-deps", "uninstall", "codegen", "open", "show-report", "show-trace"}),
    "ruff": frozenset({"rule", "config", "linter", "clean", "server", "version"}),
    "biome": frozenset({"init", "migrate", "start", "stop", "explain", "rage", "version", "lsp-proxy"}),
    "golangci-lint": frozenset({"linters", "formatters", "cache", "config", "help", "version", "migrate"}),
    "vitest": frozenset({"list", "init"}),
}
"""Program -> its subcommands that run no check (their manuals)."""
_COMPILERS = frozenset({"rustc", "gcc", "g++", "clang", "javac", "cmake"})
_OF_ITSELF = frozenset({"--version", "-version", "-V", "-vV", "-Vv", "-v", "--help", "-help", "-dumpversion", "-dumpmachine"})
"""Arguments with which a compiler that is given nothing else tells of itself."""
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
_SCRIPT = lazy_pattern(r"\s{0,8}(?:(?:const|let|var)\s|await\s|text\(|for\s?\(|//|(?:ALL_TOOLS|tools)\.)")
_INTERPRETERS = lazy_pattern(r"(?:python[\d.]*|node|ruby|perl|php|tsx|ts-node|deno|Rscript|java|lua)$")


class Step(NamedTuple):
    """One program of a command line."""

    subject: str
    """Program with its subcommand or target: ``go test``, ``pytest``, ``npm run build``."""
    purpose: str
    """test, lint, types, build, check (a script of that name), install, run or other"""
    text: str
    """The step as typed, wrappers included, without a ``2>&1`` at its end: what it prints where changes nothing of it."""

    words: tuple[str, ...] = ()
    """Program and arguments, unquoted, without wrappers, assignments and redirections."""


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
    """Return the commands that a script of tool calls runs, a line each, by what its host declares."""
    from ctx_pipeline import discovery

    lines = []
    for quoted in discovery.declared_pattern("shell.embedded").findall(script[: 4 * _LONGEST]):
        try:
            lines.append(json.loads(quoted))
        except ValueError:
            continue
    if not lines and (variable := discovery.declared_pattern("shell.listed").search(script[: 4 * _LONGEST])):
        lists = list(_lists(script[: 4 * _LONGEST]))
        lines = [" ".join(words) for words in lists if len(words) > 1] if variable[1] else lists[0] if len(lists) == 1 else []
    return "\n".join(lines)


def _lists(script: str) -> Iterator[list[str]]:
    """Yield the lists of a program that hold strings alone, in order."""
    for found in _LIST.finditer(script):
        with suppress(ValueError):
            yield json.loads(re.sub(r",\s*\]\Z", "]", found[0]))


@lru_cache(maxsize=8192)
def steps(command: str) -> tuple[Step, ...]:
    """Return the programs of a command line in order, those in a shell's ``-c`` too; see :func:`pieces`."""
    return tuple(step for _, members in steps_by_piece(command) for step in members)


@lru_cache(maxsize=8192)
def steps_by_piece(command: str) -> tuple[tuple[Piece, tuple[Step, ...]], ...]:
    """Return each simple command of a line with its programs: none for ``cd`` and the like, several in a shell's ``-c``."""
    found = []
    for piece in pieces(command):
        members: list[Step] = []
        _add(members, list(piece.words), piece.text)
        found.append((piece, tuple(members)))
    return tuple(found)


_NO_PROGRAMS = frozenset(
    {"cd", "pushd", "popd", "export", "set", "source", ".", "echo", "true", "sleep", "fi", "done", "esac"}
    | {"continue", "break", "exit", "return", "shift", "wait", "local"}
)


def _add(found: list[Step], words: list[str], text: str) -> None:
    core = _trimmed(_unwrap(words))
    name = _name(core[0]) if core else ""
    if not name or name in _NO_PROGRAMS:
        return
    if name in _SHELLS and len(core) > 2 and re.fullmatch(r"-[a-z]*c", core[1]) and len(core[2]) < len(text):
        found.extend(steps(core[2]))
        return
    subject = _subject(core)
    found.append(Step(subject, _purpose(subject, core), text.removesuffix(" 2>&1"), tuple(core)))


def _name(word: str) -> str:
    if word.startswith("./"):
        return word[2:] if word[2:] in _TARGETS else word
    return word.rpartition("/")[2]


def _unwrap(words: list[str]) -> list[str]:
    """Take off environment assignments and wrappers such as ``sudo``, ``timeout 60``, ``xargs`` and ``uv run``."""
    while words:
        name = _name(words[0])
        if _ENV.fullmatch(words[0]):
            words = words[1:]
        elif name == "command" and words[1:2] in (["-v"], ["-V"]):
            return words
        elif name in _PREFIXES:
            words = _behind_options(words, _PREFIXES[name])
            if name == "timeout" and words and re.fullmatch(r"[\d.]+[smhd]?", words[0]):
                words = words[1:]
        elif name in _RUNNERS and len(words) > 2 and words[1] in ("run", "exec", "tool"):
            words = _behind_options(words[2:] if words[1:3] == ["tool", "run"] else words[1:], _RUN_VALUED)
        elif name == "rustup" and words[1:2] == ["run"] and len(words) > 3:
            words = words[3:]
        elif name in _NODE_RUNNERS and len(words) > 1:
            words = _behind_options(words, _RUN_VALUED)
        elif name in ("mise", "direnv") and words[1:2] in (["x"], ["exec"]) and "--" in words:
            words = words[words.index("--") + 1 :]
        elif name in _PACKAGES and len(words) > 2 and words[1] in ("exec", "dlx", "x"):
            words = _behind_options(words[1:], ())
        elif name == "yarn" and words[1:2] == ["workspace"] and len(words) > 3:
            words = ["yarn", *words[3:]]
        elif name == "coverage" and words[1:2] == ["run"] and "-m" in words[2:-1]:
            words = words[words.index("-m") + 1 :]
        elif _INTERPRETERS.match(name) and "-m" in words[1:-1]:
            rest = _behind_options(words, ("-W", "-X"), stop="-m")
            if rest[:1] != ["-m"]:
                return words
            words = rest[1:]
        else:
            return words
    return words


def _behind_options(words: list[str], valued: Collection[str], *, stop: str = "") -> list[str]:
    """Return the words behind the first one and its options; ``valued`` ones take the next word along."""
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] != stop:
        place += 2 if words[place] in valued else 1
    return words[place:]


def _trimmed(words: list[str]) -> list[str]:
    """Return a command without the options before its subcommand that take a value: ``git -C x push`` is ``git push``."""
    name = _name(words[0]) if words else ""
    valued = _GLOBAL.get({"mvnw": "mvn", "gradlew": "gradle"}.get(name, name))
    if not valued or len(words) < 3 or not words[1].startswith(("-", "+")):
        return words
    kept, place = words[:1], 1
    while place < len(words) and words[place].startswith(("-", "+")):
        if words[place] in valued:
            place += 2
            continue
        if not words[place].startswith("+"):
            kept.append(words[place])
        place += 1
    return kept + words[place:]


def _subject(words: list[str]) -> str:
    name = _name(words[0])
    plain = [w for w in words[1:] if not w.startswith("-") and not _ENV.fullmatch(w)]
    if name in _PACKAGES and plain:
        return f"{name} run {plain[1]}" if plain[0] in ("run", "run-script") and len(plain) > 1 else f"{name} {plain[0]}"
    if name == "act":
        named = [words[n + 1] for n, word in enumerate(words[:-1]) if re.fullmatch(r"--job|-[A-Za-z]*j", word)]
        named += [word.partition("=")[2] for word in words if word.startswith("--job=")]
        return f"{name} {named[0]}" if named else name
    if name in _TARGETS:
        target = [w for w in plain if w != "run" and not w.isdigit() and re.fullmatch(r"[\w:.-]+", w)]
        return f"{name} {target[0]}" if target and not target[0].endswith(".py") else name
    if name in _SUBCOMMAND and plain:
        return f"{name} {plain[0]}"
    if plain and (plain[0] == "artisan" or plain[0].endswith("manage.py")) and len(plain) > 1:
        return f"{plain[0].rpartition('/')[2]} {plain[1]}"
    if name.endswith("manage.py") and plain:
        return f"manage.py {plain[0]}"
    if _INTERPRETERS.match(name) or name in _SHELLS:
        return f"{name} {plain[0]}" if plain and "-c" not in words[1:2] and "-e" not in words[1:2] else name
    return name


def _purpose(subject: str, words: list[str]) -> str:
    parts = set(re.split(r"[ :]", subject))
    head = subject.partition(" ")[0]
    last = subject.rpartition(" ")[2]
    last = last.rpartition(":")[2] if last.startswith(":") else last.partition(":")[0]
    if head == "act":  # a job of GitHub's workflows, run here, is what a task of its name is
        return "other" if " " not in subject or _runs_no_job(words) else _purpose(f"just {last}", ["just", last])
    if words[1:] and words[1] in _CHECKS_NOTHING.get(head, ()):
        return "install" if words[1] in _INSTALL else "other"
    if head in _COMPILERS and set(words[1:]) <= _OF_ITSELF:
        return "other"
    if parts & _TEST or (" " in subject and last in ("test", "tests", "spec") and head not in ("git", "gh")):
        return "test"
    if " " in subject and last in ("check", "verify") and head not in ("git", "gh"):
        return "types" if last == "check" and head == "cargo" else "check"
    if parts & _TYPES:
        return "types"
    stem = re.split(r"[-_]", last)[0] if " " in subject else last
    if subject in _OF_DEPENDENCIES and "fix" not in words:
        return "lint"
    if parts & _LINT or (head != "git" and stem in ("lint", "fmt", "format", "eslint")):
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
    if parts & _BUILD and "-" not in words[1:]:  # what is compiled from the standard input is an attempt
        return "build"
    if (head in _SHELLS and words[1:2] == ["-n"]) or (head == "node" and words[1:2] in (["--check"], ["-c"])):
        return "lint"
    if _INTERPRETERS.match(head) or head in _SHELLS or head.startswith("./") or head.endswith((".sh", ".py")):
        return "run"
    return "other"


def _runs_no_job(words: list[str]) -> bool:
    """Tell whether act only lists jobs, or shows what it would do."""
    return bool(_NO_JOBS.intersection(words)) or any(re.fullmatch(r"-[A-Za-z]*[lgnh][A-Za-z]*", word) for word in words)


def found_nothing(argv: Sequence[str], exit_status: int | None) -> bool:
    """Tell whether an exit status only says that a search or comparison came out negative, or that what was asked for is not done yet.

    grep, rg, diff, cmp, test and pgrep answer "no" with 1 (POSIX); 2 and above are errors.
    Behind a check and ``&&`` the 1 may be the check's, and is a failure. ``gh pr checks``
    answers 8 while checks are pending (its manual).
    """
    if exit_status not in (1, 8):
        return False
    command = command_text(argv)
    found = steps(command)
    if exit_status == 8:
        return bool(found) and found[-1].words[:3] == ("gh", "pr", "checks")
    if "&&" in command and any(s.purpose in _CHECKS for s in found[:-1]):
        return False
    return (bool(found) and found[-1].subject.partition(" ")[0] in _ANSWERS) or _quiet_git(found)


_CHECKS = frozenset({"test", "lint", "types", "build", "check"})
_ANSWERS = frozenset(
    {"grep", "egrep", "fgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "[[", "pgrep", "which", "type", "command", "git-grep"}
)


def _quiet_git(found: Sequence[Step]) -> bool:
    return bool(found) and found[-1].subject in ("git grep", "git diff")
