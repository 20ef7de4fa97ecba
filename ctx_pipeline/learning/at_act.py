"""Which memories speak of a command that is about to run, or of one that just failed: by its words, never by likeness alone.

Read by a hook at every command of an agent: the standard library, and of ours what parses a command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.learning.ask_first import QUOTED, ask_first_of, at_every_act, words_of_command
from ctx_pipeline.learning.file_rules import NO_BRANCHES, SAYS_HOW, avoided, file_rule, forbids, may_speak, of_kinds
from ctx_pipeline.learning.machine_facts import holds_here
from ctx_pipeline.learning.named_files import changed_by
from ctx_pipeline.learning.ports import another_service, answers_elsewhere, is_to_be_reached, port_of_fact, reaches, same_service
from ctx_pipeline.memory.injection_policy import sure_enough
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import RULE_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ctx_pipeline.model.memories import Memory
    from ctx_pipeline.shell.commands import Step

_ABOUT_TO_RUN = lazy_pattern(r"^`([^`]+)` is about to run")
_PLACEHOLDER = frozenset({"NAME", "FILE", "path/", "./path/", "./path/...", "path/...", "FILE::NAME"})
_LEAST_WORDS, _MOST_OF = 2, 0.5
"""Words of a rule that a command must have, and their share, to be what the rule forbids."""

_ALIKE = 0.86
"""Likeness of two findings of one named rule of a linter or compiler."""

LONGEST = 4_000
"""Characters of a command that are looked at."""


def command_of(payload: Mapping[str, Any]) -> str:
    """Return the shell command of a hook's payload; empty for another tool."""
    given = payload.get("tool_input")
    command = given.get("command", given.get("cmd")) if isinstance(given, dict) else None
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        command = command[-1] if len(command) == len(("bash", "-lc", "x")) and command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    return command[:LONGEST] if isinstance(command, str) else ""


def output_of(payload: Mapping[str, Any]) -> str:
    """Return what a failed command printed; empty where a payload does not show a failure."""
    said = payload.get("error", payload.get("error_message"))
    if isinstance(said, str):
        return said
    answer = payload.get("tool_response")
    if isinstance(answer, dict):
        status = next((answer[n] for n in ("exit_code", "exitCode", "code") if isinstance(answer.get(n), int)), None)
        text = "\n".join(str(answer[n]) for n in ("output", "stdout", "stderr", "error") if isinstance(answer.get(n), str))
        return text if (_red(text) if status is None else status) else ""
    return answer if isinstance(answer, str) and _red(answer) else ""


def _red(text: str) -> bool:
    from ctx_pipeline.mining.lessons.failures import looks_red

    return looks_red(text) or (bool(_ENDED_BY.search(text)) and not _COUNTS_PASSES.search(text))


_ENDED_BY = lazy_pattern(
    r"(?m)^(?:E\s+)?(?:[\w.]+\.)?(?:[A-Z]\w*)?(?:Error|Exception)(?:\s\[\w+\])?: \S|^(?:fatal|ERROR|npm error|[\w.-]+: error): \S|^ssh: \S"
    r"|^curl: \(\d+\) \S|^\S{1,20} no matches found: \S|[Cc]onnection refused\b|^\S+: (?:\S+: )?(?:[Pp]ermission denied|[Nn]ot a directory)"
)
"""A line with which a program ends that failed."""

_COUNTS_PASSES = lazy_pattern(r"\b[1-9]\d* (?:passed|passing|tests? ok)\b")


def before_command(command: str, memories: Iterable[Memory], cwd: str | None = None, roots: Sequence[str] = ()) -> list[Memory]:
    """Return the memories that speak of a command that is about to run, the surest first.

    A rule that wants another program, forbids what the words say, or wants the person to be asked
    before this act; what a rule says of pushes and commits to a branch holds for those alone that change
    it; a refusal of the same command, or of its program in favor of another one; a cure of exactly this call, or of
    any call of the program it names.
    Which branch is checked out is read in ``cwd``; without it a push that names none speaks of none. Files are
    named from the root of the repository that holds them, without one from ``cwd``.
    """
    from ctx_pipeline.shell.commands import steps

    every = [step for step in steps(command) if step.words]
    programs = {step.words[0].rpartition("/")[2] for step in every if not _only_asks(step)}
    found = [m for m in memories if _speaks(m, command, every, programs, cwd, roots=roots)]
    return sorted(found, key=lambda m: (m.kind not in RULE_KINDS, -m.confidence, m.memory_id))


