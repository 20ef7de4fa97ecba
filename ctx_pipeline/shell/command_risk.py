"""What lessons tell the next session to run, and which of it changes what others share or cannot be undone."""

from __future__ import annotations

import json
import posixpath
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.parsing import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.memories import StoredCandidate


# Shell commands that destroy, and paths outside a project.


_REBUILT = lazy_pattern(
    r"(?:^|/)(?:node_modules|dist|build|out|target|coverage|htmlcov|__pycache__|\.(?:venv|tox|nox|next|nuxt|turbo|cache|gradle)|venv|vendor"
    r"|\.\w{1,20}_cache|tmp|temp|\.eggs|[\w.*-]{1,60}\.egg-info|test-results|playwright-report)(?:/|$)"
)
_MADE = lazy_pattern(r"^(?:\*?\.(?:py[co]|o|obj|class|log|tmp|bak|orig|rej|swp|DS_Store)|\*~)$")
"""Names of files that tools leave behind."""
_TEMPORARY = lazy_pattern(r"^(?:/private)?/(?:tmp|var/folders|var/tmp)(?:/|$)|^/dev/|^\$\{?(?:TMPDIR|tmp\w{0,20})\b", re.IGNORECASE)
SQL = lazy_pattern(
    r"\b(?:drop\s{1,8}(?:table|database|schema)|truncate\s{1,8}(?:table\s{1,8})?\w|delete\s{1,8}from\s{1,8}[\w.\"]{1,80}\s{0,8}(?:;|$|[\"']))",
    re.IGNORECASE,
)
SQL_CLIENTS = frozenset({"psql", "mysql", "mariadb", "sqlite3", "duckdb", "clickhouse-client", "sqlcmd", "mongosh"})
_PIPED = lazy_pattern(r"\b(?:curl|wget)\b[^|;&\n]{1,400}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da)?sh\b")
_WHOLE = frozenset({".", "./", "..", "../", "*", "./*", "~", "~/", "/", "/*", ".git", ".git/", "$HOME", "${HOME}", "$HOME/*"})
_READ = 4000
_AS_WRITTEN = lazy_pattern(r"[\w ./@:,+=~-]*")
"""A text in which a program's name stands as it is: without quotes, escapes, variables and redirections."""


