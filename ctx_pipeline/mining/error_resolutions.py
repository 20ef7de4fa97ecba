"""What broke in a project and what made it work: commands that failed and later passed."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.check_results import check_results
from ctx_pipeline.mining.lessons.commands import (
    CHECKS,
    PROVING,
    Run,
    checks_format,
    failed_part,
    formats,
    listed,
    outside,
    runs,
    shown,
    typed,
    whole,
)
from ctx_pipeline.mining.lessons.failed_commands import unknown_keys
from ctx_pipeline.mining.lessons.failed_commands.argument_counts import refused_count
from ctx_pipeline.mining.lessons.failed_commands.changes import idiom, is_test, key_change, silences, written_before
from ctx_pipeline.mining.lessons.failed_commands.fixes import changed, cure, in_folder, loses
from ctx_pipeline.mining.lessons.failed_commands.passing_causes import transient
from ctx_pipeline.mining.lessons.failed_commands.proof import (
    SERVICE_DOWN,
    installs,
    own_program,
    prepares,
    proves,
    renamed_host,
    starts_service,
    throwaway,
)
from ctx_pipeline.mining.lessons.failures import (
    UNFORMATTED,
    clean,
    looks_red,
    quoted_as_name,
    salient_line,
    shorten_paths,
    signature,
    without_place,
)
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.failed_commands.changes import Change, KeyChange
    from ctx_pipeline.mining.lessons.failed_commands.fixes import Cure
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_REACH = 60
"""Tool calls after a failure within which its resolution is looked for."""
_MOST = 8
_ALIKE = 60
"""Likeness from which two calls of a program that is no check try the same thing."""

_ARGUMENTS = r"unexpected (?:extra )?arguments?\b|too many arguments\.?$|arg\(s\), (?:only )?received"
"""Says that a program was given too many or too few arguments."""
_ENVIRONMENT = re.compile(
    r"(?i)command not found|No module named|ModuleNotFoundError|Cannot find module|not a git repository|No such file or directory"
    r"|unknown (?:option|command|flag|argument)|unrecognized|invalid (?:option|choice|argument)|flag provided but not defined|not installed"
    r"|permission denied|no such (?:command|option)|unknown JSON field|already (?:used by|checked out)"
    rf"|usage:|{_ARGUMENTS}|could not find|not found in PATH|could not resolve hostname"
)

_CALL = re.compile(
    r"(?i)command not found|no such (?:command|option|subcommand)|not installed|unrecogni[sz]ed|no library targets"
    rf"|{_ARGUMENTS}"
    r"|unknown (?:option|command|flag|argument)|invalid (?:option|choice|argument)|flag provided but not defined|usage:"
)
"""Says that the program was called wrongly, whatever it was called for."""


@dataclass
class _Between:
    """What happened from a failure to the command that passed."""

    files: list[str] = field(default_factory=list)
    edits: list[Any] = field(default_factory=list)
    setup: list[Run] = field(default_factory=list)
    formatters: list[Run] = field(default_factory=list)
    prepared: list[Run] = field(default_factory=list)
    """commands that made what a check needs: generated code, a database that is up to date"""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield a candidate for each failed command of a session that passed later, with the cause and the cure."""
    yield from unknown_keys.extract(view)
    threads: dict[str, list[Any]] = {}
    for call in view.tool_calls:
        threads.setdefault(call.thread_id, []).append(call)
    ran: dict[str, list[Run]] = {}
    for run in view.once(runs):
        ran.setdefault(run.call.thread_id, []).append(run)
    found: dict[tuple[str, str], MemoryCandidate] = {}
    for calls in threads.values():
        if any(run.failed for run in ran.get(calls[0].thread_id, ())):
            for subject, lesson, candidate in _pairs(view, calls, ran[calls[0].thread_id]):
                kept = found.get((subject, lesson))
                if kept is None or candidate.confidence > kept.confidence:
                    found[subject, lesson] = candidate
    yield from sorted(found.values(), key=lambda c: (-c.confidence, c.text))[:_MOST]