_MANAGERS = frozenset(
    {"npm", "pnpm", "yarn", "bun", "pip", "pip3", "uv", "poetry", "pipenv", "pdm", "conda", "docker", "podman", "nerdctl"}
)
_ASKING = frozenset(
    {"list", "ls", "show", "info", "view", "outdated", "freeze", "why", "tree", "search", "graph", "help", "version", "ps", "images"}
    | {"inspect", "logs", "about", "check", "audit", "dir"}
)
_ASKING_OPTIONS = frozenset({"--version", "-V", "--help", "-h"})
_ASKS_ALONE = frozenset({"version", "audit"})
"""Asks where nothing but options follows: ``npm version``, but not ``npm version patch``."""


def _only_asks(step: Step) -> bool:
    """Tell whether a step asks a package manager or a container program something and changes nothing: ``uv pip list``."""
    program, *words = step.words
    if program.rpartition("/")[2] not in _MANAGERS:
        return False
    plain = [word for word in words if not word.startswith("-")]
    asked, *more = plain[1:] if plain[:1] == ["pip"] else plain or [""]
    # behind a subcommand and its words options are those of another program, and -h is the name of a host
    first = words[:1] if more else [*words[:1], *({"--help"} & set(words))]
    return not _ASKING_OPTIONS.isdisjoint(first) or (asked in _ASKING and not (asked in _ASKS_ALONE and (more or "--fix" in words)))


def _speaks(memory: Memory, command: str, every: Sequence[Step], programs: set[str], cwd: str | None, *, roots: Sequence[str]) -> bool:
    body = memory.body
    if not may_speak(memory):
        return False
    if memory.kind in RULE_KINDS:
        instead = set(map(str, body.get("instead_of", ())))
        if instead & programs:
            return True
        if memory.kind == "risk_rule" and body.get("refused") == f"`{command.strip()}`":
            return True
        if memory.kind != "risk_rule" and not body.get("want") and (into := _AGAINST.search(memory.text)):
            return _opens_against(_branches(into[1]), every)
        if memory.kind != "risk_rule" and not body.get("want") and (limited := _branch_limit(memory)):
            ask_first = ask_first_of(memory)
            return _changes_branch(limited, command, cwd) or bool(ask_first and ask_first.beside(limited.acts).done_by(command, cwd, roots))
        if ask_first := ask_first_of(memory):
            return ask_first.done_by(command, cwd, roots)
        if memory.kind == "risk_rule":
            return False
        return _wanted(memory, command, every, cwd) if body.get("want") else _forbidden(memory, command, every, cwd, roots)
    if memory.kind == "repo_convention" and _OF_FOLDER.match(memory.text):
        # the very call, but for what it passed with, is sure enough of one session
        return any(_lacks_option(s, c) for s in every for c in body.get("commands", ()))
    if body.get("once") and not body.get("warning"):
        return False
    told = " ".join(command.split())
    if body.get("resolution") in ("command", "spelling") and told in map(str, body.get("did", ())):
        return False
    if body.get("absent") and not (_calls(str(body["absent"]), command, every) and holds_here(memory)):
        return False
    if body.get("about") == "option" and not holds_here(memory):
        return False
    if "argument_count" in body:
        return _breaks_limits(body, every)
    about = _ABOUT_TO_RUN.match(memory.when_to_use or "")
    if about is not None:
        fails_so = _named_in_error(memory) <= set(_NAMES.findall(command)) and _left_out(memory) <= set(command.split())
        return fails_so and any(_begins(step, about[1]) for step in every)
    failed = str(body.get("failed") or "")
    return body.get("resolution") == "command" and bool(failed) and failed in (told, *(" ".join(s.text.split()) for s in every))


def _calls(program: str, command: str, every: Sequence[Step]) -> bool:
    """Tell whether a command line looks for a program by its bare name, where the shell does."""
    from ctx_pipeline.mining.lessons.failed_commands.absent_programs import activates, called

    return any(program in called(step) for step in every) and not activates(command)


