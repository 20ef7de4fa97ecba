"""The last commit of a session: what git said it made, as long as no later command may have moved the branch away from it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs, printed, shown_in_part
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import a_name
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.changed_files import UNCHANGED, edited_since
from ctx_pipeline.sessions.states.times import micros
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step


_COMMITTED = lazy_pattern(
    r"(?m)^\[(?P<branch>detached HEAD|[^\s\]]{1,80})(?: \(root-commit\))? (?P<sha>[0-9a-f]{7,40})\] (?P<subject>\S.{0,200})$"
)
"""What git prints of a commit that it made."""
_MERGED = lazy_pattern(r"(?m)^Merge made by the '")
"""What it prints of a commit that joins branches; its name is not among it."""
_SENT = lazy_pattern(
    r"(?m)^\s{0,9}(?:\* \[new branch\]|\+?\s{0,3}[0-9a-f]{7,40}\.{2,3}(?P<sha>[0-9a-f]{7,40}))"
    r"\s{1,40}(?P<own>\S{1,200})\s{1,40}-> (?P<other>\S{1,200})"
)
"""What it prints of a branch that it sent; of one that it fetched the other name is that of a remote, a slash and the branch."""
_SENDS = lazy_pattern(r"(?i)\b(?:push|sync|submit|publish|release|deploy|ship)|\bgh pr (?:create|merge)\b")
"""What may send commits, be it by a task or a tool of its own."""
_SENDING_TOOL = lazy_pattern(r"(?i)push|sync|submit|publish|release|deploy|ship|(?:pull|merge)_?request")
"""Names of tools that may do so; an underscore is no end of a word."""
_SAYS_SENT = lazy_pattern(r"(?i)\b(?:pushed|synced|submitted|published|released|deployed|shipped)\b")
"""What an agent says of commits that it sent."""
_UP_TO_DATE = lazy_pattern(
    r"(?m)^(?:Your branch is up to date with '(?P<status>[^'\n]{1,200})'\.|## \S{1,200}?\.{3}(?P<short>\S{1,200})"
    r"|\* \S{1,200} +(?P<sha>[0-9a-f]{7,40}) \[(?P<listed>[^\]:\n]{1,200})\](?: .*)?)$"
)
"""What it prints of a branch that stands where its remote one does."""
_NONE_MADE = lazy_pattern(r"\bnothing (?:added )?to commit\b|\bno changes added to commit\b")
_TURNED = lazy_pattern(
    r"(?m)^(?:Switched to (?:a new )?branch '(?P<to>[^'\s]+)'|Already on '(?P<already>[^'\s]+)'|On branch (?P<status>\S+)"
    r"|## (?P<short>(?!HEAD \()\S+?)(?:\.{3}\S.*|)|(?P<none>## HEAD \(no branch\)|HEAD detached .*|HEAD is now at .*))$"
)
"""What it prints of the branch that is checked out."""
_RESET_BRANCH = lazy_pattern(r"(?mi)^(?:Switched to and )?reset branch '")
_SHOWN = lazy_pattern(
    r"(?m)^[*|\\/ ]{0,20}(?:commit )?(?P<sha>[0-9a-f]{7,40})(?P<refs> \(HEAD(?: -> (?P<branch>[^,)\s]{1,200}))?[^)\n]{0,400}\))?"
    r"(?: (?P<subject>\S.{0,200}))?(?:\n(?:\w{1,20}: .*\n){1,6}\n {4}(?P<message>\S.{0,200}))?$"
)
"""A commit as it lists it."""
_SHOWS = frozenset({"git log", "git show", "git rev-parse"})
_OF_HEAD = lazy_pattern(
    r"git|log|show|rev-parse|HEAD|-?\d{1,4}|-n\d{0,4}|--(?:oneline|stat|shortstat|abbrev-commit|no-pager|no-decorate|decorate(?:=\w+)?"
    r"|short(?:=\d+)?|verify|max-count=\d{1,4}|(?:format|pretty)=(?:format:)?(?:oneline|%[Hh](?: %s)?))"
)
"""Words that make it begin with the commit that is checked out."""
_TO_HEAD = lazy_pattern(r"\|\s{0,9}head\b(?: -n)?(?: ?-?\d{1,4})?")
_BESIDE = (
    {"cd", "echo", "pwd", "head", "true", "sleep"}
    | {f"git {name}" for name in ("add", "commit", "diff", "fetch", "pull", "push", "rebase", "reset", "status", "merge", "cherry-pick")}
    | {"git switch", "git checkout", *_SHOWS}
)
"""Programs beside which no other line looks like a commit."""

_MERGES = frozenset({"git merge", "git pull"})
_MAKES = frozenset({"git commit", "git cherry-pick", "git revert", "git am"}) | _MERGES
_MOVES = _MAKES | {f"git {name}" for name in ("rebase", "reset", "filter-branch", "update-ref")}
"""Subcommands of git behind which a branch may end with another commit."""
_TURNS = frozenset({"git checkout", "git switch"})
_SUBJECT = 80
"""Characters of a commit's subject that are told."""