class Resolved(NamedTuple):
    """A failed command, and what was done until the same thing worked."""

    failed: str
    error: str
    passed: str
    did: list[str]
    """commands that set up what was missing"""
    files: list[str]
    """files that were changed in between"""
    evidence: tuple[str, ...]
    """event_ids: the failed output, the changes, what passed"""
    ended: int | None
    """when it passed, in microseconds since 1970"""


def resolved(view: SessionView, event_id: str) -> Resolved | None:
    """Return what ended the failure that an event shows; None where no later run of the session shows the same thing working."""
    run = next((r for r in view.once(runs) if r.failed and event_id in {r.call.call_event, r.call.result_event, *r.row.outputs}), None)
    error = _error(view, run) if run is not None else ""
    if run is None or run.unclear or not error or transient(run, error):
        return None
    own = [r for r in view.once(runs) if r.call.thread_id == run.call.thread_id]
    calls = [c for c in view.tool_calls if c.thread_id == run.call.thread_id]
    passed, between = _resolution(view, calls, own, own.index(run), error, through=True)
    if passed is None:
        return None
    cwd = view.session.cwd
    did = [whole(r.command, cwd) for r in installs(_last_of_each(between.setup), error)]
    files = list(dict.fromkeys(shorten_paths(p, cwd) for p in between.files))
    changes = [c.call_event for c in between.edits]
    evidence = tuple(dict.fromkeys((event_id, *changes, passed.call.call_event, passed.call.result_event)))
    return Resolved(shown(run.command, cwd), error, shown(passed.command, cwd), did, files, evidence, passed.call.ended)


def _pairs(view: SessionView, calls: list[Any], runs: list[Run]) -> Iterator[tuple[str, str, MemoryCandidate]]:
    last_edit = -1
    for index, run in enumerate(runs):
        if not run.failed or run.unclear or throwaway(run, view.session.cwd):
            continue
        if any(
            r.failed and r.step.subject == run.step.subject and last_edit < r.place
            for r in runs[max(0, index - 6) : index]
            if last_edit >= 0
        ):
            continue
        error = _error(view, run)
        cause = transient(run, error) if error else ""
        mended = bool(cause) and run.step.purpose in PROVING
        if not error or (cause and not mended and run.step.subject != "ssh"):
            continue
        passed, between = _resolution(view, calls, runs, index, error)
        if passed is not None and (not cause or renamed_host(run, passed) or (mended and between.edits)):
            candidate = _candidate(view, run, passed, between, error)
            if candidate is not None:
                did = (candidate.structured or {}).get("did")
                yield candidate.subject, " ".join(did) if did else signature(error), candidate


def _error(view: SessionView, run: Run) -> str:
    return salient_line(run.output, view.session.cwd, of_tests=run.step.purpose == "test")


def _resolution(
    view: SessionView, calls: list[Any], runs: list[Run], index: int, error: str, *, through: bool = False
) -> tuple[Run | None, _Between]:
    """Return the first later run that shows the same thing working, and what was done before it.

    Another failure in between ends the search: what came before it cured that one or this.
    ``through`` goes on behind it.
    """
    run = runs[index]
    between = _Between()
    environment, called = _of_environment(error), bool(_CALL.search(error))
    down, own = bool(SERVICE_DOWN.search(error)), own_program(run, error)
    edits_from = run.place + 1
    for later in runs[index + 1 :]:
        if later.place - run.place > _REACH:
            break
        for call in calls[edits_from : later.place]:
            if call.action in ("edit", "write") and not call.is_error:
                between.edits.append(call)
                between.files += [p for p in call.paths if not outside(p)]
        edits_from = later.place
        if (run.step.purpose in CHECKS and not called and _apart(run, later)) or not _same_goal(run, later, environment=environment):
            if later.passed and formats(later.step.text):
                between.formatters.append(later)
            if later.well and (starts_service(later) if down else later.step.purpose == "install"):
                between.setup.append(later)
            elif later.well and not down and prepares(later):
                between.prepared.append(later)
            continue
        if later.well and not proves(view, run, later):
            continue
        if checks_format(run.step.text) and formats(later.step.text):
            continue
        if later.well and not own and changed(run, later) and not between.setup:
            continue
        lost = changed(run, later) and (refused_count(error) is not None or loses(run, later, error))
        if later.well and not between.edits and lost and cure(run, later, error, None) is None:
            continue
        if later.failed:
            same = signature(_error(view, later)) == signature(error)
            if not same and not through and (between.edits or not environment):
                return None, between
            if same:
                between.setup.clear()  # what was installed or made so far did not help
                between.prepared.clear()
            continue
        if not later.well or (throwaway(later, view.session.cwd) and not throwaway(run, view.session.cwd)):
            continue
        if looks_red(later.output) and later.step.purpose in PROVING:
            continue
        return later, between
    return None, between