def _breaks_limits(body: Mapping[str, Any], every: Sequence[Step]) -> bool:
    """Tell whether a step calls a subcommand with a number of arguments that it refused."""
    from ctx_pipeline.mining.lessons.failed_commands.argument_counts import ArgumentCount, breaks_limits

    return any(breaks_limits(step, str(body.get("subcommand")), ArgumentCount(*body["argument_count"])) for step in every)


def _named_in_error(memory: Memory) -> set[str]:
    """Return the words of the command that failed which its error quotes: without them another call of the program is another case."""
    failed = set(_NAMES.findall(str(memory.body.get("failed") or memory.text.split("` ", 1)[0])))
    subject = set(str(memory.body.get("subject") or "").split())
    quoted = (name for text in QUOTED.findall(str(memory.body.get("error") or "").replace("`", "'")) for name in _NAMES.findall(text))
    return {name for name in quoted if name in failed and name not in subject}


def _left_out(memory: Memory) -> set[str]:
    """Return the options without which the command that failed passed, where nothing else was changed: a call without them is fine."""
    did = str(next(iter(memory.body.get("did") or ()), "")).split()
    failed = str(memory.body.get("failed") or memory.text.split("` ", 1)[0]).strip("`").split()
    gone = {w for w in failed if w.startswith("-") and w not in did}
    return gone if did and set(did[:1]) <= set(failed) and not any(w.startswith("-") or "=" in w for w in did if w not in failed) else set()


_NAMES = lazy_pattern(r"[\w.@-]+")
_OF_FOLDER = lazy_pattern(r"(?i)in `")
"""Begins what is known of one folder of a project."""


_CHOOSES = frozenset({"--cd", "-C", "--directory", "--prefix", "--manifest-path", "--filter", "--workspace", "--project"})
"""Options that name a package: without one another target is meant."""


def _lacks_option(step: Step, known: object) -> bool:
    """Tell whether a step is a command that is known to pass, on the same target, without the options that this always had."""
    words = str(known).split()
    options = {w.partition("=")[0] for w in words if w.startswith("-")}
    return (
        bool(options)
        and options.isdisjoint(_CHOOSES)
        and [w for w in step.words if not w.startswith("-")] == [w for w in words if not w.startswith("-")]
        and options.isdisjoint(w.partition("=")[0] for w in step.words)
    )


def _forbidden(memory: Memory, command: str, every: Sequence[Step], cwd: str | None, roots: Sequence[str]) -> bool:
    """Tell whether a command does what a rule forbids.

    It has most of its words, or the one that the rule is about as an option or a subcommand, or changes a file that it names.
    """
    from ctx_pipeline.mining.lessons.rules.said_rules import OBJECTS, core

    rule = file_rule(memory)
    if rule is not None:
        return any(of_kinds(path, rule.kinds) for path in changed_by(command, rule.names, cwd, rule.verb, roots))
    what, where = core(memory.text)
    wanted = avoided(memory, what, where)
    forbidden = forbids(memory.text, what)
    doing = forbidden[1] if forbidden else ""
    narrower = (what & wanted) - {doing} - OBJECTS - SAYS_HOW
    for steps, words in _acts(command, [step for step in every if not _only_views(step)]):
        held = wanted & words
        acts = {w for s in steps if s.words[0].rpartition("/")[2] in _ACTING for w in (*s.subject.split()[1:], *_options(s.words))}
        if doing in _MADE and doing not in held | acts:
            continue
        if len(held) >= _LEAST_WORDS and len(held) >= _MOST_OF * len(wanted) and where & wanted <= held:
            return True
        if doing and doing in acts and (where & wanted) | narrower <= held | acts:
            return True
    return False


def _acts(command: str, every: Sequence[Step]) -> Iterator[tuple[list[Step], set[str]]]:
    """Yield the acts of a command line: the steps of each pipe, and their words with those of what they work on.

    That is the folder that the line changed to, and for a commit the files that it added to it before.
    """
    from ctx_pipeline.shell.commands import steps_by_piece

    folder: set[str] = set()
    added: set[str] = set()
    steps: list[Step] = []
    words: set[str] = set()
    for piece, own in steps_by_piece(command):
        if not piece.piped:
            if steps:
                yield steps, words
            steps, words = [], set(folder)
        said = words_of_command(piece.text)
        steps, words = [*steps, *(s for s in own if s in every)], words | said
        if piece.words[:1] in (("cd",), ("pushd",)):
            folder = set(said)
        subjects = {s.subject for s in own}
        if subjects & {"git add", "git rm", "git mv"}:
            added |= said
        if "git commit" in subjects:
            words |= added
    if steps:
        yield steps, words


