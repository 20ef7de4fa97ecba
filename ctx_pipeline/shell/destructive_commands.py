"""Shell commands that destroy, and paths outside a project."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from ctx_pipeline import discovery
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.parsing import pieces

_REBUILT = re.compile(
    r"(?:^|/)(?:node_modules|dist|build|out|target|coverage|htmlcov|__pycache__|\.(?:venv|tox|nox|next|nuxt|turbo|cache|gradle)|venv|vendor"
    r"|\.\w{1,20}_cache|tmp|temp|\.eggs|[\w.*-]{1,60}\.egg-info|test-results|playwright-report)(?:/|$)"
)
_MADE = re.compile(r"^(?:\*?\.(?:py[co]|o|obj|class|log|tmp|bak|orig|rej|swp|DS_Store)|\*~)$")
"""Names of files that tools leave behind."""
_TEMPORARY = re.compile(r"^(?:/private)?/(?:tmp|var/folders|var/tmp)(?:/|$)|^/dev/|^\$\{?(?:TMPDIR|tmp\w{0,20})\b", re.IGNORECASE)
SQL = re.compile(
    r"\b(?:drop\s{1,8}(?:table|database|schema)|truncate\s{1,8}(?:table\s{1,8})?\w|delete\s{1,8}from\s{1,8}[\w.\"]{1,80}\s{0,8}(?:;|$|[\"']))",
    re.IGNORECASE,
)
SQL_CLIENTS = frozenset({"psql", "mysql", "mariadb", "sqlite3", "duckdb", "clickhouse-client", "sqlcmd", "mongosh"})
_PIPED = re.compile(r"\b(?:curl|wget)\b[^|;&\n]{1,400}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da)?sh\b")
_WHOLE = frozenset({".", "./", "..", "../", "*", "./*", "~", "~/", "/", "/*", ".git", ".git/", "$HOME", "${HOME}", "$HOME/*"})
_READ = 4000


@lru_cache(maxsize=8192)
def destroys(command: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return what a command line destroys, each kind once: files, history, branch, remote, disk, rights, data, service, remote-code.

    Removing what a build makes anew (``node_modules``, ``dist``, ``target``, caches) and
    temporary files destroys nothing.
    """
    command = command[:_READ]
    found: dict[str, None] = {}
    if _PIPED.search(command):
        found["remote-code"] = None
    for step in steps(command):
        kind = _kind(step.words, step.subject, cwd)
        if kind:
            found[kind] = None
    for piece in pieces(command):
        if any(re.match(r"/dev/(?:sd|nvme|disk|hd)", name) for name in piece.writes):
            found["disk"] = None
    return tuple(found)


def _kind(words: tuple[str, ...], subject: str, cwd: str | None) -> str:
    program = subject.partition(" ")[0]
    options = [w for w in words[1:] if w.startswith("-")]
    plain = [w for w in words[1:] if not w.startswith("-")]
    short = "".join(o[1:] for o in options if not o.startswith("--"))
    if program == "rm":
        recursive = "r" in short.lower() or "--recursive" in options
        return "files" if recursive and (any(_matters(p, cwd) for p in plain) or not plain) else ""
    if program == "git":
        return _git(plain, options, short)
    if program == "find":
        removes = "-delete" in words or (("-exec" in words or "-execdir" in words) and "rm" in words)
        return "files" if removes and not _finds_rubbish(words) else ""
    if program in ("mkfs", "shred", "wipefs", "fdisk") or program.startswith("mkfs."):
        return "disk"
    if program == "dd":
        return "disk" if any(w.startswith("of=/dev/") and not w.startswith("of=/dev/null") for w in words) else ""
    if program in ("chmod", "chown"):
        return "rights" if "R" in short and ("777" in plain or any(p in _WHOLE for p in plain)) else ""
    if program in SQL_CLIENTS:
        return "data" if any(SQL.search(w) for w in words[1:]) else ""
    return _service(program, plain, options)


