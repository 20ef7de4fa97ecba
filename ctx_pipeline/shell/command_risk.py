"""What lessons tell the next session to run, and which of it changes what others share or cannot be undone."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.destructive_commands import SQL, SQL_CLIENTS, destroys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.model.memories import StoredCandidate

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
_PARTS = re.compile(r"[-_:./]")

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

_RESETS = re.compile(r"^(?:db:(?:drop|reset|purge)|flush|sqlflush|reset_db|migrate:(?:reset|fresh))\b|\bdropDatabase\(")
_REMOTE_CODE = re.compile(
    r"(?:\b(?:ba|z|da)?sh\b|\bsource\b|\beval\b)[^\n]{0,20}(?:<\(|\$\(|`)\s{0,4}(?:curl|wget)\b|\b(?:iex|Invoke-Expression)\b"
)
_ROOT = re.compile(r"(?:^|[;&|(\n]|\b(?:time|nohup|env|xargs))\s{0,8}(?:\w+=\S{0,80}\s{1,4}){0,4}(?:sudo|doas)\s+\S")
_SPAN = re.compile(r"`([^`\n]{2,600})`")
_TOOLS = "|".join(sorted(map(re.escape, {*_VERBS, *_PAIRS, *_TASKS, *_PACKAGES, *SQL_CLIENTS, *_OTHERS})))
_BARE = re.compile(rf"(?<![\w./-])(?:{_TOOLS})\s+\S[^\n]{{0,300}}")
_NOT = re.compile(
    r"(?i)\b(?:never|do not|don'?t|not|avoid|without|instead of|in place of|rather than)(?:\s+(?:run|use|do|call|make|with))?\s*$"
)
_PROPOSED = ("steps", "did", "passed", "verification", "termination", "outcome", "preconditions", "commands", "narrowed")
_TELLS = ("procedure", "skill", "tool_lesson", "repo_convention", "user_preference")
"""Kinds whose text says what to do; the others quote what went wrong or was refused."""

_WENT_WRONG = re.compile(r"(?i)\bfail(?:s|ed)?\b|\brefused\b")


@lru_cache(maxsize=8192)
def dangers(command: str) -> tuple[str, ...]:
    """Return what a command line does that others see or that cannot be undone, each kind once; empty for all else.

    ``publishes`` leaves the machine (push, publish, deploy, merge, a release, a service that is changed), ``rights``
    runs as root, and the kinds of :func:`destroys`; here any recursive removal counts,
    since what a build makes anew in one project is work in another. A dry run does nothing.
    """
    found: dict[str, None] = dict.fromkeys(destroys(command))
    if _REMOTE_CODE.search(command):
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
    return ""


def guarded(candidate: StoredCandidate) -> StoredCandidate:
    """Return a candidate as it is, or with a high risk and ``risk_reason`` in its body where it proposes what :func:`dangers` finds."""
    body = candidate.body
    why = reason(candidate.kind, candidate.text, body)
    if not why:
        return candidate
    return candidate._replace(risk="high", structured=json.dumps(body | {REASON: why}, ensure_ascii=False, sort_keys=True))


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