class _BranchLimit(NamedTuple):
    """What a rule forbids of some branches."""

    acts: frozenset[str]
    names: frozenset[str]
    """branches, or remotes"""
    forced: bool
    """whether only force is meant"""


def _opens_against(branches: Collection[str], every: Sequence[Step]) -> bool:
    from ctx_pipeline.shell.git_branches import pull_request_base

    return any(pull_request_base(step) in branches for step in every)


def _branch_limit(memory: Memory) -> _BranchLimit | None:
    """Return which pushes and commits a rule forbids where it names branches.

    None where it speaks of what is committed there: that is looked for in the words of the command.
    """
    from ctx_pipeline.mining.lessons.rules.said_rules import OBJECTS, terms
    from ctx_pipeline.shell.git_branches import COMMIT, PUSH

    said = memory.text.lower()
    found = _BRANCH_ACTS.search(said)
    if found is None:
        return None
    ask_first = ask_first_of(memory)
    named = next((match for match in _TO_BRANCHES.finditer(said, found.end()) if _branches(match[1])), None)
    listed = said[found.start() : named.start()] if ask_first and named else found[0]
    acts = frozenset(PUSH if _OF_PUSH.search(act) else COMMIT for act in _BRANCH_ACT.findall(listed))
    if named and acts == {COMMIT} and terms(said[found.end() : named.start()]) - OBJECTS - SAYS_HOW:
        return None
    names = _branches(named[1]) if named else frozenset(_KNOWN_BRANCHES.findall(said)) - (ask_first.names() if ask_first else set())
    return _BranchLimit(acts, names, bool(_FORCE.search(said)) and not _FORCE_TOO.search(said)) if names else None


def _branches(said: str) -> frozenset[str]:
    """Return the branches that a list of words names; "git" and "the repo" are none."""
    words = re.split(r"\s*,\s*|\s+(?:or|and|nor)\s+(?:to\s+|on\s+)?", said)
    return frozenset(b for word in words if (b := word.strip("`'\".").removeprefix("origin/")) and not _A_FILE.search(b)) - NO_BRANCHES


_A_FILE = lazy_pattern(r"[A-Za-z_]\.[a-z]{2,5}$")
"""Ends the name of a file, which is no branch: ``schema.sql``, but not ``release/1.2.x``."""


def _changes_branch(limited: _BranchLimit, command: str, cwd: str | None) -> bool:
    from ctx_pipeline.memory.scope import current_branch
    from ctx_pipeline.shell.git_branches import EVERY, branch_changes

    return any(
        made.act in limited.acts
        and (made.forced or not limited.forced)
        and (made.branches & (limited.names | {EVERY}) or made.remote in limited.names)
        for made in branch_changes(command, cwd, lambda folder: current_branch(folder) if cwd else "")
    )


_ACT = (
    r"(?:(?<![\w-])(?:force[- ]?)?(?:push(?:es|ing|ed|en|e|t)?|commit(?:s|ting|ted|ten|te|tet)?)(?![\w-])"
    r"|푸시|推送|プッシュ|커밋|提交|コミット)"
)
_BRANCH_ACT = lazy_pattern(_ACT)
_BRANCH_ACTS = lazy_pattern(rf"{_ACT}(?:(?:\s*[,/]\s*|\s+(?:or|and|nor|oder|und)\s+){_ACT})*")
_OF_PUSH = lazy_pattern(r"push|푸시|推送|プッシュ")
_FORCE = lazy_pattern(r"(?<!\w)force|(?<!\S)-f\b")
_FORCE_TOO = lazy_pattern(r"\b(?:even|especially|particularly)\b.{0,20}(?:force|-f\b)|\bpush\w*(?:\s*[,/]\s*|\s+(?:or|and|nor)\s+)force")
_BRANCH = r"[`'\"]?[\w.@/-]*\w[`'\"]?"
_TO_BRANCHES = lazy_pattern(
    rf"\s(?:to|on|onto|into|auf)\s+(?:the\s+|our\s+|a\s+|den\s+)?(?!(?:files?|code|changes?)\b)"
    rf"({_BRANCH}(?:(?:\s*,\s*|\s+(?:or|and|nor)\s+)(?:to\s+|on\s+)?{_BRANCH})*)"
)
_AGAINST = lazy_pattern(
    r"(?i)\b(?:open|creat|mak|submit|rais|send)\w*\s(?:\w+\s){0,2}(?:PRs?|MRs?|(?:pull|merge)[- ]requests?)\s+"
    rf"(?:target(?:s|ing)?|against|into|onto|to)\s+(?:the\s+|our\s+)?({_BRANCH}(?:(?:\s*,\s*{_BRANCH})*\s+(?:or|and|nor)\s+{_BRANCH})?)"
    r"(?=\s*(?:(?:branch|directly|again|any\s?more|without|unless)\b|[.,;:!)]|$))"
)
"""Names the branches against which no pull request is to be opened."""
_KNOWN_BRANCHES = lazy_pattern(r"(?a)(?<![\w/.-])(?:main|master|trunk|develop|release|staging|production)(?![\w/.-])")
"""Names of branches that a rule may say in any language."""


