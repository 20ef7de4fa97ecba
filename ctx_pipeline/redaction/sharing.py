"""What of a session tells who worked where: paths, user names, addresses and hosts, replaced before it is shared."""

from __future__ import annotations

import re
import socket
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.redaction.common_words import COMMON_WORDS
from ctx_pipeline.redaction.login_places import without_logins
from ctx_pipeline.redaction.redactor import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterable

_PART = r"(?:[^/\\\s\"'`:;,<>|()\[\]{}*?$%&]|\\{1,4} )+"
_ESCAPE = r"(?<=\\[nrt])|(?<=%2F)|(?<=%3A)|(?<=\[\dm)|(?<=\[\d\dm)"
"""What stands for a sign that is no letter and ends in one: an escape of JSON, of an address, of a terminal."""

_LIBRARY = r"(?<=(?<![A-Za-z0-9])lib)|(?<=\\[nrt]lib)"
"""What a compiler puts before the name of what it builds, without a sign between them."""

_HOME = re.compile(
    rf"(?:(?<![\w.])|{_ESCAPE})(?:[A-Za-z]:|/(?:mnt/)?[a-z](?=/Users/)|/System/Volumes/Data|(?<=://)file)?"
    rf"(?P<sep>\\{{0,4}}/|\\{{1,4}}|%2F)(?:Users|home)(?P=sep)(?P<name>{_PART})(?P<tail>(?:(?P=sep){_PART})*)"
)
_HOME_SIGN = r"(?:~|\$HOME|\$\{HOME\}|\$env:(?:HOME|USERPROFILE)|%USERPROFILE%)"
_BELOW_HOME = re.compile(
    rf"(?:(?<![\w.~/!])|{_ESCAPE})(?P<home>{_HOME_SIGN})"
    rf"(?P<sep>\\{{0,4}}/|\\{{1,4}})(?P<tail>{_PART}(?:(?P=sep){_PART})*)"
)
_ESCAPED = re.compile(r"[nrtbfu]|\w{1,2}\Z")
"""What follows a backslash that begins no name of a file: a new line after ~, a digit in a pattern."""

_IMPORTED = re.compile(r"(?:from|import|require)\s{0,4}\(?\s{0,4}\\{0,4}[\"'`]\Z")
"""A module's source folder is called ~ too, where code imports it."""

_ENCODED = re.compile(r"(?<![A-Za-z0-9])-(?:Users|home)-(?P<name>[A-Za-z0-9_.]+)(?:-[\w.-]*)?")
"""A folder as an agent names it in its home: signs that are no letters became dashes."""

_TEMPORARY = re.compile(r"(?<![\w.~/])(?:/private)?/var/folders/[^/\s]{1,4}/[\w+-]{8,64}/[TC](?![\w-])")
"""The temporary folder of a person on macOS, whose name is that person's alone."""

_EMAIL = re.compile(
    r"(?:(?<![\w.+/:-])|(?<=mailto:))(?P<local>[\w.+-]{1,64})@(?P<domain>(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24})(?![\w@]|[.-]\w)"
)
_PUBLIC_DOMAIN = re.compile(r"(?:.*\.)?(?:example(?:\.com|\.org|\.net)?|test(?:\.com)?|invalid|localhost)", re.IGNORECASE)
_PUBLIC_LOCAL = frozenset({"git", "noreply", "no-reply"})
_PERSON = re.compile(r"(?<![\w.'-])[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,3}(?= <\[email\]>)")
_HOST = re.compile(
    r"(?<![\w./@-])(?:[A-Za-z0-9-]+\.)+(?:local|lan|internal|corp|intranet)(?![\w-]|\.\w)"
    r"|(?<![\w.-])[\w-]*(?:MacBook|iMac|Mac-mini|Mac-Studio|DESKTOP-|LAPTOP-)[\w-]*(?:\.local)?"
    r"|(?<![\w.])(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?![\w.])"
)
_LOGIN = re.compile(
    r"(?<![\w.+/:@-])[a-z_][\w-]{0,31}@(?!(?:latest|next|beta|alpha|canary|nightly|stable|lts|workspace)(?![\w-]))[A-Za-z][\w-]{2,62}(?=[:\s~$#%]|\Z)"
)
"""A shell's prompt, or what ssh is told: sam@buildbox ~ %; no release of a package."""