class Commit(NamedTuple):
    """A commit in words, the event that shows it, and when that was."""

    text: str
    event: str
    ended: Any
    since: str
    """the files that were changed behind it"""
    unsent: bool = False
    """it was not pushed, and nothing behind it speaks of that"""


def last_commit(view: SessionView) -> Commit | None:
    """Return the last commit that git said it made, and whether git sent it and files were changed since; None where it said of none.

    Where a later command may have moved its branch, it is the commit that git showed there since, and None where it showed none.
    """
    made: tuple[Any, re.Match[str] | None] | None = None
    seen: tuple[Any, re.Match[str]] | None = None
    sent: _Sent | None = None
    level = False  # git called some branch level with a remote one since
    moved, on, place = False, "", ""  # may the branch have moved; the branch that is checked out, and that of the commit
    # of several agents each runs commands of its own
    runs = sorted(command_runs(view), key=lambda r: r.ended or r.started or 0)
    for run in runs:
        if "git" not in run.command or run.result == "refused":
            continue
        told, done, apart = printed(view, run), steps(run.command), made is not None and _apart(run.folder, made[0].folder)
        if run.result == "failed":
            moved = moved or (made is not None and not apart and on in ("", place) and any(_may_move(step) for step in done[:-1]))
            continue
        commits = list(_COMMITTED.finditer(told))
        if commits or (_MERGED.search(told) and _MERGES.intersection(run.programs)):
            made, seen, sent, moved = (run, commits[-1] if commits else None), None, None, False
            level = False
            on = place = commits[-1]["branch"] if commits else on
            told = told[commits[-1].end() :] if commits else told
            apart = False
            done = done[max((n for n, step in enumerate(done) if step.subject in _MAKES), default=len(done)) + 1 :]
        if apart:
            continue
        moves = max((n for n, step in enumerate(done) if _may_move(step)), default=-1)
        turn = next((n for n, step in enumerate(done) if step.subject in _TURNS and "--" not in step.words), len(done))
        before, on = on, _turned(told, done, on, turned=turn < len(done))
        if (moves >= 0 and not _left_it(told) and (on if turn < moves else before) in ("", place)) or _RESET_BRANCH.search(told):
            moved, sent = True, None
        for old, new in _renamed(done, on) if made is not None else ():
            on, place = (new if name == old else name for name in (on, place))
        if made is not None:
            known = None if moved else seen[1]["sha"] if seen else made[1]["sha"] if made[1] else None
            there = run.folder == made[0].folder and not _ELSEWHERE.search(run.command)
            sent = _sent(run, told, place, on, known) or (_level(told, done[moves + 1 :], place, on, known) if there else None) or sent
            level = level or _UP_TO_DATE.search(told) is not None
        head = _head(run, told, [step.subject for step in done[moves + 1 :]]) if made is not None else None
        if made is None or head is None or (head["branch"] or on) != place:
            continue
        if known is None or not _same(known, head["sha"]):
            commit = seen[1] if seen else made[1]
            if commit is None or not _same(commit["sha"], head["sha"]):
                seen = run, head
            sent = sent if moved and sent is not None and (not sent.sha or _same(sent.sha, head["sha"])) else None
        sent = sent or _shown_at_remote(head, place)
        moved = False
    if made is None or moved:
        return None
    run, text = seen[0] if seen else made[0], _in_words(view, made, seen, place)
    if sent is not None:
        text += f", pushed{f' to {sent.branch}' if sent.branch != place and a_name(sent.branch) else ''}"
    edited = edited_since(view, run)
    unsent = sent is None and not level and not _may_be_sent(view, runs[runs.index(made[0]) :])
    return Commit(text + ("; files were changed since" if edited else ""), run.event, run.ended, edited, unsent)