def _wanted(memory: Memory, command: str, every: Sequence[Step], cwd: str | None) -> bool:
    """Tell whether a command does what a rule speaks of, a commit or a pull request, and not yet as the rule wants it.

    So is one of an act before which the rule wants something else done, where the line does not do it.
    """
    from ctx_pipeline.mining.lessons.rules.said_rules import core, terms

    done = {w for s in every if s.words[0].rpartition("/")[2] in _ACTING for w in s.subject.split()[1:]}
    looks = any(tuple(s.words[1:3]) == ("pr", w) for s in every for w in _LOOKING)
    doing = set() if looks else done & _MADE
    wants = set(map(str, memory.body.get("want", ()))) & core(memory.text)[0]
    ahead = _BEFORE_ACT.search(memory.text)
    if not (ahead or wants & _MADE - doing or sure_enough(memory)):
        return False  # the command cannot show whether it is done so: what was said once in passing waits to be said again
    now = wants & doing or (ahead and any(act.startswith(ahead[1].lower()) for act in doing))
    if ahead and (limited := _limit_ahead(memory.text.lower(), ahead)) and not _changes_branch(limited, command, cwd):
        return False
    return bool(now) and bool(wants) and not wants <= terms(re.sub(r"[-=/]", " ", command))


def _limit_ahead(said: str, ahead: re.Match[str]) -> _BranchLimit | None:
    """Return to which branches that goes before which a rule wants something done; None where it names none."""
    from ctx_pipeline.shell.git_branches import COMMIT, PUSH

    act = {"push": PUSH, "commit": COMMIT}.get(ahead[1].lower())
    named = _TO_BRANCHES.search(re.split(r"[,;:(]|[.!]\s", said[ahead.end() :])[0])
    names = frozenset(b for b in _branches(named[1]) if "/" in b or _KNOWN_BRANCHES.fullmatch(b)) if named else frozenset[str]()
    return _BranchLimit(frozenset({act}), names, forced=False) if act and names else None


_BEFORE_ACT = lazy_pattern(
    r"(?i)\bbefore\s+(?:(?:you|we|i|ever|each|every|any|a|the)\s+){0,3}(commit|push|merg|rebas|releas|tag|deploy|publish)"
)


_MADE = frozenset({"commit", "pr", "push", "merge", "rebase", "release", "tag", "squash", "deploy", "publish"})
"""Acts of work that rules speak of."""

_VIEWING = frozenset({"list", "view", "checks", "status", "diff"})


def _only_views(step: Step) -> bool:
    """Tell whether a step shows something of a code host: ``gh pr list``."""
    return step.words[0].rpartition("/")[2] in ("gh", "glab") and step.words[2:3] != () and step.words[2] in _VIEWING


_LOOKING = ("list", "view", "checks", "status", "diff", "checkout", "comment")

_ACTING = frozenset({"git", "gh", "glab", "jj", "hg", "npm", "pnpm", "yarn", "docker", "kubectl", "terraform"})
"""Programs whose subcommands and options are what rules of work forbid: ``git push``, ``gh pr merge --squash``."""