def _of_environment(error: str) -> bool:
    return bool(_ENVIRONMENT.search(error) or SERVICE_DOWN.search(error))


def _same_goal(run: Run, later: Run, *, environment: bool) -> bool:
    """Tell whether two runs try the same thing.

    The same program and target do; after a fault of the environment also the same
    program called in another way.
    """
    if run.step.subject == later.step.subject:
        return run.step.purpose in CHECKS or _likeness(run, later) >= _ALIKE
    if not environment or run.step.purpose != later.step.purpose or run.step.purpose not in PROVING | {"run"}:
        return False
    first, second = run.step.subject.split(), later.step.subject.split()
    return first[0] == second[0] or first[-1] == second[-1]


def _apart(run: Run, later: Run) -> bool:
    """Tell whether two checks chose tests or files that have nothing in common."""
    chosen = [
        [w.strip("'\"") for w in r.step.text.split() if not w.startswith("-") and len(w) > _LEAST_NAME and w not in r.step.subject.split()]
        for r in (run, later)
    ]
    return all(chosen) and not any(a in b or b in a for a in chosen[0] for b in chosen[1])


_LEAST_NAME = 5
"""Characters of the longest word of a call that names neither a test nor a file."""


def _likeness(run: Run, later: Run) -> float:
    """Return how alike two command lines are, 0 to 100."""
    from rapidfuzz import fuzz

    return fuzz.token_set_ratio(run.step.text, later.step.text)