def _may_be_sent(view: SessionView, runs: Sequence[Any]) -> bool:
    """Tell whether one of these commands, or what was said, run or called since the first of them, speaks of sending commits."""
    at = micros(runs[0].ended or runs[0].started)

    def behind(kind: str) -> Iterator[str]:
        return (e.text for e in view.of_kinds(kind) if e.text and (e.ts is None or micros(e.ts) >= at))

    calls = [c for c in view.tool_calls if c.action != "shell" and (c.started is None or micros(c.started) >= at)]
    asked = (view.call_text(call) for call in calls if call.action in ("mcp", "other"))
    return (
        any(_SENDS.search(text) for text in (*(run.command for run in runs), *behind("prompt"), *behind("injected"), *asked))
        or any(_SENDING_TOOL.search(call.tool) for call in calls)
        or any(map(_SAYS_SENT.search, behind("answer")))
    )


def _in_words(view: SessionView, made: tuple[Any, re.Match[str] | None], seen: tuple[Any, re.Match[str]] | None, place: str) -> str:
    where = "" if place in ("", "detached HEAD") else f" on {place}"
    own = made[1]["subject"] if made[1] else ""
    if seen is None and made[1] is None:
        if named := _named(made[0].command):
            return f"a merge, “{truncate(clean(named), _SUBJECT)}”"
        return f"a merge by `{truncate(shown(made[0].command, view.session.cwd), _SUBJECT)}`"
    commit = seen[1] if seen else made[1]
    subject = (seen[1]["subject"] or seen[1]["message"] or "") if seen else own
    # what was rebased has another name, and the same words
    by = "" if subject == own else " (as git showed HEAD later)"
    named = f", “{truncate(clean(subject), _SUBJECT)}”" if subject else ""
    return f"{commit['sha'][:10] if commit else ''}{where}{named}{by}"


_MESSAGE = lazy_pattern(r"--message(?:=|$)|-[abcdfghijklnopqrtuvwxyz46]*m")
"""The option of a message, which may stand behind others that take no value, and before the message itself."""


def _named(command: str) -> str:
    """Return the first line of the message that the last merge of a command was given; empty where it is not written there."""
    merge = next((step.words for step in reversed(steps(command)) if step.subject in _MERGES), ())
    told = []
    for word, after in pairwise((*merge, "")):
        flag = _MESSAGE.match(word)
        if flag:
            told.append(word[flag.end() :] or after)
    subject = told[0].strip().split("\n")[0] if told else ""
    return "" if "$" in subject or "`" in subject else subject