def _options(words: Sequence[str]) -> list[str]:
    return [w.lstrip("-").partition("=")[0] for w in words if w.startswith("--")]


def asks_where(prompt: str) -> bool:
    """Tell whether a prompt asks to write, change, find or reach something."""
    return _MAKES.match(prompt[:LONGEST]) is not None or reaches(prompt[:LONGEST])


def at_prompt(prompt: str, memories: Iterable[Memory], *, heard_at_act: bool = True) -> list[Memory]:
    """Return what speaks of what a prompt asks to do: where that belongs or lies which it writes or looks for, rules of a commit.

    A wish to be asked first is left out where it is heard before the act itself.
    """
    asked = _MAKES.match(prompt[:LONGEST])
    if asked is None and not reaches(prompt[:LONGEST]):
        return []
    from ctx_pipeline.mining.lessons.rules.said_rules import terms

    words = terms(prompt[:LONGEST])
    verb = asked["verb"].lower() if asked else ""
    making = verb in _MAKING
    acts = words & _MADE if verb in _DOING else set()
    found = [
        m
        for m in memories
        if (is_to_be_reached(m, prompt[:LONGEST]) if port_of_fact(m) else asked and _tells_where(m, prompt, words, making=making))
        or (making and _asked_for(m, words))
        or (m.kind in RULE_KINDS and acts & _terms_of(m) and not (heard_at_act and at_every_act(m)))
    ]
    return sorted(found, key=lambda m: (-m.confidence, m.memory_id))


def _tells_where(memory: Memory, prompt: str, words: Collection[str], *, making: bool) -> bool:
    """Tell whether a memory says where that belongs or lies which a prompt names, and the prompt does not say it."""
    body = memory.body
    place = str(body.get("place") or "")
    if not place or (body.get("once") and memory.status != "accepted") or place.lower() in prompt.lower():
        return False
    return not set(words).isdisjoint(map(str, body.get("about", ()))) and (making or body.get("form") == "where")


def _asked_for(memory: Memory, words: Collection[str]) -> bool:
    """Tell whether a prompt asks to make the very thing that a rule of several sessions forbids: it has all words of it."""
    avoided, body = set(map(str, memory.body.get("avoid", ()))), memory.body
    standing = memory.kind in RULE_KINDS and not body.get("want") and (not body.get("once") or memory.status == "accepted")
    return standing and len(avoided) >= _LEAST_WORDS and avoided <= set(words)


def _terms_of(memory: Memory) -> set[str]:
    return {str(w) for name in ("want", "avoid") for w in memory.body.get(name, ())}


_DOING = frozenset({"commit", "push", "merge", "open", "make", "create", "squash", "rebase", "release", "tag", "publish", "deploy", "ship"})
_MAKING = frozenset({"add", "write", "create", "make", "move", "generate", "put", "new"})
_MAKES = lazy_pattern(
    r"(?is)^\W*(?:(?:please|now|then|ok|okay|and|also|next|can you|could you|let'?s|i want you to|you should)[,\s]+)*"
    r"(?P<verb>commit|push|merge|squash|rebase|release|tag|publish|deploy|ship|add|write|create|make|move|generate|put|new|change|edit|update|set|fix|adjust|extend|look|find|open|read|check|show|where)\b"
)
"""Asks to write, change or find something."""


def _begins(step: Step, pattern: str) -> bool:
    """Tell whether a step begins as a pattern does; a placeholder stands for one word."""
    words = step.text.split()
    asked = pattern.split()
    return len(words) >= len(asked) and all(
        a in (w, w.rpartition("/")[2]) or (a in _PLACEHOLDER and not w.startswith("-")) for a, w in zip(asked, words, strict=False)
    )