_ACCOUNT = re.compile(
    r"\"(?:login|user_?name|author_?name|screen_name|nickname)\\{0,4}\"\s{0,4}:\s{0,4}\\{0,4}\"(?P<login>[A-Za-z0-9][\w-]{1,38})\\{0,4}\""
    r"|(?:^|\n|\\n)\s{0,4}(?:origin|upstream|fork|To)(?:\s|\\t){1,8}(?:https?://|ssh://)?(?:[\w-]{1,39}@)?[\w.-]{1,80}[:/](?P<owner>[A-Za-z0-9][\w-]{1,38})/"
    r"|\b(?:account|logged in (?:to \S{1,80} )?as) (?P<account>[A-Za-z0-9][\w-]{1,38}) \((?:keyring|oauth|G[HL]_|GIT|[/~])"
    r"|(?:^|\n|\\n)author:(?:\t|\\t)(?P<author>[A-Za-z0-9][\w-]{1,38})"
    r"|\b\d{1,12}\+(?P<hidden>[A-Za-z0-9][\w-]{1,38})@users\.noreply\."
)
"""An account on a code host: in the answer of an API, as the owner of a remote, in what its program says of the login."""

_BY = re.compile(
    r"(?P<key>\"(?:user|author|assignee|reviewer|committer|actor|sender|creator)\\{0,4}\"\s{0,4}:\s{0,4}\\{0,4}\")"
    r"(?P<login>[A-Za-z0-9][\w-]{1,38})(?=\\{0,4}\")"
)
"""Who did a thing, in JSON: an account, the user of a database or a word, which is replaced where it is told as a name alone."""

_OWNER = re.compile(
    r"(?P<before>[-dlbcps][-r][-w][-xsS][-r][-w][-xsS][-r][-w][-xtT][@+.]?\s{1,6}\d{1,6}\s{1,4})"
    r"(?P<owner>[A-Za-z_][\w.-]{1,31})(?P<group>\s{1,16}(?P=owner)(?!\S))?(?=\s)"
)
"""The owner in a long listing of files, who may be a group of one too."""

_MENTIONED = re.compile(r"(?:(?<![\w.+-])@|\b(?:github|gitlab)\.com[/:]|\bbitbucket\.org[/:])(?P<login>[A-Za-z0-9][\w-]{3,38})")

_LISTED = re.compile(r"(?:^|\n|\\n|\")(?:assignees|reviewers):(?:\t|\\t)(?P<logins>[\w, ()-]{2,400})", re.IGNORECASE)
_LISTED_LOGIN = re.compile(r"(?:^|, )([A-Za-z0-9][\w-]{1,38})(?= \(|,|$)")
"""Who is to do or to look at something, as the program of a code host lists it: ``reviewers:`` and names, each with its answer."""

_BRANCH = re.compile(
    r"(?:\b[Oo]n branch |\bcheckout (?:-[bB]|--track) |\bgit switch (?:-[cC] )?|\bnew branch\]\s{1,40}|\b[Bb]ranch '|\bbranch: "
    r"|--head[ =]|\bcommits? into |\brefs/heads/|\"(?:gitBranch|headRefName|branch)\\{0,4}\"\s?:\s?\\{0,4}\""
    r"|\bpush (?:-u |--set-upstream |-f |--force )?origin |(?<![\w./-])(?=origin/))"
    r"(?:remotes/)?(?:origin/)?(?P<owner>[A-Za-z][A-Za-z0-9_-]{1,38})/(?P<rest>\w[\w./-]{1,80}\w)"
)
"""A branch that begins like those of teams do: with the name of who works on it."""
_NO_OWNER = re.compile(
    r"feature|features|feat|fix|fixes|bug|bugs|bugfix|hotfix|release|releases|chore|docs?|refactor|tests?|ci|build|perf|style|wip|dev|develop|main|master"
    r"|staging|production|prod|experiments?|spike|dependabot|renovate|snyk|revert|support|tasks?|issues?|story|epic|topic|origin|upstream|remotes|refs|heads"
    r"|tags|pull|merge|patch|improvement|enhancement|security|ui|api|backend|frontend|web|mobile|app|apps|infra|core|deps|src|lib|libs|packages|cmd|pkg|internal"
    r"|scripts|tools|config|assets|agents?|bot|copilot|cursor|backport|cherry-pick|update|upgrade|add|remove|registry|user|team|rc|v\d.*|\d.*",
    re.IGNORECASE,
)
"""Beginnings of branches that say what is done, and folders."""