def _candidate(view: SessionView, run: Run, passed: Run, between: _Between, error: str) -> MemoryCandidate | None:
    cwd = view.session.cwd
    failed_text = shown(failed_part(run), cwd)
    files = list(dict.fromkeys(shorten_paths(p, cwd) for p in between.files))
    check = run.step.purpose in CHECKS
    made = check and not between.edits and not between.setup and not changed(run, passed) and len(between.prepared) == 1
    between.setup = between.prepared if made else installs(_last_of_each(between.setup), error)
    setup = list(dict.fromkeys(whole(r.command, cwd) for r in between.setup))
    environment = _of_environment(error)
    body: dict[str, Any] = {"failed": shown(run.command, cwd), "error": error, "signature": signature(error)}
    body["passed"] = shown(passed.command, cwd)
    body["any_name"] = signature(quoted_as_name(error))
    body["seconds"] = max(0, round(((passed.call.ended or 0) - (run.call.ended or 0)) / 1e6))
    evidence = [run.call.call_event, *run.shown_by(view, error)]
    when, priority = f"`{typed(run.step)}` fails with “{without_place(error)}”", 4
    if setup and (environment or made):
        body |= {"resolution": "setup", "did": setup[:3], "steps": [f"run `{c}`" for c in (*setup[:3], whole(failed_part(run), cwd))]}
        text = f"`{failed_text}` fails with “{without_place(error)}” until {listed(setup[:3])} has run."
        kind, confidence = "tool_lesson", 0.7
        evidence += [e for r in between.setup[:2] for e in (r.call.call_event, r.call.result_event)]
    elif between.formatters and not between.edits and not changed(run, passed) and _any_check(run):
        did = [whole(r.command, cwd) for r in _last_of_each(between.formatters)][:2]
        body |= {"resolution": "command", "did": did, "steps": [f"run `{c}`" for c in (*did, whole(failed_part(run), cwd))]}
        text = f"`{failed_text}` fails on formatting until {listed(did)} has run."
        body["signature"] = UNFORMATTED
        when, kind, confidence = f"`{typed(run.step)}` {UNFORMATTED}", "tool_lesson", 0.6
        evidence += [e for r in between.formatters[:2] for e in (r.call.call_event, r.call.result_event)]
    elif changed(run, passed) and (environment or not between.files):
        found = cure(run, passed, error, cwd) if environment or (check and not _tests_failed(run)) else None
        if found is None:
            return None
        body |= {"resolution": found.resolution, "did": found.did, "steps": found.steps}
        body |= {"signature": signature(found.error)} if found.resolution == "spelling" else {}
        if found.limits:
            body |= {"subcommand": typed(run.step), "argument_count": list(found.limits)}
            del body["failed"], body["passed"]  # of these calls only what the text says is kept: an argument may be a secret
        marks = (("plain", found.plain), ("ages", found.ages), ("at_once", in_folder(run, passed) and _at_once(view, run, passed)))
        body |= {k: True for k, v in marks if v}
        text, when = found.text, found.when
        kind, confidence, priority = "tool_lesson", *_worth(found, environment=environment)
    elif files and check:
        kind, priority = "failure_trigger", 3
        text, when, confidence = _edited(view, run, between, error, body)
        body["steps"].append(f"run `{whole(passed.command, cwd)}`")
        told = body.pop("call")
        evidence += [told.call_event] if told else [c.call_event for c in (*between.edits[:2], between.edits[-1])]
    else:
        return None
    return MemoryCandidate(
        kind=kind,
        text=text,
        when_to_use=when,
        evidence_refs=tuple(dict.fromkeys([*evidence, passed.call.call_event, passed.call.result_event])),
        confidence=confidence,
        priority=priority,
        scope="repo",
        risk="low" if kind == "failure_trigger" or check else "medium",
        structured=body,
        subject="shell" if body.get("resolution") == "folder" else run.step.subject,
        ts=run.call.ended,
    )


def _tests_failed(run: Run) -> bool:
    """Tell whether tests ran and some failed: that they pass when called in another way may be chance, and cures none of them."""
    return any(told.purpose == "test" and told.failed and not told.stopped for told in check_results(run.output))


def _any_check(run: Run) -> bool:
    """Tell whether a run is a check that formatting can end and that does not say so by its name."""
    return run.step.purpose in ("lint", "check") and not checks_format(run.step.text)


def _at_once(view: SessionView, run: Run, passed: Run) -> bool:
    """Tell whether what passed was the very next call that was made once the failure was seen."""
    seen = view.by_event.get(run.call.result_event)
    after = (c.seq for c in view.tool_calls if c.thread_id == run.call.thread_id and seen is not None and c.seq > seen.seq)
    return bool(next(after, None) == passed.call.seq)


def _last_of_each(installs: list[Run]) -> list[Run]:
    """Return what was installed, of two that installed the same thing the later one."""
    named = [{w for w in r.step.words[1:] if not w.startswith("-") and w not in r.step.subject.split()} for r in installs]
    return [r for i, r in enumerate(installs) if not any(named[i] & later for later in named[i + 1 :])]


def _worth(found: Cure, *, environment: bool) -> tuple[float, int]:
    """Return confidence and priority of a cure: what names a version ages."""
    if found.ages:
        return 0.45, 2
    if found.resolution == "folder":
        return 0.6, 4
    return 0.7 if environment or found.resolution == "spelling" else 0.55, 4


