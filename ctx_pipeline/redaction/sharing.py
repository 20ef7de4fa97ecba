"""What of a session tells who worked where: paths, user names, addresses and hosts, replaced before it is shared."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.redaction.redactor import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterable

_PART = r"[^/\\\s\"'`:;,<>|()\[\]{}*?$%&]+"
_HOME = re.compile(
    r"(?<![\w.])(?:[A-Za-z]:)?(?P<sep>\\{0,4}/|\\{1,4}|%2F)(?:Users|home)(?P=sep)" + rf"(?P<name>{_PART})(?P<tail>(?:(?P=sep){_PART})*)"
)
_ENCODED = re.compile(r"(?<![A-Za-z0-9])-(?:Users|home)-(?P<name>[A-Za-z0-9_.]+)(?:-[\w.-]*)?")
"""A folder as an agent names it in its home: signs that are no letters became dashes."""

_EMAIL = re.compile(r"(?<![\w.+/:-])(?P<local>[\w.+-]{1,64})@(?P<domain>(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24})(?![\w@]|[.-]\w)")
_PUBLIC_DOMAIN = re.compile(r"(?:.*\.)?(?:example(?:\.com|\.org|\.net)?|test(?:\.com)?|invalid|localhost)", re.IGNORECASE)
_PUBLIC_LOCAL = frozenset({"git", "noreply", "no-reply"})
_PERSON = re.compile(r"[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,3}(?= <\[email\]>)")
_HOST = re.compile(
    r"(?<![\w./@-])(?:[A-Za-z0-9-]+\.)+(?:local|lan|internal|corp|intranet)(?![\w-]|\.\w)"
    r"|(?<![\w.-])[\w-]*(?:MacBook|iMac|Mac-mini|Mac-Studio|DESKTOP-|LAPTOP-)[\w-]*(?:\.local)?"
    r"|(?<![\w.])(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?![\w.])"
)
_LOGIN = re.compile(r"(?<![\w.+/:@-])[a-z_][\w-]{0,31}@[A-Za-z][\w-]{2,62}(?=[:\s~$#%])")
"""A shell's prompt, or what ssh is told: sam@buildbox ~ %."""

_ACCOUNT = re.compile(
    r"\"(?:login|user_?name|author_?name|screen_name|nickname)\\{0,4}\"\s{0,4}:\s{0,4}\\{0,4}\"(?P<login>[A-Za-z0-9][\w-]{1,38})\\{0,4}\""
    r"|(?:^|\n|\\n)\s{0,4}(?:origin|upstream|fork)(?:\s|\\t){1,8}(?:https?://|ssh://)?(?:[\w-]{1,39}@)?[\w.-]{1,80}[:/](?P<owner>[A-Za-z0-9][\w-]{1,38})/"
    r"|\b(?:account|logged in (?:to \S{1,80} )?as) (?P<account>[A-Za-z0-9][\w-]{1,38}) \((?:keyring|oauth|G[HL]_|GIT|[/~])"
)
"""An account on a code host: in the answer of an API, as the owner of a remote, in what its program says of the login."""

_GENERIC = re.compile(
    r"user|users|username|name|you|me|root|admin|administrator|runner|shared|public|guest|"
    r"home|app|dev|node|www|git|test|testuser|tester|ubuntu|debian|vscode|codespace|ec2-user|"
    r"agent|docker|jenkins|build|ci|example|yourname|"
    r"copilot|cursor|github|gitlab|github-actions|dependabot|renovate|coderabbitai|octocat|ghost",
    re.IGNORECASE,
)
"""Names of accounts that tell nobody."""
_WORD = re.compile(
    r"will|mark|may|grace|rich|art|bill|grant|drew|guy|max|chase|hope|rob|dean|frank|"
    r"miles|reed|wade|pat|sue|ray|jack|nick|jay|see|joy|april|june|august|summer|autumn|"
    r"penny|rose|ruby|crystal|sky|star|stone|wood|young|long|short|small|white|black|brown|"
    r"green",
    re.IGNORECASE,
)
"""Names that are words of English too: replaced in paths and addresses alone."""
_SYSTEM = re.compile(
    r"usr|bin|sbin|lib|lib64|etc|tmp|var|opt|dev|proc|sys|run|boot|nix|snap|System|"
    r"Library|Applications|private"
)
"""First folders that every machine has."""
_OUTSIDE = ("Volumes", "mnt", "media")