def _finds_rubbish(words: tuple[str, ...]) -> bool:
    """Tell whether all that a ``find`` looks for is what tools leave behind or a build makes anew, or stands in a temporary place."""
    names = [words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-name", "-iname", "-path")]
    if names:
        return all(_MADE.match(name) or _REBUILT.search(name) for name in names)
    return len(words) > 1 and bool(_TEMPORARY.match(words[1]) or _REBUILT.search(words[1]))


def _git(plain: list[str], options: list[str], short: str) -> str:
    verb, rest = (plain[0] if plain else ""), plain[1:]
    if verb == "reset" and "--hard" in options:
        return "history"
    if verb == "clean" and "f" in short and "n" not in short:
        return "files"
    if verb in ("checkout", "restore") and ("." in rest or "*" in rest) and "--staged" not in options:
        return "files"
    if verb == "push" and ("f" in short or any(o.startswith("--force") for o in options) or any(r.startswith("+") for r in rest)):
        return "remote"
    if verb == "push" and ("--delete" in options or "d" in short.replace("dry-run", "") or any(r.startswith(":") for r in rest)):
        return "remote"
    if verb == "branch" and "D" in short:
        return "branch"
    if verb == "stash" and rest[:1] in (["drop"], ["clear"]):
        return "history"
    if verb in ("filter-branch", "filter-repo") or (verb == "reflog" and rest[:1] == ["expire"]):
        return "history"
    return ""


_SERVICES = {
    ("terraform", "destroy"), ("tofu", "destroy"), ("pulumi", "destroy"), ("kubectl", "delete"), ("helm", "uninstall"), ("helm", "delete"),
    ("docker", "system prune"), ("docker", "volume rm"), ("docker", "volume prune"), ("gh", "repo delete"), ("gh", "release delete"),
    ("aws", "s3 rb"), ("heroku", "apps:destroy"), ("fly", "apps destroy"), ("vercel", "remove"), ("npm", "unpublish"),
    ("dropdb", ""), ("redis-cli", "flushall"), ("redis-cli", "FLUSHALL"),
}  # fmt: skip


def _service(program: str, plain: list[str], options: list[str]) -> str:
    if program == "aws" and plain[:2] == ["s3", "rm"]:
        return "service" if "--recursive" in options else ""
    if program == "docker-compose" or (program == "docker" and plain[:1] == ["compose"]):
        return "data" if "down" in plain and ("-v" in options or "--volumes" in options) else ""
    for count in (0, 1, 2):
        if (program, " ".join(plain[:count])) in _SERVICES:
            return "service"
    return ""


def _matters(path: str, cwd: str | None) -> bool:
    """Tell whether removing a path recursively loses work: all of it, what stands outside the project, or what no build makes anew."""
    if path in _WHOLE:
        return True
    if _TEMPORARY.match(path) or _REBUILT.search(path):
        return False
    return not path.startswith("-") and (is_outside(path, cwd) or "*" in path or _deep(path))


def _deep(path: str) -> bool:
    return bool(path.strip("./"))


def is_outside(path: str, cwd: str | None) -> bool:
    """Tell whether a path leads out of a project; temporary files and the agent's own notes belong to no project and are not out."""
    if not cwd or _TEMPORARY.match(path) or discovery.project_folder_pattern("files.state_folders").search(path):
        return False
    if re.match(r"[A-Za-z]:[\\/]", path) or re.match(r"[A-Za-z]:[\\/]", cwd):
        return not path.replace("\\", "/").lower().startswith(f"{cwd.replace(chr(92), '/').lower().rstrip('/')}/")
    if path.startswith("~"):
        home = re.match(r"/(?:home|Users)/[^/]+", cwd)
        if not home:
            return True
        path = home.group() + path[1:]
    whole = posixpath.normpath(posixpath.join(cwd, path))
    root = posixpath.normpath(cwd)
    return whole != root and not whole.startswith(f"{root.rstrip('/')}/")