def _edited(view: SessionView, run: Run, between: _Between, error: str, body: dict[str, Any]) -> tuple[str, str, float]:
    """Return text, occasion and confidence of a failure that a change of files ended; the parts go into ``body``."""
    cwd = view.session.cwd
    significant_terms = key_change(view, between.edits, error)
    change = significant_terms.change if significant_terms else None
    files = list(
        dict.fromkeys(
            shorten_paths(p, cwd) for p in (significant_terms.call.paths if significant_terms else between.files) if not outside(p)
        )
    )
    rule, exception, said = _rule(error), _EXCEPTION.match(error), _explanation(view, run, between, significant_terms)
    swap = idiom(significant_terms, error) if significant_terms else None
    command, finding = typed(run.step), _finding(error, rule)
    body |= {"resolution": "edit", "files": files[:6], "call": significant_terms.call if significant_terms else None}
    body |= {k: v for k, v in (("said", said), ("rule", rule), ("exception", exception[1] if exception else "")) if v}
    body |= {"change": change._asdict()} if change else {}
    body |= {"idiom": swap._asdict()} if swap else {}
    marks = {"silenced": change and silences(change.after), "self_made": significant_terms and written_before(view, significant_terms)}
    body |= {k: True for k, v in marks.items() if v}
    where = "in tests " if swap and files and all(map(is_test, files)) else ""
    when = f"{rule} says “{finding}”" if rule else f"`{command}` fails with “{finding}”"
    if swap:
        body["steps"] = [f"use `{swap.line}` in place of `{swap.old}`"]
        text = f"{where}`{swap.old}` makes `{command}` fail with {f'{rule}: ' if rule else ''}“{finding}”; use `{swap.line}`."
        return text, f"{when}, or `{swap.old}` is about to be written{f' {where}'.rstrip()}", 0.6
    body["steps"] = [_step(change, files[0]), *(f"change `{f}`" for f in files[1:3] if change is None)]
    named = f"{rule}: " if rule else ""
    text = f"`{command}` failed with {named}“{finding}”; it passed after {_done(change)} in {listed(files[:4], len(files))}."
    if said:
        text += f" The agent's reason: “{said}”"
    return text, when, 0.35 if body.get("silenced") else 0.55 if rule and change else 0.5 if said else 0.45


def _finding(error: str, rule: str) -> str:
    """Return what a linter, compiler or test says, without the place and the name of the rule."""
    return without_place(error).removesuffix(f"({rule})").strip() if rule else without_place(error)


def _done(change: Change | None) -> str:
    if change is None:
        return "changes"
    return f"`{change.before}` became `{change.after}`" if change.before else f"`{change.after}` was added"


def _step(change: Change | None, file: str) -> str:
    if change is None:
        return f"change `{file}`"
    return f"make `{change.before}` into `{change.after}`" if change.before else f"add `{change.after}`"


_EXCEPTION = re.compile(r"(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Warning))\b")
_RULES = re.compile(r"\(([a-z][a-z0-9_-]{2,30})\)$|\b(TS\d{4,5}|E0\d{3}|SC\d{4}|[A-Z]{1,4}\d{3,4})\b|\s([a-z@][\w@-]*/[\w-]+)$")