def after_failure(command: str, output: str, cwd: str | None, memories: Iterable[Memory]) -> list[Memory]:
    """Return the memories of the error that a command just met, a cure before a warning; none where its line is another one."""
    from ctx_pipeline.mining.lessons.commands import checks_format
    from ctx_pipeline.mining.lessons.failed_commands.proof import missing
    from ctx_pipeline.mining.lessons.failures import UNFORMATTED, quoted_as_name, salient_line, signature, unformatted, without_place
    from ctx_pipeline.shell.commands import steps

    every = [step for step in steps(command) if step.words]
    of_tests = any(s.purpose == "test" for s in every)
    # what a test prints is what it is about
    to_format = unformatted(output) and (not of_tests or any(checks_format(s.text) for s in every))
    if to_format:
        from ctx_pipeline.learning.formatters import formats_project, formatted_others

    lines = [line for form in (False, True) if (line := salient_line(output, cwd, of_tests=of_tests, of_any_form=form))]
    if not (lines or to_format):
        return []
    forms = {signature(form) for line in lines for form in (line, quoted_as_name(line), without_place(line), _PLACE_AT_END.sub("", line))}
    forms |= {UNFORMATTED} if to_format else set()
    line = "\n".join(lines)
    subjects = {step.subject for step in every} | {step.words[0].rpartition("/")[2] for step in every}
    looked = looked_for(command, line)
    absent = missing(lines[-1])[0] if _NOT_THERE.search(line) else ""
    expands = any(_EXPANDED & set(word) for word in command.split())
    found = [
        m
        for m in memories
        if (
            _same_error(m, forms, line)
            and _same_program(m, subjects)
            and (expands or m.body.get("about") != "glob")
            and not (to_format and formatted_others(m, command, output, cwd))
        )
        or same_service(m, line)
        or _lies_elsewhere(m, looked)
        or answers_elsewhere(m, command, line)
        or (absent and _runs_otherwise(m, absent))
        or (to_format and formats_project(m, command, output, cwd))
    ]
    return sorted(found, key=lambda m: (bool(m.body.get("warning")), -m.confidence, m.memory_id))


def _same_error(memory: Memory, forms: set[str], line: str) -> bool:
    body = memory.body
    if body.get("did") and not all(name in line for name in _named_in_error(memory)):
        return False
    if another_service(memory, line):
        return False
    if memory.kind in RULE_KINDS:
        return False
    if body.get("about") == "option" or "argument_count" in body:  # the failure says so itself
        return False
    # of what one session saw this failure is the second sight
    if not (body.get("resolution") or body.get("steps") or body.get("warning") or body.get("transient")):
        return False
    known = str(body.get("signature") or "")
    if known in forms:
        return True
    rule = str(body.get("rule") or "")
    if not (rule and known and rule in line):
        return False
    from difflib import SequenceMatcher

    return any(SequenceMatcher(None, known, form).ratio() >= _ALIKE for form in forms)


_EXPANDED = frozenset("*?[")
"""What makes a word a pattern of files to a shell."""

_PLACE_AT_END = lazy_pattern(r"\s(?:at|in)\s(['\"`]?)[~/][^'\"`\s]*\1$")
"""The folder in which something was met, at the end of its line."""

_NOT_THERE = lazy_pattern(r"command not found|: not found|No module named|no such command")


def _runs_otherwise(memory: Memory, program: str) -> bool:
    """Tell whether a project runs a program that is not found by itself from an environment: ``uv run``, ``source .venv/bin/activate``."""
    if memory.kind != "repo_convention":
        return False
    return any(program in (words := command.split())[1:] and program != words[0] for command in _SPANS.findall(memory.text))


_SPANS = lazy_pattern(r"`([^`]+)`")
_ABSENT = lazy_pattern(r"(?i)no such file or directory|cannot access|not found|does not exist")


def looked_for(command: str, output: str) -> set[str]:
    """Return the names of the folders and files that a command did not find; none where its output says nothing of it."""
    from ctx_pipeline.mining.lessons.rules.said_rules import terms
    from ctx_pipeline.shell.commands import steps

    if not _ABSENT.search(output):
        return set()
    words = (w for s in steps(command) for w in s.words[1:] if not w.startswith("-"))
    return {part for w in words for part in terms(re.sub(r"[/._-]", " ", w))}


def _lies_elsewhere(memory: Memory, looked: set[str]) -> bool:
    """Tell whether a person said twice where that lies which a command did not find."""
    from ctx_pipeline.mining.lessons.rules.said_rules import akin

    told = bool(memory.body.get("place")) and not memory.body.get("once") and not port_of_fact(memory)
    return told and any(akin(a, b) for a in map(str, memory.body.get("about", ())) for b in looked)


def _same_program(memory: Memory, subjects: set[str]) -> bool:
    subject = str(memory.body.get("subject") or "")
    return not subject or subject in subjects or subject.partition(" ")[0] in subjects