_FULL_NAME = r"[^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){1,3}"
_CALLED = re.compile(
    rf"\"login\\{{0,4}}\"\s{{0,9}}:\s{{0,4}}\\{{0,4}}\"[\w-]+\\{{0,4}}\",\s{{0,9}}\\{{0,4}}\"name\\{{0,4}}\"\s{{0,4}}:\s{{0,4}}\\{{0,4}}\"(?P<account>{_FULL_NAME})(?=\\{{0,4}}\")"
    rf"|\"(?:assignee|reporter|created_?by|updated_?by|display_?name|full_?name)\\{{0,4}}\"\s{{0,4}}:\s{{0,4}}\\{{0,4}}\"(?P<by>{_FULL_NAME})(?=\\{{0,4}}\")"
    rf"|\buser\.name(?:=|\s{{1,4}}(?=[\\\"']))\\{{0,4}}[\"']?(?P<git>{_FULL_NAME})(?=\\{{0,4}}[\"']|\\?n|$)"
    rf"|(?:^|\n|\\n)author:(?:\t|\\t)[\w-]+ \((?P<author>{_FULL_NAME})\)",
    re.IGNORECASE | re.MULTILINE,
)
"""The name of a person as code hosts, trackers and git tell it."""

_AUTHORS = re.compile(
    r"(?:\b(?:authors|maintainers)\s{0,4}=|\"(?:authors?|maintainers?|contributors)\\{0,4}\"\s{0,4}:)\s{0,4}(?:\[[^\]]{1,600}|\{[^}]{1,300})"
)
_AUTHOR = re.compile(rf"\bname\\{{0,4}}\"?\s{{0,4}}[=:]\s{{0,4}}\\{{0,4}}\"(?P<name>{_FULL_NAME})(?=\\{{0,4}}\")")
"""Who wrote a package, as its settings in TOML and JSON list them."""
_GIVEN_NAME = re.compile(r"([A-Z][a-z\u00e0-\u024f]{2,})(?: [A-Z][\w.'-]*)+")

_PERSON_AT = re.compile(rf"(?<![\w.'-])(?P<person>[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){{1,3}}) <{_EMAIL.pattern}>")
_NOBODY = re.compile(
    r"\b(?:test|example|user|users|bot|local|global|your|my|name|inc|ltd|llc|gmbh|corp|team|actions?|code|labs?|web|services?|support|security|project"
    r"|foundation|contributors?|authors?|developers?|maintainers?|community|release|software|company|group|the)\b",
    re.IGNORECASE,
)