def _rule(error: str) -> str:
    """Return the name of the rule that a linter or compiler gives with its finding; empty when there is none."""
    match = _RULES.search(error)
    return next(filter(None, match.groups()), "") if match else ""


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the lessons that help whoever was not there.

    A cure that the output of the failure names is read there by whoever meets it, an
    environment in the folder that was the very next call is seen by whoever looks, and what
    pins a version or a day ages: all three are marked as seen once until a second session has the same error, which may be
    the one that meets it now.

    A change of files is in place already, and what it mended is seldom met again: it needs a
    second session with the same error, or a rule or a call that others will meet too. That
    is the rule of a linter or compiler with the line that became another one, or an
    exception with the call that stands in place of the one it names. A change of tests
    alone, a line that the session itself had written, and a finding that was silenced in
    place need a second session; a rule makes up for the first, a rule with the call that
    stands in place of another for the second.
    """
    sessions: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for c in candidates:
        # a fork repeats its parent's calls with their times
        sessions[_met(c)].add(c.ts or c.candidate_id)
    for c in candidates:
        body = c.body
        if len(sessions[_met(c)]) > 1 or _of_use(body):
            yield c
        elif body.get("resolution") != "edit":
            yield c._replace(structured=json.dumps(body | {"once": True}, ensure_ascii=False, sort_keys=True), confidence=_SEEN_ONCE)


_SEEN_ONCE = 0.35
"""Confidence of a cure that waits for a second session with the same error."""


def _met(c: StoredCandidate) -> tuple[Any, ...]:
    """Return what two sessions have to share to have met the same thing: the error, or the rule that both silenced."""
    body = c.body
    what = ("silenced", body.get("rule")) if body.get("silenced") and body.get("rule") else ("error", body.get("signature"))
    return c.repository or c.cwd, c.subject, *what


def _of_use(body: dict[str, Any]) -> bool:
    """Tell whether what one session did helps where the same thing is met elsewhere."""
    if body.get("resolution") != "edit":
        return not any(body.get(mark) for mark in ("plain", "ages", "at_once"))
    if body.get("silenced"):
        return False
    if body.get("rule"):
        if _COMPILERS.match(str(body["rule"])):
            return "idiom" in body
        return "idiom" in body or ("change" in body and not body.get("self_made"))
    return bool(body.get("exception") and body.get("idiom")) and not body.get("self_made") and not all(map(is_test, body.get("files", ())))


_COMPILERS = re.compile(r"TS\d{4,5}$|E0\d{3}$")
"""Rules that are about types of one place: another place has another cure."""


def _explanation(view: SessionView, run: Run, between: _Between, significant_terms: KeyChange | None) -> str:
    """Return the sentence in which the agent says what is wrong: said after the failure, right before the edit that is told."""
    if not between.edits:
        return ""
    edit = significant_terms.call if significant_terms else between.edits[0]
    first = max((c.seq for c in between.edits if c.seq < edit.seq), default=run.call.seq)
    for event in view.events:
        if event.kind == "answer" and event.thread_id == run.call.thread_id and first < event.seq < edit.seq:
            for sentence in re.split(r"(?<=[.!:])\s+|\n+", clean_lines(event.text or "")):
                fits = 30 <= len(sentence) <= 240 and _CAUSE.search(sentence) and not _PLAN.match(sentence) and _NAMES.search(sentence)
                if fits and not repeats(view, sentence):
                    return shorten_paths(sentence.rstrip(":"), view.session.cwd)
    return ""


_CAUSE = re.compile(
    r"(?i)\b(?:because|since|due to|caused? by|the (?:issue|problem|cause|reason|culprit|bug) (?:is|was|here)|missing|needs? to"
    r"|needs? \w+ing|requires?|expects?|instead of|rather than|too \w+|doesn't (?:exist|support|handle|match|include)"
    r"|(?:is|are|was|were)n't|not (?:allowed|supported|set))\b"
)
_NAMES = re.compile(r"[`_/\d]|[a-z][A-Z]|\w\.\w|\w\(\)")
"""Something of the program itself: a reason without it would be true of any."""

_PLAN = re.compile(
    r"(?i)^(?:let me|let's|i'll|i will|i'm going|i need|i should|now\b|first\b|next\b|looking|checking|i see"
    r"|good|great|perfect|okay|ok\b|done|all)"
)


def clean_lines(text: str) -> str:
    """Return a text whose lines are free of control characters; code blocks are left out."""
    return "\n".join(clean(line) for line in re.sub(r"```.*?(?:```|\Z)", "", text[:4000], flags=re.DOTALL).splitlines())


ERROR_RESOLUTIONS = Method(
    name="error_resolutions",
    version=19,
    describe=(
        "Commands that failed and passed later in the same session, with the error and what cured it.\n\n"
        "A candidate quotes the command, the line of its output that says what is wrong, and either the command that worked "
        "instead for the same target, what had to be set up first, the key "
        "of a configuration file that stands for a refused one, or the line that was changed, with the agent's own reason for it. "
        "A change of files becomes a memory where two sessions met the error, or a named rule or a replaced call tells it to others; "
        "a cure that the output itself names, an environment in the folder that was called at once, or one that "
        "pins a version, is marked as seen once until two sessions met the error: it is told to whoever meets the same failure. "
        "A session in which nothing failed, or nothing was cured, gives nothing."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("tool_call", "tool_result", "answer"),
)
