"""What a command line does that a person may want to be asked about: a merge, push, commit, deploy, deletion, publication or release."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.command_risk import dangers, destroys, removes
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.shell.commands import Step

MERGE, PUSH, COMMIT, DEPLOY, DELETE, PUBLISH, RELEASE = "merge", "push", "commit", "deploy", "delete", "publish", "release"

_OF_VERSIONS = {
    "git merge": MERGE,
    "gh pr merge": MERGE,
    "glab mr merge": MERGE,
    "glab mr accept": MERGE,
    "hg merge": MERGE,
    "git push": PUSH,
    "git subtree push": PUSH,
    "jj git push": PUSH,
    "hg push": PUSH,
    "git commit": COMMIT,
    "jj commit": COMMIT,
    "hg commit": COMMIT,
}
"""Calls of version control, by the program and its first words."""

_DELETIONS = {
    "rmdir": "files",
    "git stash drop": "data",
    "git stash clear": "data",
    "docker rm": "service",
    "docker rmi": "service",
    "docker container rm": "service",
    "docker image rm": "service",
    "podman rm": "service",
    "podman rmi": "service",
}
"""Calls that delete something small -> what."""

_LOOKS = ("kubectl rollout status", "kubectl rollout history")
_NOTHING_DONE = frozenset({"--abort", "--quit", "--dry-run", "--disable-auto", "--help", "-h"})
_DEPLOYS = lazy_pattern(
    r"(?<![\w-])(?:deploy|rollout)(?![\w-]*\.md)|^(?:vercel|netlify|fly|flyctl|kubectl|helm|terraform|tofu|pulumi|cdk|sls|serverless|eb|firebase)\b"
)
_PUBLISHES = lazy_pattern(
    r"(?<![\w-])publish(?![\w-])|^twine |^(?:docker|gem|podman)(?: compose| image| manifest)? push\b|^dotnet nuget push\b"
)
_RELEASES = lazy_pattern(r"(?<![\w-])(?:semantic-)?releas(?:e|er)(?![\w-]*\.md)")
_DELETED = frozenset({"files", "branch", "remote", "data", "service"})


class Act(NamedTuple):
    """One act of a command line."""

    name: str
    how: frozenset[str] = frozenset()
    """force or squash; of what is deleted: files, branch, tag, remote, data or service"""


def acts(command: str, cwd: str | None = None) -> Iterator[Act]:
    """Yield what a command line does, step by step; a dry run does nothing."""
    for step in steps(command):
        if step.words and _NOTHING_DONE.isdisjoint(step.words) and not step.text.startswith(_LOOKS):
            yield from _of_step(step, cwd)
            if step.words[0].rpartition("/")[2] == "ssh" and " " in step.words[-1]:
                yield from acts(step.words[-1])


def _of_step(step: Step, cwd: str | None) -> Iterator[Act]:
    plain = [w for w in (step.words[0].rpartition("/")[2], *step.words[1:]) if not w.startswith("-")]
    name = next((act for call, act in _OF_VERSIONS.items() if _begins(plain, call)), "")
    options = _short(step.words)
    if name == PUSH and "n" in options:
        return
    gone = {kind for kind in destroys(step.text, cwd) if kind in _DELETED}
    if name == PUSH and not ("--delete" in step.words or "d" in options or any(w.startswith(":") for w in plain)):
        gone.discard("remote")
    if plain[:2] == ["git", "branch"] and ("d" in options or "--delete" in step.words):
        gone.add("branch")
    if plain[:2] == ["git", "tag"] and ("d" in options or "--delete" in step.words):
        gone.add("tag")
    gone |= {kind for call, kind in _DELETIONS.items() if _begins(plain, call)}
    if removes(step.words) or (step.words[0] == "rm" and len(plain) == 1):  # xargs gives it the names
        gone.add("files")
    if gone:
        yield Act(DELETE, frozenset(gone))
    if name:
        forced = any(w.startswith(("--force", "+")) for w in step.words) or (name == PUSH and "f" in options)
        yield Act(name, frozenset(filter(None, ("force" if forced else "", "squash" if _squashes(step.words, options) else ""))))
    elif not gone and "publishes" in dangers(step.text):
        said = " ".join(plain)
        name = next((act for pattern, act in ((_PUBLISHES, PUBLISH), (_RELEASES, RELEASE), (_DEPLOYS, DEPLOY)) if pattern.search(said)), "")
        if name:
            yield Act(name)


def _begins(plain: Sequence[str], call: str) -> bool:
    words = call.split()
    return plain[: len(words)] == words


def _squashes(words: Sequence[str], options: str) -> bool:
    return "--squash" in words or (words[0].rpartition("/")[2] in ("gh", "glab") and "s" in options)


def _short(words: Sequence[str]) -> str:
    """Return the letters of the short options of a call."""
    return "".join(w[1:] for w in words[1:] if w.startswith("-") and not w.startswith("--"))
