"""How the work stood outside of its files when a session ended: branch, working tree, pull request, CI, commands that still ran.

All of it is read from what commands printed. What no command showed, or what a later one may have changed, is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.state import Item
from ctx_pipeline.facts.command_runs import CHECKS, command_runs, printed, shown_in_part
from ctx_pipeline.facts.file_accesses import changes_of, inside
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import a_name
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.times import written
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.files import entered

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step

BRANCH, TREE, STASH, PULL, CI, RUNS, AGENTS = "branch", "tree", "stash", "pull", "ci", "process", "agents"
"""What an item is about, as its ``by`` says it."""

_ON = "ended on the branch "
_NAMES, _PROCESSES, _COMMAND = 4, 2, 60
"""Files and commands that are named, and characters of a command."""

_BRANCH = lazy_pattern(
    r"(?m)^(?:Switched to (?:a new )?branch '(?P<switched>[^'\s]+)'|On branch (?P<status>\S+)|## (?P<short>(?!HEAD \()\S+?)(?:\.{3}\S.*|)"
    r"|\[(?P<commit>[^\s\]]{1,80})(?: \(root-commit\))? [0-9a-f]{7,40}\] \S.*|\* (?![0-9a-f]{7,40}[ \n])(?P<listed>[^\s()]+)(?: .*)?"
    r"|(?P<none>## HEAD \(no branch\)|HEAD detached .*|HEAD is now at .*|\[detached HEAD .*))$"
)
_MOVES = frozenset(f"git {name}" for name in ("checkout", "co", "switch", "sw", "rebase", "bisect", "symbolic-ref"))
"""Subcommands behind which another branch may be checked out."""
_MOVING = {
    "git stash": frozenset({"branch"}),
    "git branch": frozenset({"-m", "-M", "--move"}),
    "gh pr": frozenset({"checkout", "co", "merge", "close"}),
    "gh issue": frozenset({"--checkout", "-c"}),
}
"""Subcommands and those of their words with which they may do that."""

_SHOW = frozenset(
    {f"git {name}" for name in ("status", "add", "branch", "commit", "push", "switch", "checkout", "rev-parse", "fetch", "log")} | {"gh pr"}
)
"""Subcommands beside which the lines of a status stand out."""

REWRITE = frozenset(
    {f"git {name}" for name in ("commit", "stash", "checkout", "switch", "reset", "restore", "clean", "merge", "pull", "rebase")}
    | {f"git {name}" for name in ("cherry-pick", "revert", "am", "apply", "rm", "mv")}
)
"""Subcommands behind which a status is out of date."""

_WORKTREE = lazy_pattern(r"\bgit\s.{0,80}?\bworktree\s+add\b")
_ENTERS = lazy_pattern(
    r"(?:\b(?:cd|pushd)(?=[\s;&|)'\"]|$)[^\S\n]{0,9}|(?<!\S)-C\s{1,9}|--(?:git-dir|work-tree)[\s=]{0,9}|\bGIT_(?:DIR|WORK_TREE)=)(?P<to>[^\s;&|()]{0,400})"
)
"""Words that lead to a folder in which git works."""
_WHOLE = frozenset({"-s", "--short", "-b", "--branch", "-sb", "-bs", "-v", "--long", "--show-stash", "--porcelain", "--porcelain=v1"}) | {
    "-u", "-uall", "-unormal", "--untracked-files", "--untracked-files=all", "--untracked-files=normal", "--ahead-behind", "-suall",
}  # fmt: skip
"""Options with which a status leaves nothing out."""
_CLEAN = lazy_pattern(r"(?m)^(?:nothing to commit, working tree clean|## .*)$")
_CHANGED = lazy_pattern(
    r"(?m)^(?:(?P<code>[MADRCTU][ MADTU]|[ ][MADTU]|\?\?) |\t(?:(?P<word>modified|new file|deleted|renamed|typechange|both modified):\s+)?)"
    r"(?P<path>[^\s()].*)$"
)
_SAVED = lazy_pattern(r"(?m)^Saved working directory and index state ")
_AHEAD = lazy_pattern(r"\.{3}(?P<to>[^\s\[]+) \[ahead (?P<count>\d+)\]|Your branch is ahead of '(?P<of>[^']+)' by (?P<by>\d+) commit")
_RANGE = lazy_pattern(r"[^\s.-]\S{0,200}(?<![/.])\.\.(?![/.])\S{0,200}")
_ONE_LINE = lazy_pattern(r"(?m)^(?P<sha>[0-9a-f]{7,40}) (?P<subject>\S.{0,200})$")
_URL = lazy_pattern(r"https://[\w.-]{1,80}(?:/[\w.-]{1,80}){2,4}/(?:pull|merge_requests)/\d{1,8}\b")
_OTHER_REPOSITORY = lazy_pattern(r"\s(?:-R|--repo\b)")
_VIEWED = lazy_pattern(r'"(?P<name>isDraft|state)":\s*(?P<value>true|false|"(?:OPEN|MERGED|CLOSED)")')
_CHECK_ROW = lazy_pattern(r"(?m)^[^\t\n]+\t(?P<state>pass|fail|pending|skipping|cancel)\t")
_NOT_ONCE = lazy_pattern(r"\||\b(?:for|until|watch|while)\b")
_CHECK_STATES = {"fail": "failed", "cancel": "canceled", "pending": "pending", "pass": "passed"}


def end_state(view: SessionView, agents: Sequence[Any] = ()) -> tuple[Item, ...]:
    """Return how the work stood at the end of a session, each item with the event that shows it.

    ``agents`` are the calls that started subagents whose own calls are not recorded.
    """
    main = view.session_id if any(e.thread_id == view.session_id for e in view.events) else view.events[0].thread_id if view.events else ""
    every = sorted((r for r in command_runs(view) if r.result != "refused"), key=lambda r: r.ended or r.started or 0)
    git = [r for r in every if any(p.startswith(("git ", "gh ")) for p in r.programs)]
    own = [r for r in git if r.thread_id == main]
    here = set() if any(_WORKTREE.search(r.command) for r in own) else {r.call_event for r in own if at_home(r, view.session.cwd)}
    branch, tree = _branch(view, git, here), _tree(view, git, here)
    behind = [r for r in own if r.call_event in here and agents and all(c.thread_id == r.thread_id and c.seq < r.seq for c in agents)]
    of_agents = None if tree[0] in behind else _of_agents(view, behind)
    pull = _pull_request(view, every)
    found = [branch, of_agents, tree[1], _stash(view, git, here), pull, _ci(view, every, pull), *_still_running(view, every)]
    return tuple(item for item in found if item is not None)


def recorded_branch(view: SessionView, last: Any) -> Item | None:
    """Return the branch that the host noted with the last record of a session, and the one that it began on; None where it notes none.

    The person may have left the one that the work was done on before the agent was closed.
    """
    name, began = (getattr(view.session, column, None) or "" for column in ("last_branch", "branch"))
    other = f", having begun on {began}" if a_name(began) and began not in (name, "HEAD") else ""
    return Item(f"{_ON}{name}{other}", BRANCH, written(last.ts), last.event_id) if a_name(name) else None


def _item(run: Any, by: str, text: str) -> Item:
    return Item(text, by, written(run.ended), run.event)


def at_home(run: Any, home: str | None) -> bool:
    """Tell whether all of a command worked in the folder of its session."""
    others = (match["to"].strip("'\"") for match in _ENTERS.finditer(run.command))
    return run.folder == home and all(to and entered(("cd", to), home) == home for to in others)


def _branch(view: SessionView, runs: Sequence[Any], here: Collection[str]) -> Item | None:
    """Return the branch that was checked out last, as a run ``here`` told; None where a later command may have left it."""
    found: Item | None = None
    for run in runs:
        text = printed(view, run)
        told = [match for match in _BRANCH.finditer(text) if run.call_event in here and _by(match, run)]
        if told and not _moved_behind(told, steps(run.command)):
            name = next((value for key, value in told[-1].groupdict().items() if value and key != "none"), "")
            found = _item(run, BRANCH, f"{_ON}{name}") if name and a_name(name) else None
        elif told or any(map(_may_move, steps(run.command))) or (run.call_event not in here and REWRITE.intersection(run.programs)):
            found = None  # a subagent's commands count, and those that failed: a part of them may have run
    return found


_PRINTS = {"status": "git status", "short": "git status", "commit": "git commit", "listed": "git branch"}
"""Names of a branch in what a subcommand prints -> the subcommand."""


def _by(match: re.Match[str], run: Any) -> bool:
    """Tell whether the subcommand that prints such a line ran."""
    return next((_PRINTS[key] in run.programs for key in _PRINTS if match[key]), True)


def _moved_behind(told: Sequence[re.Match[str]], done: Sequence[Step]) -> bool:
    """Tell whether another branch may be checked out behind the step that printed the last line of a branch."""
    moves = [n for n, step in enumerate(done) if _may_move(step)]
    subject = next((_PRINTS[key] for key in _PRINTS if told[-1][key]), "")
    if not subject:  # a move itself: one that prints nothing is not known to be another
        return told[-1]["switched"] is None or sum(match["switched"] is not None for match in told) < len(moves)
    by = [n for n, step in enumerate(done) if step.subject == subject]
    lines = sum(any(match[key] for key in _PRINTS if _PRINTS[key] == subject) for match in told)
    return bool(moves) and (not by or (by[-1] if lines >= len(by) else by[0]) < moves[-1])


def _may_move(step: Step) -> bool:
    """Tell whether another branch may be checked out behind a step."""
    words = set(step.words[2:])
    if step.subject in _MOVES:
        return step.subject != "git checkout" or "--" not in words
    return bool(words & _MOVING.get(step.subject, frozenset()))


def _tree(view: SessionView, runs: Sequence[Any], here: Collection[str]) -> tuple[Any, Item | None]:
    """Return the last status ``here`` of the whole working tree, where nothing was changed since, and what it shows."""
    run = next((r for r in reversed(runs) if _rewrites(steps(r.command)) or (r.call_event in here and whole_status(r))), None)
    if run is None or run.call_event not in here or not whole_status(run) or set(run.programs) - _SHOW or _later_change(view, run):
        return None, None
    done = steps(run.command)
    if _rewrites(done[next(n for n, step in enumerate(done) if step.subject == "git status") :]):
        return None, None
    text = printed(view, run)
    entries = shown_by_status(view, run)
    paths = [path for _, path in sorted(entries or (), key=lambda entry: not entry[0])]  # those that git knows first
    if entries is None or not all(map(a_name, paths)):
        return None, None
    begin = _begin(text)
    ahead = None if any("git push" in r.programs for r in runs[runs.index(run) :]) else _AHEAD.search(text, begin)
    count = (ahead["count"] or ahead["by"]) if ahead else ""
    more = f", {count} commit{'s' * (count != '1')} ahead of {ahead['to'] or ahead['of']}" if ahead else ""
    return run, _item(run, TREE, f"{_uncommitted(view, paths)}{more}")


def _begin(text: str) -> int:
    return max((m.start() for m in _BRANCH.finditer(text) if m["status"] or m["short"] or m["none"]), default=0)


def shown_by_status(view: SessionView, run: Any) -> list[tuple[bool, str]] | None:
    """Return whether git knows a file and its path, for each that a status of the whole tree shows; None where it says nothing."""
    text = printed(view, run)
    begin = _begin(text)
    entries = [
        (match["code"] != "??" and bool(match["code"] or match["word"]), _path(match["path"])) for match in _CHANGED.finditer(text, begin)
    ]
    return entries if entries or _CLEAN.search(text, begin) else None


def _rewrites(done: Sequence[Step]) -> bool:
    return any(step.subject in REWRITE or _may_move(step) for step in done)


def whole_status(run: Any) -> bool:
    """Tell whether a command shows the status of the whole tree, and all of it."""
    shows = [s for s in steps(run.command) if s.subject == "git status"]
    whole = all(_WHOLE.issuperset(s.words[s.words.index("status") + 1 :]) and "status." not in s.text for s in shows)
    return bool(shows) and whole and run.result != "failed" and not shown_in_part(run.command, "git status")


def _later_change(view: SessionView, run: Any) -> bool:
    """Tell whether a file was changed behind a run, by any thread."""
    at = run.ended or run.started or 0
    return any(c.seq > run.seq if c.thread_id == run.thread_id else (c.ts or at + 1) > at for c in changes_of(view))


def _path(told: str) -> str:
    return told.rpartition(" -> ")[2].strip().strip('"')


def _uncommitted(view: SessionView, paths: Sequence[str]) -> str:
    """Return what was not committed: of the files that the session changed only that they are all of it."""
    if not paths:
        return "nothing uncommitted at the last git status"
    changed = {inside(c.path, view.session.cwd) for c in changes_of(view)}
    others = [path for path in paths if not any(_is(path, own) for own in changed)]
    if len(changed) > 1 and len(others) < len(paths) and all(any(_is(path, own) for path in paths) for own in changed):
        named = [f"all {len(changed)} files touched", *others]
    else:
        named = list(paths)
    more = f" and {len(named) - _NAMES} more" if len(named) > _NAMES else ""
    return f"uncommitted at the last git status: {', '.join(named[:_NAMES])}{more}"


def _is(path: str, own: str) -> bool:
    """Tell whether a path of a status is a changed file, or the folder that holds it."""
    return own == path or own.endswith(f"/{path}") or path.endswith(f"/{own}") or (path.endswith("/") and f"/{path}" in f"/{own}")


def _stash(view: SessionView, runs: Sequence[Any], here: Collection[str]) -> Item | None:
    """Return that changes ``here`` were put away last, where no later command may have brought them back."""
    run, step = next(((r, s) for r in reversed(runs) for s in reversed(steps(r.command)) if _puts_away(s) is not None), (None, None))
    if run is None or step is None or run.call_event not in here or not _puts_away(step) or not _SAVED.search(printed(view, run)):
        return None
    return _item(run, STASH, "changes were put away with git stash and not taken back since")


def _puts_away(step: Step) -> bool | None:
    """Tell whether a step puts changes into the stash, or may take some out of it; None where it does neither."""
    if step.subject == "git apply" or (step.subject in REWRITE - {"git stash"} and any("stash" in word for word in step.words[2:])):
        return False  # a patch that git stash show prints, or git checkout stash@{0} -- a.py
    verb = next((word for word in step.words[2:] if not word.startswith("-")), "push")
    return verb in ("push", "save") if step.subject == "git stash" and verb not in ("list", "show", "create") else None


def _of_agents(view: SessionView, behind: Sequence[Any]) -> Item | None:
    """Return the commits of a range that git listed last behind the start of subagents; other commits may be those of others."""
    for run in reversed(behind):
        asked = [s for s in steps(run.command) if s.subject == "git log"]
        ranges = bool(asked) and all("--oneline" in s.words and any(map(_RANGE.fullmatch, s.words)) for s in asked)
        if not ranges or run.result == "failed" or set(run.programs) - _SHOW or shown_in_part(run.command, "git log"):
            continue
        commits = [f"{match['sha']} “{truncate(clean(match['subject']), _COMMAND)}”" for match in _ONE_LINE.finditer(printed(view, run))]
        more = f" and {len(commits) - _NAMES} more" if len(commits) > _NAMES else ""
        return _item(run, AGENTS, f"git listed after the subagents were started: {', '.join(commits[:_NAMES])}{more}") if commits else None
    return None


def _pull_request(view: SessionView, runs: Sequence[Any]) -> Item | None:
    """Return the pull request that was opened last, and what became of it, as far as commands that are about it alone tell."""
    made: Any = None
    url, state = "", ""
    for run in runs:
        for step in steps(run.command) if "gh pr" in run.programs else ():
            verb = step.words[2] if len(step.words) > 2 else ""
            text = printed(view, run)
            if verb == "create" and run.result != "failed" and (urls := _URL.findall(text)):
                made, url, state = run, urls[-1], "draft" if {"--draft", "-d"}.intersection(step.words) else ""
            elif made is None:
                continue
            elif verb == "view" and run.result != "failed":
                # a record of one pull request is a line; other lines are about others
                own = "\n".join(line for line in text.splitlines() if url in line or f'"number":{url.rpartition("/")[2]},' in line)
                seen = {match["name"]: match["value"].strip('"') for match in _VIEWED.finditer(own)}
                before = "" if seen.get("state") == "OPEN" and state != "draft" else state
                draft = {"true": "draft", "false": ""}.get(seen.get("isDraft", ""), before)
                state = seen["state"].lower() if seen.get("state") in ("MERGED", "CLOSED") else draft
            elif verb in ("merge", "close") and run.result != "failed" and "--auto" not in step.words and _about(step, url):
                state = {"merge": "merged", "close": "closed"}[verb]
            elif verb in ("ready", "reopen") or (verb in ("merge", "close") and (state == "draft" or run.result == "failed")):
                state = ""  # which one it was may not be known
    return _item(made, PULL, f"opened the pull request {url}{f' ({state})' if state else ''}") if made is not None else None


def _about(step: Step, url: str) -> bool:
    """Tell whether a step of ``gh pr`` names no pull request, or the one of an address, by its number or so."""
    named = next((word for word in step.words[3:] if not word.startswith("-")), "")
    return named.lstrip("#") in ("", url, url.rpartition("/")[2]) and not _OTHER_REPOSITORY.search(step.text)


def _ci(view: SessionView, runs: Sequence[Any], pull: Item | None) -> Item | None:
    """Return how the checks of the pull request stood when all of them were looked at last; None where that may be out of date.

    It is where something was pushed since, or looked at otherwise: in part, for a while, or of another pull request.
    """
    for run in reversed(runs):
        done = steps(run.command)
        looks = [s for s in done if s.subject == "gh run" or (s.subject == "gh pr" and s.words[2:3] == ("checks",))]
        if any(s.subject == "git push" or (s.subject == "gh pr" and s.words[2:3] == ("create",)) for s in done):
            return None
        if not looks:
            continue
        named, url = looks[0].words[3:], pull.text.split()[4] if pull else ""
        whole = len(looks) == 1 and looks[0].subject == "gh pr" and not _NOT_ONCE.search(run.command)
        own = not named or (len(named) == 1 and (named[0] in (url, url.rpartition("/")[2]) if url else not named[0].startswith("-")))
        own = own and not _OTHER_REPOSITORY.search(looks[0].text)
        states = [match["state"] for match in _CHECK_ROW.finditer(printed(view, run))] if whole and own else []
        told = [f"{states.count(state)} {word}" for state, word in _CHECK_STATES.items() if state in states]
        return _item(run, CI, f"CI when last looked at: {', '.join(told)}") if told else None
    return None


def _still_running(view: SessionView, runs: Sequence[Any]) -> Iterator[Item]:
    """Yield the last commands that had not ended when they were seen last; those that check something are told as checks."""
    running = [r for r in runs if r.result == "running" and not CHECKS.intersection(r.purposes)]
    for run in running[-_PROCESSES:]:
        yield _item(run, RUNS, f"`{truncate(shown(run.command, view.session.cwd), _COMMAND)}` not seen to end")