class Sharing:
    """Replaces what is private in the texts of one session and counts what it replaced.

    ``folders`` are those that the session worked in: paths below one become relative. What lies
    in a home becomes ``~/…/name``, another absolute folder ``[folder]/name``; user names, which
    paths, remotes and answers of code hosts tell, ``user``; mail addresses ``[email]``, hosts ``[host]``, people in front of
    an address ``[person]``. Folders that every machine has stay. Secrets were replaced before;
    they are counted.
    """

    def __init__(self, folders: Iterable[str] = (), *, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        roots = sorted({folder.rstrip("/\\") for folder in folders if len(folder) > 2}, key=len, reverse=True)
        first = {root.split("/")[1] for root in roots if root.startswith("/")} - {"Users", "home"}
        outside = sorted({*_OUTSIDE, *(name for name in first if not _SYSTEM.fullmatch(name))})
        self._roots = [re.compile(_below(root)) for root in roots]
        self._outside = re.compile(rf"(?<![\w.~/\\])/(?:{'|'.join(map(re.escape, outside))})(?:/{_PART})*/(?P<last>{_PART})")
        self._hosts = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in hosts if len(name) > 3 and name != "localhost"]
        self._names = {name for name in users if _identifies(name)}

    def read(self, text: str) -> None:
        """Take note of the user names that a text tells in paths, remotes and answers of code hosts, for this text and all that follow."""
        told = {m["name"] for pattern in (_HOME, _ENCODED) for m in pattern.finditer(text)}
        told |= {m[m.lastgroup or 0] for m in _ACCOUNT.finditer(text)}
        self._names |= {name for name in told if _identifies(name)}

    def values(self, value: Any) -> Any:
        """Return a value of JSON whose texts were read before, each without what is private."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {key: self.values(member) for key, member in value.items()}
        return [self.values(member) for member in value] if isinstance(value, list) else value

    def __call__(self, text: str) -> str:
        """Return a text without what is private."""
        self.read(text)
        self.counts["secrets"] += len(MARKER.findall(text))
        for root in self._roots:
            self.counts["folders of the repository"] += len(root.findall(text))
            text = root.sub(lambda m: "" if m["sep"] else ".", text)
        self.counts["home folders"] += len(_HOME.findall(text))
        text = _HOME.sub(lambda m: _at_home(m["tail"]), text)
        for kind, pattern, put in (
            ("home folders", _ENCODED, "[folder]"),
            ("other folders", self._outside, r"[folder]/\g<last>"),
        ):
            text = self._replaced(kind, pattern, put, text)
        text = _EMAIL.sub(self._email, text)
        text = self._replaced("names of people", _PERSON, "[person]", text)
        text = self._replaced("host names", _LOGIN, "user@[host]", text)
        for pattern in (_HOST, *self._hosts):
            text = self._replaced("host names", pattern, "[host]", text)
        return self._without_names(text)

    def _replaced(self, kind: str, pattern: re.Pattern[str], put: str, text: str) -> str:
        text, count = pattern.subn(put, text)
        self.counts[kind] += count
        return text

    def _without_names(self, text: str) -> str:
        words = {name for name in self._names if _WORD.fullmatch(name)}
        for names, before in ((self._names - words, r"(?<![A-Za-z0-9])"), (words, r"(?<=[@/])")):
            if names:
                longest_first = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
                pattern = re.compile(rf"{before}(?:{longest_first})(?![A-Za-z0-9])", re.IGNORECASE)
                text = self._replaced("user names", pattern, "user", text)
        return text

    def _email(self, match: re.Match[str]) -> str:
        if match["local"].lower() in _PUBLIC_LOCAL or _PUBLIC_DOMAIN.fullmatch(match["domain"]):
            return match[0]
        self.counts["mail addresses"] += 1
        return "[email]"


KINDS = {
    "secrets": "secret",
    "folders of the repository": "folder of the repository",
    "home folders": "home folder",
    "other folders": "other folder",
    "mail addresses": "mail address",
    "names of people": "name of a person",
    "host names": "host name",
    "user names": "user name",
}
"""What is counted, and what one of it is called."""


def in_words(counts: Counter[str]) -> str:
    """Return what was replaced and how often."""
    return ", ".join(f"{n:,} {one if n == 1 else kind}" for kind, one in KINDS.items() if (n := counts[kind])) or "nothing"


def _identifies(name: str) -> bool:
    return len(name) > 2 and name[0].isalnum() and not _GENERIC.fullmatch(name)


def _below(folder: str) -> str:
    """Return a pattern of a folder as it stands in text and in JSON, with the sign that leads below it."""
    separator = r"\\{0,4}/" if "/" in folder else r"\\{1,4}"
    parts = separator.join(map(re.escape, re.split(r"[/\\]+", folder)))
    return rf"(?<![\w.~-]){parts}(?:(?P<sep>{separator})(?=[\w.@~-])|(?![\w-]|\.\w))"


def _at_home(tail: str) -> str:
    """Return a path below a home: settings whole, of others the last part."""
    parts = [part for part in re.split(r"[/\\]+|%2F", tail) if part]
    if len(parts) < 2 or parts[0].startswith("."):
        return "/".join(["~", *parts])
    return f"~/…/{parts[-1]}"