def _apart(one: str | None, other: str | None) -> bool:
    """Tell whether two folders lie in different checkouts, as far as is known: neither holds the other."""
    return bool(one and other) and not (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/"))


def _same(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


class _Sent(NamedTuple):
    """The branch that a commit was sent to, and the commit that this one ended with, where that was shown."""

    branch: str
    sha: str | None = None


def _sent(run: Any, told: str, place: str, on: str, known: str | None) -> _Sent | None:
    """Return where a run sent a commit of a branch; of a ``known`` one the end of the range that git prints, or its name, settles it."""
    if "push" not in run.command:
        return None
    lines = [found for found in _SENT.finditer(told) if not found["other"].endswith(f"/{found['own']}")]
    own = {place} if place not in ("", "detached HEAD") else set()
    own |= {"HEAD"} if on == place or not on else set()

    def of_it(found: re.Match[str]) -> bool:
        if known and (sha := found["sha"] or (found["own"] if _SHA.fullmatch(found["own"]) else None)):
            return _same(sha, known)
        return found["own"] in own or (not place and not _names_branch(run))

    sent = next(filter(of_it, reversed(lines)), None)
    return _Sent(sent["other"], sent["sha"]) if sent else None


_SHA = lazy_pattern(r"[0-9a-f]{7,40}")


def _names_branch(run: Any) -> bool:
    """Tell whether a run names what it pushes: what it sends may be another branch than the one that is checked out."""
    pushed = (step.words[step.words.index("push") + 1 :] for step in steps(run.command) if step.subject == "git push")
    return any(len([word for word in words if not word.startswith("-")]) > 1 for words in pushed)


_ELSEWHERE = lazy_pattern(r"\bgit\s+(?:-\S+\s+)*-C\b|(?:^|[;&|(\n]|\bdo)\s*(?:cd|pushd)\b|--git-dir|\bfor\b")
"""A command that may look at another checkout."""
_REMOTES = ("origin/", "upstream/")


def _level(told: str, done: Sequence[Step], place: str, on: str, known: str | None) -> _Sent | None:
    """Return the remote branch that git calls level with the branch of a commit."""
    programs = {step.subject for step in done}
    alone = all(program.startswith("git ") for program in programs)  # what else prints such a line quotes it
    for found in _UP_TO_DATE.finditer(told) if alone and on in ("", place) else ():
        other = found["status"] or found["short"] or found["listed"]
        shown = "git branch" in programs if found["listed"] else "git status" in programs
        if shown and other.startswith(_REMOTES) and not (known and found["sha"] and not _same(found["sha"], known)):
            return _Sent(other.partition("/")[2], found["sha"])
    return None


def _shown_at_remote(head: re.Match[str], place: str) -> _Sent | None:
    """Return the remote branch of the same name beside which git lists a commit."""
    return _Sent(place, head["sha"]) if f"origin/{place}" in (head["refs"] or "").strip(" ()").split(", ") else None


def _renamed(done: Sequence[Step], on: str) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each branch that steps rename."""
    for step in done:
        if step.subject == "git branch" and {"-m", "-M", "--move"}.intersection(step.words):
            names = [word for word in step.words[step.words.index("branch") + 1 :] if not word.startswith("-")]
            if names:
                yield (names[0] if len(names) > 1 else on), names[-1]


def _left_it(told: str) -> bool:
    """Tell whether git says that a branch stayed at its commit."""
    return UNCHANGED.search(told) is not None or _NONE_MADE.search(told) is not None


def _may_move(step: Step) -> bool:
    """Tell whether a branch may end with another commit behind a step; files alone may be reset as well."""
    if step.subject not in _MOVES or {"--abort", "--dry-run", "--quit"}.intersection(step.words):
        return False
    if step.subject != "git reset":
        return True
    named = [word for word in step.words[step.words.index("reset") + 1 :] if not word.startswith("-")]
    return bool(named) and named[0] != "HEAD" and "--" not in step.words


def _turned(told: str, done: Sequence[Step], on: str, *, turned: bool) -> str:
    """Return the branch that is checked out behind a run; empty where that is not known."""
    programs = {step.subject for step in done}
    for match in reversed(list(_TURNED.finditer(told))):
        if match["to"] or match["already"] or ((match["status"] or match["short"]) and "git status" in programs):
            return next(name for name in match.groups() if name)
        if match["none"] and ("git status" in programs or turned):
            return "detached HEAD"
    return "" if turned or "gh pr" in programs else on


def _head(run: Any, told: str, programs: list[str]) -> re.Match[str] | None:
    """Return the commit that a run lists as the one that is checked out, where it lists it behind all that may move it."""
    if not _SHOWS.intersection(programs) or "git reflog" in programs:
        return None
    if marked := [match for match in _SHOWN.finditer(told) if match["refs"]]:
        return marked[-1]
    asked = [step for step in steps(run.command) if step.subject in _SHOWS]
    whole = _TO_HEAD.sub("", run.command)
    if not _BESIDE.issuperset(run.programs) or any(shown_in_part(whole, step.subject) for step in asked):
        return None
    return _SHOWN.search(told) if all(_OF_HEAD.fullmatch(word) for step in asked for word in step.words) else None