_GENERIC = re.compile(
    r"user|users|username|name|you|me|root|admin|administrator|runner|shared|public|guest|"
    r"home|app|dev|node|www|git|test|testuser|tester|ubuntu|debian|vscode|codespace|ec2-user|"
    r"agent|docker|jenkins|build|ci|example|yourname|linuxbrew|"
    r"assistant|human|system|service|anonymous|nobody|unknown|default|none|null|true|false|string|object|number|"
    r"postgres|postgresql|mysql|mariadb|redis|mongo|mongodb|nginx|www-data|"
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
_RELATIVE = re.compile(r"(?:\A|[\s\"'`(=,;|]|\\[nrt])(?:\.{1,2}|[\w-]{1,80})/(?:[\w.@+-]{1,80}/){0,40}\Z")
"""What stands before the name of a folder or a file in a relative path."""
_OF_PERSON = re.compile(
    r"\b(?:home|users?|u|mnt|media|people|members|accounts|authors|repos|orgs|owners?|forks?|ghcr|remotes|heads|branches|origin|upstream)/\Z",
    re.IGNORECASE,
)
"""Folders of homes, of repositories and of branches, in which a name is that of a person."""
_NEXT_TO = re.compile(r"(?:\A|[^\w./])\.{1,2}/\Z")
_PATH = 400
"""Characters of a path that are read before a name."""
_SYSTEM = re.compile(
    r"usr|bin|sbin|lib|lib64|etc|tmp|var|opt|dev|proc|sys|run|boot|nix|snap|System|"
    r"Library|Applications|private"
)
"""First folders that every machine has."""
_TOOLS = re.compile(r"(?:bin|go/bin)(?:/.*)?|(?:Applications|Desktop|Documents|Downloads|Library)\Z")
"""What a home has on many machines: folders of programs with what they hold, others by themselves."""

_OUTSIDE = ("Volumes", "mnt", "media")


class Sharing:
    """Replaces what is private in the texts of one session and counts what it replaced.

    ``folders`` are those that the session worked in: paths below one become relative. What lies
    in a home becomes ``~/…/name``, written with the name of the home or without, settings and
    programs apart; another absolute folder ``[folder]/name``; user names, which paths, remotes and
    answers of code hosts tell, accounts that begin or end in one, and names of people written as
    one word ``user``, also as a part of a longer identifier or name of a file (a login that is a
    common word only where it is told as a login); mail addresses ``[email]``, hosts ``[host]``,
    names of people ``[person]``. Folders that every machine has stay, and so does the address of a
    repository whose owner is none of these users. A branch that begins with a name begins with
    ``user``; names in ``branches`` are no persons. Secrets were
    replaced before; they are counted.
    """

    def __init__(
        self, folders: Iterable[str] = (), *, users: Iterable[str] = (), hosts: Iterable[str] = (), branches: Iterable[str] = ()
    ) -> None:
        self.counts: Counter[str] = Counter()
        roots = sorted({folder.rstrip("/\\") for folder in folders if len(folder) > 2}, key=len, reverse=True)
        first = {root.split("/")[1] for root in roots if root.startswith("/")} - {"Users", "home"}
        outside = sorted({*_OUTSIDE, *(name for name in first if not _SYSTEM.fullmatch(name))})
        self._roots = [re.compile(_below(root)) for root in roots]
        self._roots += [
            re.compile(_below(found["tail"], at_home=True)) for root in roots if (found := _HOME.fullmatch(root)) and found["tail"]
        ]
        self._outside = re.compile(rf"(?<![\w.~/\\])/(?:{'|'.join(map(re.escape, outside))})(?:/{_PART})*/(?P<last>{_PART})")
        self._hosts = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in hosts if len(name) > 3 and name != "localhost"]
        self._names = {name for name in users if _identifies(name)}
        self._doubtful: set[str] = set()
        self._mentioned: set[str] = set()
        self._people: set[str] = set()
        self._kept_branches = {name.lower() for name in branches}
        self._branches: set[tuple[str, str]] = set()
        for root in roots:
            self.read(root)

    def read(self, text: str) -> None:
        """Take note of the user names that a text tells in paths, remotes and answers of code hosts, for this text and all that follow."""
        told = {m["name"] for pattern in (_HOME, _ENCODED) for m in pattern.finditer(text)}
        told |= {m[m.lastgroup or 0] for m in _ACCOUNT.finditer(text)}
        told |= {login for m in _LISTED.finditer(text) for login in _LISTED_LOGIN.findall(m["logins"])}
        self._names |= {name for name in told if _identifies(name)}
        self._doubtful |= {name for name in told if _is_short(name)}
        self._branches |= {(m["owner"], m["rest"]) for m in _BRANCH.finditer(text) if self._owned(m["owner"])}
        self._doubtful |= {m["login"] for m in _BY.finditer(text) if _identifies(m["login"])}
        self._mentioned |= {m["login"] for m in _MENTIONED.finditer(text) if _identifies(m["login"])}
        people = {m[m.lastgroup or 0] for m in _CALLED.finditer(text)} | {
            m["person"] for m in _PERSON_AT.finditer(text) if not _tells_nobody(m)
        }
        people |= {name["name"] for m in _AUTHORS.finditer(text) for name in _AUTHOR.finditer(m[0])}
        self._people |= {name for name in people if not _NOBODY.search(name)}

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
        return self.of_read(text)

    def of_read(self, text: str) -> str:
        """Return a text that was read before without what is private."""
        self.counts["secrets"] += len(MARKER.findall(text))
        for root in self._roots:
            self.counts["folders of the repository"] += len(root.findall(text))
            text = root.sub(lambda m: "" if m["sep"] else ".", text)
        self.counts["home folders"] += len(_HOME.findall(text))
        text = _BELOW_HOME.sub(self._below_home, text)
        text = _HOME.sub(lambda m: _at_home(m["tail"]), text)
        for kind, pattern, put in (
            ("home folders", _ENCODED, "[folder]"),
            ("other folders", self._outside, r"[folder]/\g<last>"),
            ("other folders", _TEMPORARY, "/tmp"),  # noqa: S108 - what stands in the text
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

    def _below_home(self, match: re.Match[str]) -> str:
        escape = match["home"] == "~" and "/" not in match["sep"] and _ESCAPED.match(match["tail"])
        if escape or (match["home"] == "~" and _IMPORTED.search(match.string, max(0, match.start() - 20), match.start())):
            return match[0]
        said = _at_home(match["tail"], match["home"])
        if said.endswith("…") or "/…/" in said:
            self.counts["home folders"] += said != match[0]
            return said
        return match[0]

    def _owned(self, owner: str) -> bool:
        return not (_NO_OWNER.fullmatch(owner) or _GENERIC.fullmatch(owner) or owner.lower() in self._kept_branches)

    def _without_names(self, text: str) -> str:
        text = self._replaced("names of people", _any(self._people), "[person]", text)
        given = {
            m[1] for name in self._people if (m := _GIVEN_NAME.fullmatch(name)) and not (_WORD.fullmatch(m[1]) or _GENERIC.fullmatch(m[1]))
        }
        text = self._replaced("names of people", _given(given - set(map(str.title, self._kept_branches))), "[person]", text)
        for owner, rest in sorted(self._branches):
            text = self._replaced("user names", re.compile(rf"(?<![\w.-]){re.escape(owner)}(?=/{re.escape(rest)}(?![\w-]))"), "user", text)
        own = self._names | _accounts(self._people)
        common = {name for name in own if name.lower() in COMMON_WORDS}
        known = own | {name for name in self._mentioned | self._doubtful if _is_variant(name, own - common)}
        words = {name for name in known if _WORD.fullmatch(name)}
        text = self._replaced("user names", _any(known - words - common, rf"(?:(?<![A-Za-z0-9])|{_ESCAPE}|{_LIBRARY})"), "user", text)
        text = _any(words, r"(?<=[@/])").sub(self._word, text)
        text, count = without_logins(text, (self._doubtful - known) | common | words)
        self.counts["user names"] += count
        return _OWNER.sub(self._owner, _BY.sub(self._by, text))

    def _word(self, match: re.Match[str]) -> str:
        before = match.string[max(0, match.start() - _PATH) : match.start()]
        beside = _NEXT_TO.search(before) and match.string[match.end() : match.end() + 1] == "/"
        if _RELATIVE.search(before) and not beside and not _OF_PERSON.search(before):
            return match[0]
        self.counts["user names"] += 1
        return "user"

    def _owner(self, match: re.Match[str]) -> str:
        if not _identifies(match["owner"]):
            return match[0]
        self.counts["user names"] += 1
        return f"{match['before']}user{' user' if match['group'] else ''}"

    def _by(self, match: re.Match[str]) -> str:
        if not (_identifies(match["login"]) or _is_short(match["login"])):
            return match[0]
        self.counts["user names"] += 1
        return f"{match['key']}user"

    def _email(self, match: re.Match[str]) -> str:
        if _tells_nobody(match):
            return match[0]
        self.counts["mail addresses"] += 1
        return "[email]"


def sharing_of(view: Any) -> Sharing:
    """Return what replaces private paths, names and addresses in the texts of a session, those of this machine among them."""
    threads = {t.cwd for t in view.threads if t.cwd}
    name = socket.gethostname()
    places = {part for place in (view.session.repository, view.session.project) for part in (place or "").split("/") if part}
    return Sharing(
        threads | {view.session.cwd or ""},
        hosts={name, name.partition(".")[0]},
        users={Path.home().name},
        branches={*places, *discovery.hosts()},
    )


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


KEPT = "kept: addresses of repositories and organizations of others, settings and tools below ~/, the last name of each path"
"""What stays on purpose."""


def in_words(counts: Counter[str]) -> str:
    """Return what was replaced and how often."""
    return ", ".join(f"{n:,} {one if n == 1 else kind}" for kind, one in KINDS.items() if (n := counts[kind])) or "nothing"


def _tells_nobody(address: re.Match[str]) -> bool:
    return address["local"].lower() in _PUBLIC_LOCAL or _PUBLIC_DOMAIN.fullmatch(address["domain"]) is not None


def _identifies(name: str) -> bool:
    return len(name) > 2 and name[0].isalnum() and not _GENERIC.fullmatch(name)


def _is_short(name: str) -> bool:
    """Return whether a name has two letters: it is replaced where it is told as a name alone."""
    return len(name) == 2 and name.isalpha() and not _GENERIC.fullmatch(name)


def _accounts(people: Iterable[str]) -> set[str]:
    """Return full names as accounts, domains and folders have them: written as one word, or joined by a sign."""
    return {sign.join(parts) for parts in map(str.split, people) if len("".join(parts)) > 4 for sign in ("", "-", "_", ".")}


def _is_variant(login: str, names: Iterable[str]) -> bool:
    """Return whether a login is a known name with other signs, or has one of five letters or more at its begin or end."""
    plain = _letters(login)
    return any(
        (known := _letters(name)) == plain or (len(known) > 4 and (plain.startswith(known) or plain.endswith(known))) for name in names
    )


@cache
def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _any(names: Iterable[str], before: str = r"(?<![A-Za-z0-9])") -> re.Pattern[str]:
    """Return a pattern of any of these names, the longest first, that stand alone; it matches nothing when there are none."""
    longest_first = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
    return re.compile(rf"{before}(?:{longest_first or '(?!)'})(?![A-Za-z0-9])", re.IGNORECASE)


def _given(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of given names where they stand as words of a sentence, and not in a path, an identifier or an address."""
    return re.compile(rf"(?<![\w./\\@#$-])(?:{'|'.join(map(re.escape, sorted(names))) or '(?!)'})(?![\w/\\@(=-]|[.:]\w)")


def _below(folder: str, *, at_home: bool = False) -> str:
    """Return a pattern of a folder as it stands in text and in JSON, with the sign that leads below it."""
    separator = r"\\{0,4}/" if "/" in folder else r"\\{1,4}"
    parts = separator.join(map(re.escape, re.split(r"[/\\]+", folder)))
    home = _HOME_SIGN if at_home else ""
    return rf"(?:(?<![\w.~-])|{_ESCAPE}){home}{parts}(?:(?P<sep>{separator})(?=[\w.@~-])|(?![\w-]|\.\w))"


def _at_home(tail: str, home: str = "~") -> str:
    """Return a path below a home: settings and programs whole, of others the last part."""
    parts = [part for part in re.split(r"/|\\+(?![ \\])|%2F", tail) if part]
    if not parts or parts[0].startswith(".") or _TOOLS.match("/".join(parts)):
        return "/".join([home, *parts])
    return f"{home}/…/{parts[-1]}" if len(parts) > 1 else f"{home}/…"
