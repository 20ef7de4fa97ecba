"""Logins that are words too, such as ``files``: found where a text plainly tells a login, and nowhere else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_LINE = r"(?:^|\n|\\n)"
_QUOTE = r"\\{0,4}\""
_PLACES = (
    # an owner in an address of git, on a public code host, in an API of one; a mail box of the machine
    (
        "/:",
        130,
        (
            r"\b(?:github|gitlab|githubusercontent)\.com[/:]|\b(?:bitbucket|codeberg)\.org[/:]|\bghcr\.io/"
            rf"|{_LINE}\s{{0,4}}(?:origin|upstream|fork|To)(?:\s|\\t){{1,8}}(?:https?://|ssh://)?(?:[\w-]{{1,39}}@)?[\w.-]{{1,80}}(?::\d{{1,5}})?[:/]"
            r"|\bgit@[\w.-]{1,80}(?::\d{1,5})?[:/]"
            r"|\bapi(?:\.[\w.-]{1,60}|/v\d|\s)/?(?:users|repos|orgs)/"
            r"|/var/(?:spool/)?(?:mail|cron(?:/tabs|/crontabs)?)/"
            r"|\b(?:remotes|refs/heads|forks?|ghcr)/"
        ),
    ),
    ("@", 2, r"(?:\A|[\s(\"'`])@"),
    # who wrote it and is to look at it, as the program of a code host says
    (
        " \tt",
        260,
        rf"(?:{_LINE}|\")(?:author|assignees|reviewers):(?:\t|\\t)(?:[\w-]{{1,39}}(?: \(\w{{1,20}}(?: \w{{1,20}})?\))?, ){{0,6}}",
    ),
    # who runs a command, who is logged in
    (
        " ",
        100,
        (
            r"\blogged in (?:to \S{1,80} )?(?:as|account) |\buser\.name "
            r"|\bsudo (?:-\w+ ){0,3}-u |\bsu (?:-l? )?|\bchown (?:-\w+ ){0,3}|\bssh (?:-\w+ ){0,3}-l "
        ),
    ),
    ("=\"'", 30, r"(?:(?-i:USER|LOGNAME|USERNAME)=|\buser\.name[= ])\\{0,4}[\"']?"),
    ("(", 150, r"\b(?:e?[ug]id=\d{1,12}|groups=[\w(),.-]{0,120}\d)\("),
)
"""What tells a login whatever follows: signs that it ends with, how many characters before a name are read, and a pattern."""

_BEFORE = {
    sign: [(length, re.compile(rf"(?:{pattern})\Z", re.IGNORECASE)) for signs, length, pattern in _PLACES if sign in signs]
    for sign in {sign for signs, _, _ in _PLACES for sign in signs}
}
_LISTED_OR_RUN = re.compile(r"(?:\b(?:as|account|su|chown|user\.name)|\s-\w*|[\w)],) \Z", re.IGNORECASE)
"""The last word before a login that follows a space."""

_AROUND = tuple(
    (re.compile(rf"(?:{before})\Z", re.IGNORECASE), re.compile(after, re.IGNORECASE))
    for before, after in (
        (
            rf"\"(?:login|user_?name|author_?name|screen_name|nickname|owner){_QUOTE}\s{{0,4}}:\s{{0,4}}{_QUOTE}",
            _QUOTE,
        ),
        (rf"\"(?:full_?name|nameWithOwner){_QUOTE}\s{{0,4}}:\s{{0,4}}{_QUOTE}", r"/[\w.-]+\\{0,4}\""),
        (r"\b(?:https?|ssh|git)://(?:[^\s/@]{1,80}@)?[\w.-]{1,80}(?::\d{1,5})?/", r"/[\w.-]{1,100}\.git(?![\w-])"),
        (r"://", r"\.(?:github|gitlab)\.io(?![\w-])"),
        (r"\baccount ", r" \((?:keyring|oauth|G[HL]_|GIT|[/~])"),
        (r"(?:\A|[\s\"'`=:(])~", r"[/\s\"'`)]|\Z"),
        (
            r"\A|[^\w.+/:@-]|\\[nrt]",
            r"@(?:\[host\]|(?!(?:latest|next|beta|alpha|canary|nightly|stable|lts|workspace)\b)[A-Za-z][\w-]{2,62}(?![\w.]))",
        ),
        (rf"{_LINE}", r"\s{1,12}(?:\d{1,7}\s{1,6}\d{1,3}\.\d\s|(?:ttys?\d|pts/|console\b))"),
    )
)
"""Before and behind a login, where only both tell it."""

_REPOSITORY = re.compile(
    r"(?:(?:(?<![\w-])|(?<=\\[nrt]))-R|--repo|\bGH_REPO)(?:[\s=]|\\{0,4}[\"'],\s?)\\{0,4}[\"']?(?:[\w-]{1,60}(?:\.[\w-]{1,60})+/)?\Z"
)
_NAME_OF_REPOSITORY = re.compile(r"/[\w.-]{1,100}(?![\w/-])")
_FOLDERS = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))(?:ls|eza|exa|tree|dir|cp|rm|rsync|scp|ssh|zip|chmod|chown|chgrp|chcon|chflags|setfacl|getfacl|[efz]?grep|rg|ag|ctags|etags"
    r"|cscope|less|patch|sort|jq|open|stow|hg|svn|ctest|git(?: (?:apply|diff|log|show))?)(?:\s{1,4}-[\w=-]{1,40}){0,8}\s{1,4}-R[ =][\"']?\Z"
)
"""Programs whose -R is followed by a folder; with any other a repository of somebody follows."""
_OF_HOST = re.compile(r"\b(?:gh|glab)\s[^\n;|&]{0,150}\Z")

_LEFT = 180
"""Characters before a login that are read there."""

_FIRST_PART = re.compile(r"(?:(?<=\\[nrt])|(?<![A-Za-z0-9\\-]))[A-Za-z0-9][\w-]{0,38}[-_]\Z")
_LAST_PART = re.compile(r"[-_][\w-]{0,38}")
_LEAST_OF_ACCOUNT = 5
"""Letters of a name with which a whole account begins or ends."""


def without_logins(text: str, names: Collection[str]) -> tuple[str, int]:
    """Return a text with ``user`` for these names where they are told as logins, and how many there were.

    An account that begins or ends in a name of five letters or more goes as a whole: ``files-acme``.
    """
    if not names:
        return text, 0
    longest_first = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
    found = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{longest_first})(?![A-Za-z0-9])", re.IGNORECASE)
    parts: list[str] = []
    done = 0
    for match in found.finditer(text):
        start, end = _account(match)
        if start >= done and _is_login(text, start, end):
            parts += [text[done:start], "user"]
            done = end
    return "".join([*parts, text[done:]]), len(parts) // 2


def _account(match: re.Match[str]) -> tuple[int, int]:
    """Return where the account begins and ends that has a name in it."""
    start, end = match.span()
    if end - start < _LEAST_OF_ACCOUNT:
        return start, end
    first = _FIRST_PART.search(match.string[max(0, start - 42) : start])
    last = _LAST_PART.match(match.string, end)
    return start - len(first[0]) if first else start, last.end() if last else end


def _is_login(text: str, start: int, end: int) -> bool:
    sign = text[start - 1 : start]
    if sign != " " or _LISTED_OR_RUN.search(text, max(0, start - 12), start):
        for length, pattern in _BEFORE.get(sign, ()):
            if pattern.search(text, max(0, start - length), start):
                return True
    return _owns_repository(text, start, end) or any(
        behind.match(text, end) and before.search(text, max(0, start - _LEFT), start) for before, behind in _AROUND
    )


def _owns_repository(text: str, start: int, end: int) -> bool:
    """Tell whether a name is the owner of the repository that a command is told to work on: ``-R files/shop``."""
    left = max(0, start - _LEFT)
    if not (_NAME_OF_REPOSITORY.match(text, end) and _REPOSITORY.search(text, left, start)):
        return False
    folders = _FOLDERS.search(text, left, start)
    return folders is None or _OF_HOST.search(text, left, folders.start()) is not None