@lru_cache(maxsize=8192)
def destroys(command: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return what a command line destroys, each kind once: files, history, branch, remote, disk, rights, data, service, remote-code.

    Removing what a build makes anew (``node_modules``, ``dist``, ``target``, caches) and
    temporary files destroys nothing.
    """
    command = command[:_READ]
    if _AS_WRITTEN.fullmatch(command) and not any(map(command.__contains__, _programs())):
        return ()
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


def removes(words: Sequence[str]) -> bool:
    """Tell whether a program removes a file that neither a build nor a tool makes anew, however few they are."""
    program, *rest = words
    if program.rpartition("/")[2] == "git" and rest[:1] == ["rm"] and "--cached" not in rest:
        rest = rest[1:]
    elif program.rpartition("/")[2] not in ("rm", "unlink", "trash"):
        return False
    plain = [w for w in rest if not w.startswith("-")]
    return any(not (_TEMPORARY.match(p) or _REBUILT.search(p) or _MADE.match(p.rpartition("/")[2])) for p in plain)


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


@cache
def _programs() -> frozenset[str]:
    """Return the programs of which one stands in every command line that destroys."""
    own = {"rm", "git", "find", "mkfs", "shred", "wipefs", "fdisk", "dd", "chmod", "chown", "docker-compose", "curl", "wget"}
    return SQL_CLIENTS | own | {program for program, _ in _SERVICES}


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
    if not cwd or _TEMPORARY.match(path):
        return False
    # what hosts declare is imported only where a path asks for it: a hook has no time for it
    from ctx_pipeline import discovery

    if discovery.project_folder_pattern("files.state_folders").search(path):
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


REASON = "risk_reason"
"""Name in a structured body of why the risk is high."""

_DRY = frozenset({"--dry-run", "--dry", "--check", "--help", "-h", "--version"})
_PUBLISHING = frozenset({"deploy", "publish", "release", "upload", "ship", "rollout", "promote", "destroy", "unpublish"})
"""Words of a task, script or subcommand that say that its end leaves the machine."""

_FIRST = frozenset({"build", "test", "check", "lint", "dry", "validate", "plan", "list", "view", "show", "get"})
_LAST = frozenset({"check", "dry", "notes", "status", "list", "plan", "build", "run"})
"""Words before, and behind, such a word that make it look only: ``build-release``, ``release:notes``."""

_TASKS = frozenset({"make", "just", "mise", "task", "rake", "gradle", "gradlew", "mvn", "mvnw", "invoke", "nox", "tox", "lein", "sbt"})
_PACKAGES = frozenset({"npm", "pnpm", "yarn", "bun"})
_PARTS = lazy_pattern(r"[-_:./]")

_OTHERS = frozenset({"cargo", "uv", "poetry", "hatch", "rm", "sudo", "curl", "wget", "gcloud"})
_VERBS: dict[str, frozenset[str]] = {
    "git": frozenset({"push", "send-email"}),
    "twine": frozenset({"upload"}),
    "gem": frozenset({"push", "yank"}),
    "dotnet": frozenset({"push"}),
    "docker": frozenset({"push", "stack", "swarm"}),
    "podman": frozenset({"push"}),
    "kubectl": frozenset(
        {"apply", "delete", "create", "replace", "patch", "edit", "scale", "drain", "cordon", "rollout", "set", "label", "annotate"}
    ),
    "oc": frozenset({"apply", "delete", "create", "replace", "patch"}),
    "helm": frozenset({"install", "upgrade", "uninstall", "delete", "rollback", "push"}),
    "terraform": frozenset({"apply", "destroy", "import", "taint", "untaint"}),
    "tofu": frozenset({"apply", "destroy", "import", "taint", "untaint"}),
    "terragrunt": frozenset({"apply", "destroy", "run-all"}),
    "pulumi": frozenset({"up", "destroy", "import", "cancel"}),
    "cdk": frozenset({"deploy", "destroy"}),
    "fly": frozenset({"deploy", "launch", "scale", "secrets"}),
    "flyctl": frozenset({"deploy", "launch", "scale", "secrets"}),
    "vercel": frozenset({"deploy", "promote", "rollback", "alias", "remove"}),
    "netlify": frozenset({"deploy"}),
    "prisma": frozenset({"reset"}),
    "goreleaser": frozenset({"release"}),
    "ansible-playbook": frozenset({""}),
    "semantic-release": frozenset({""}),
    "vsce": frozenset({"publish"}),
    "systemctl": frozenset({"start", "stop", "restart", "reload", "enable", "disable", "mask"}),
}
"""Program -> subcommands that change what others share; an empty one is the program itself."""

_PAIRS = {
    "gh": {
        "pr": frozenset({"merge", "create", "close", "reopen", "ready", "comment", "review", "edit"}),
        "issue": frozenset({"create", "close", "comment", "edit", "delete", "transfer"}),
        "release": frozenset({"create", "upload", "edit", "delete", "delete-asset"}),
        "repo": frozenset({"create", "delete", "archive", "rename", "edit", "sync"}),
        "secret": frozenset({"set", "delete"}),
        "variable": frozenset({"set", "delete"}),
        "workflow": frozenset({"run", "enable", "disable"}),
        "run": frozenset({"rerun", "cancel", "delete"}),
    },
    "glab": {
        "mr": frozenset({"merge", "create", "close"}),
        "release": frozenset({"create", "upload", "delete"}),
    },
    "aws": {"s3": frozenset({"cp", "sync", "mv", "rm", "rb"})},
    "docker": {
        **dict.fromkeys(("compose", "image", "manifest"), frozenset({"push"})),
        "buildx": frozenset({"--push"}),
    },
    "dotnet": {"nuget": frozenset({"push", "delete"})},
    "prisma": {"migrate": frozenset({"reset", "deploy"})},
}  # fmt: skip
"""Program -> group -> subcommands that change what others share."""

_RESETS = lazy_pattern(r"^(?:db:(?:drop|reset|purge)|flush|sqlflush|reset_db|migrate:(?:reset|fresh))\b|\bdropDatabase\(")
_REMOTE_CODE = lazy_pattern(
    r"(?:\b(?:ba|z|da)?sh\b|\bsource\b|\beval\b)[^\n]{0,20}(?:<\(|\$\(|`)\s{0,4}(?:curl|wget)\b|\b(?:iex|Invoke-Expression)\b"
)
_FOREIGN_INDEX = lazy_pattern(
    r"(?i)(?:--(?:(?:extra|default)-)?index(?:-url)?|--registry|--find-links|\bpip3?\s{1,4}install\b[^\n;&|]{0,200}\s-[if]"
    r"|\b(?:pip|uv)_(?:(?:extra|default)_)?index(?:_url)?|\bnpm_config_registry)[=\s]\s{0,4}[\"']?https?://"
    r"(?!(?:pypi\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|download\.pytorch\.org)(?:[/\s\"'`]|$))"
)
"""Packages are taken from an index that the command names: whoever chose the address chooses the code."""

_ROOT = lazy_pattern(r"(?:^|[;&|(\n]|\b(?:time|nohup|env|xargs))\s{0,8}(?:\w+=\S{0,80}\s{1,4}){0,4}(?:sudo|doas)\s+\S")
_SPAN = lazy_pattern(r"`([^`\n]{2,600})`")
_TOOLS = "|".join(sorted(map(re.escape, {*_VERBS, *_PAIRS, *_TASKS, *_PACKAGES, *SQL_CLIENTS, *_OTHERS})))
_BARE = lazy_pattern(rf"(?<![\w./-])(?:{_TOOLS})\s+\S[^\n]{{0,300}}")
_NOT = lazy_pattern(
    r"(?i)\b(?:never|do not|don'?t|not|avoid|without|instead of|in place of|rather than)(?:\s+(?:run|use|do|call|make|with))?\s*$"
)
_PROPOSED = ("steps", "did", "passed", "verification", "termination", "outcome", "preconditions", "commands", "narrowed")
_TELLS = ("procedure", "skill", "tool_lesson", "repo_convention", "user_preference")
"""Kinds whose text says what to do; the others quote what went wrong or was refused."""

_WENT_WRONG = lazy_pattern(r"(?i)\bfail(?:s|ed)?\b|\brefused\b")


@lru_cache(maxsize=8192)
def dangers(command: str) -> tuple[str, ...]:
    """Return what a command line does that others see or that cannot be undone, each kind once; empty for all else.

    ``publishes`` leaves the machine (push, publish, deploy, merge, a release, a service that is changed), ``rights``
    runs as root, and the kinds of :func:`destroys`; here any recursive removal counts,
    since what a build makes anew in one project is work in another. A dry run does nothing.
    """
    found: dict[str, None] = dict.fromkeys(destroys(command))
    if _REMOTE_CODE.search(command) or _FOREIGN_INDEX.search(command):
        found["remote-code"] = None
    if _ROOT.search(command):
        found["rights"] = None
    for step in steps(command):
        program = step.subject.partition(" ")[0]
        if program == "eval" and len(step.words) > 1 and len(said := " ".join(step.words[1:])) < len(command):
            found |= dict.fromkeys(dangers(said))
        short = "".join(w[1:] for w in step.words[1:] if re.fullmatch(r"-[A-Za-z]+", w))
        if program == "rm" and ("r" in short.lower() or "--recursive" in step.words):
            found["files"] = None
        if (program in SQL_CLIENTS and SQL.search(command)) or any(_RESETS.search(w) for w in step.words[1:]):
            found["data"] = None
        if step.purpose not in ("test", "lint", "types") and _publishes(program, step.words):
            found["publishes"] = None
    if SQL.match(command.lstrip()):
        found["data"] = None
    return tuple(found)


def _publishes(program: str, words: tuple[str, ...]) -> bool:
    options = {w for w in words[1:] if w.startswith("-")}
    plain = [w for w in words[1:] if not w.startswith("-")]
    if options & _DRY or (program == "git" and "-n" in options):
        return False
    first, second = (*plain, "", "")[:2]
    if program in _VERBS and (first in _VERBS[program] or "" in _VERBS[program]):
        return True
    if second in _PAIRS.get(program, {}).get(first, ()) or options & _PAIRS.get(program, {}).get(first, frozenset()):
        return True
    if program == "gh" and first == "api":
        return bool(re.search(r"(?:^| )(?:-X ?|--method[ =])(?!GET\b)\w|(?:^| )(?:-f|-F|--field|--raw-field|--input)\b", " ".join(words)))
    if program == "vercel":
        return not plain or "--prod" in options
    if program in _TASKS:
        return any(_leaves(w) for w in plain)
    if program in _PACKAGES and first in ("run", "run-script"):
        return _leaves(second)
    if program == "gcloud":
        return any(_leaves(w) for w in plain)
    if program in _PACKAGES:
        return _leaves(first) or (first in ("npm", "changeset", "nx", "turbo", "lerna") and _leaves(second))
    if program in _LOOKING:
        return False
    if program in ("ssh", "scp", "rsync"):
        return program == "ssh" or any(re.match(r"[\w.@-]{2,}:", w) for w in plain)
    if program in _SCRIPTS or program.startswith("python"):
        return _leaves(first) or bool(_SENDING & set(plain))
    if program not in _VERBS and program not in _PAIRS and _SENDING & set(plain[:3]):
        return True
    return _leaves(program) or (words[1:2] == (first,) and re.fullmatch(r"[a-z:-]{2,30}", first) is not None and _leaves(first))


_SCRIPTS = frozenset({"bash", "sh", "zsh", "node", "ruby", "perl"})
_SENDING = frozenset({"deploy", "publish", "upload", "promote", "unpublish"})
"""Words that say so wherever they stand: ``az webapp deploy``, ``turbo run deploy``."""

_FILES = frozenset(
    {"rm", "cat", "ls", "cd", "mkdir", "cp", "mv", "touch", "tree", "du", "tar", "zip", "unzip", "ln", "stat", "file", "chmod"}
)
_LOOKING = _FILES | {"git", "gh", "glab", "grep", "rg", "find", "head", "tail", "diff", "sed", "awk", "wc", "jq", "sort", "less", "vim"}
"""Programs whose words are names of files, or that are looked at elsewhere."""


def _leaves(name: str) -> bool:
    parts = [p for p in _PARTS.split(name.lower()) if p]
    return bool(_PUBLISHING & set(parts)) and parts[0] not in _FIRST and parts[-1] not in _LAST


def reason(kind: str, text: str, body: Mapping[str, Any]) -> str:
    """Return why a lesson is of high risk: the first command it proposes that publishes, destroys or moves shared state; else empty.

    Read are the steps and what else a body says to run, and the text of kinds that tell
    what to do. What is named to be avoided is not proposed.
    """
    for command in proposed(kind, text, body):
        found = dangers(command)
        if found:
            return f"proposes `{' '.join(command.split())[:120]}`: {', '.join(_MEANS.get(k, k) for k in found)}"
    told = [text[:4000]] if kind in _TELLS else []
    for said in (*told, *(member for name in _PROPOSED for member in _texts(body.get(name)))):
        for what, pattern in _IN_WORDS.items():
            for asked in pattern.finditer(said):
                if not _NOT_BEFORE.search(said[: asked.start()]):
                    return f"proposes “{' '.join(asked[0].split())[:120]}”: {_MEANS[what]}"
    return ""


def guarded(candidate: StoredCandidate) -> StoredCandidate:
    """Return a candidate as it is, or with a high risk and ``risk_reason`` in its body where it proposes what :func:`dangers` finds."""
    body = candidate.body
    why = reason(candidate.kind, candidate.text, body)
    if not why:
        return candidate
    return candidate._replace(risk="high", structured=json.dumps(body | {REASON: why}, ensure_ascii=False, sort_keys=True))


_IN_WORDS = {
    "remote-code": lazy_pattern(
        r"(?i)(?:https?://|\bcurl\b|\bwget\b)[^\n]{0,120}?(?:\|\s{0,3}|\b(?:to|into|through|with|in)\s{1,3})(?:sudo\s{1,3})?(?:ba|z|da|k)?sh\b"
    ),
    "remote": lazy_pattern(r"(?i)\bpush(?:es|ing)?\b[^.;\n]{0,40}?\s(?:--force(?!-with-lease)\b|-f\b)|\bforce[ -]?push(?:es|ing)?\b"),
    "unchecked": lazy_pattern(
        r"(?i)--no-verify\b|--no-gpg-sign\b|--dangerously-[\w-]{1,40}|--insecure\b|\bHUSKY=0|\b(?:ssl_?)?verify\s?=\s?False\b|NODE_TLS_REJECT_UNAUTHORIZED"
        r"|\b(?:disabl|skip|bypass|ignor|turn off)\w{0,3}\s[^.;\n]{0,30}\b(?:ssl|tls|certificate|signature|security|sandbox)\w{0,2}\b"
    ),
    "secrets": lazy_pattern(
        r"(?i)\b(?:send|upload|post|copy|mail|paste|print|push|commit)\b[^.;\n]{0,40}(?:\.env\b|\b(?:secrets?|credentials?|tokens?|passwords?"
        r"|(?:api|private|ssh) keys?)\b)[^;\n]{0,40}(?:https?://|\w@\w)"
    ),
}
"""What does harm however it is told: a name of :data:`_MEANS` -> how people and pages say it."""

_NOT_BEFORE = lazy_pattern(r"(?i)\b(?:never|do not|don'?t|not|no(?!,)|avoid|without|stop|instead of|rather than)\b[^.;:\n]{0,60}\Z")

_MEANS = {
    "publishes": "changes what others share",
    "files": "removes files",
    "history": "rewrites history",
    "branch": "removes a branch",
    "remote": "overwrites a remote",
    "disk": "writes to a disk",
    "rights": "changes rights or runs as root",
    "data": "removes data",
    "service": "removes a service",
    "remote-code": "runs code from the network",
    "unchecked": "goes past checks",
    "secrets": "gives secrets away",
}


def proposed(kind: str, text: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that a lesson proposes: in code marks, as whole steps, or in plain words behind a known program."""
    for name in _PROPOSED:
        for said in _texts(body.get(name)):
            yield from _of(said, whole=name not in ("outcome", "termination"))
    if kind in _TELLS:
        for sentence in re.split(r"(?<=[.!?;])\s", text[:4000]):
            if not _WENT_WRONG.search(sentence):
                yield from _of(sentence, whole=False)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)


def _of(said: str, *, whole: bool) -> Iterator[str]:
    said = said[:4000]
    for span in _SPAN.finditer(said):
        if not _NOT.search(said[: span.start()].rstrip("`")):
            yield span[1]
    plain = _SPAN.sub("``", said)
    if whole and plain == said:
        yield re.sub(r"^(?i:run|use|then|and)\s+", "", said.strip())
    for bare in _BARE.finditer(plain):
        if not _NOT.search(plain[: bare.start()]):
            yield bare[0]
