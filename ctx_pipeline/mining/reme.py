"""What worked and what failed in a project, compared over its sessions, and what the person refused, after ReMe."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining.lessons import agent_notes
from ctx_pipeline.mining.lessons.commands import (
    CHECKS,
    PROVING,
    as_pattern,
    failed_part,
    form,
    listed,
    outside,
    runs,
    shown,
    typed,
    whole,
)
from ctx_pipeline.mining.lessons.failed_commands import place_facts
from ctx_pipeline.mining.lessons.failed_commands.absent_programs import RAN, absent_program, other_name, programs_run
from ctx_pipeline.mining.lessons.failed_commands.fixes import ABSENT, WRONG, loses
from ctx_pipeline.mining.lessons.failed_commands.passing_causes import PASSING, needs_proof, passing, transient
from ctx_pipeline.mining.lessons.failed_commands.proof import proves, throwaway
from ctx_pipeline.mining.lessons.failures import clean, quoted_as_name, salient_line, shorten_paths, signature, without_place
from ctx_pipeline.mining.lessons.rules.said_rules import replaced, rule, sentences
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.host_records import words_of_refusals
from ctx_pipeline.model.memories import MODEL_WRITTEN, MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_OUTCOME, _FAILURE, _REFUSED = "outcome", "failure", "refused"
_LEAST = 2
_APART = 0.4
"""Least difference of two shares of passes that is worth telling."""

_MOST_PER_SESSION = 12
_LONGEST_COMMAND = 80
_SAID = (2, 40)
"""Words of a refusal that can be a rule."""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield how each check began and ended, each kind of failure, facts of the place, what the person refused, and notes of the agent.

    Outcomes and failures of one session prove nothing; see ``combine``.
    """
    yield from refusals(view)
    yield from place_facts.extract(view)
    yield from agent_notes.extract(view)
    cwd = view.session.cwd
    threads: dict[str, list[Run]] = defaultdict(list)
    for run in view.once(runs):
        threads[run.call.thread_id].append(run)
    told: set[tuple[str, str]] = set()
    failures: dict[tuple[str, str], MemoryCandidate] = {}
    unquoted: set[tuple[str, str]] = set()
    for thread, members in threads.items():
        calls = _calls(view, thread)
        edits = [place for place, call in enumerate(calls) if call.action in ("edit", "write") and not call.is_error]
        for place, run in enumerate(members):
            if (run.step.purpose not in CHECKS and not run.failed) or run.unclear or throwaway(run, cwd):
                continue
            made = form(run, cwd)
            error = salient_line(run.output, cwd, of_tests=run.step.purpose == "test") if run.failed else ""
            first = (_OUTCOME, run.step.subject)
            if (
                first not in told
                and len(told) < _MOST_PER_SESSION
                and not made.narrowed
                and run.step.purpose in PROVING
                and not dangers(run.step.text)
            ):
                told.add(first)
                since = max((e for e in edits if e < run.place), default=-1)
                ran = [r for r in members[:place] if r.place > since and r.well and r.step.purpose in CHECKS]
                before = [form(r, cwd).text for r in ran if not dangers(r.step.text)]
                yield _outcome(run, made.text, run.passed, list(dict.fromkeys(before)))
            seen = error or (salient_line(run.output, cwd, of_any_form=True) if run.failed else "")
            failure = (_FAILURE, f"{run.step.subject} {_met(run, seen)}")
            if seen and failure in failures:
                failures[failure] = _recurrence(failures[failure], run, seen, members[:place])
            elif error and len(told) < _MOST_PER_SESSION and (run.step.purpose in CHECKS or _RECURS.search(error) or transient(run, error)):
                told.add(failure)
                later = next((r for r in members[place + 1 :] if _cures(view, run, r, error)), None)
                works = whole(failed_part(later), cwd) if later else ""
                found = _failure(run, shown(failed_part(run), cwd), error, later, works)
                body: dict[str, Any] = {"other_name": other_name(run, error, members[place + 1 :], cwd)}
                if works in ("", (found.structured or {})["command"]):
                    cause, seen_passing = passing(run, error, members[place + 1 :], calls)
                    body |= {"transient": cause, "passed_alone": seen_passing}
                failures[failure] = replace(found, structured=(found.structured or {}) | body)
                if failure in unquoted:
                    failures[failure] = _recurrence(failures[failure], run, error, members[:place])
            elif seen and not error:
                unquoted.add(failure)
    yield from failures.values()
    yield from programs_run(view)


def _recurrence(first: MemoryCandidate, run: Run, error: str, before: Sequence[Run]) -> MemoryCandidate:
    """Return a failure that came again in its session after the same program had been called well: it was not learned."""
    body = first.structured or {}
    since = next((r for r in reversed(before) if r.step.subject == run.step.subject and (r.passed or r.failed)), None)
    if since is None or not since.passed or not _RECURS.search(error):
        return first
    times = int(body.get("times", 1)) + 1
    calls = [as_pattern(_ID.sub("ID", r.step.text), r.step.subject) for r in (run, since)]
    if calls[0] != calls[1] and max(map(len, calls)) <= _LONGEST_COMMAND and not dangers(since.step.text):
        body = body | {"calls": calls}
    shows = dict.fromkeys((*first.evidence_refs, run.call.call_event, run.call.result_event))
    return replace(first, structured=body | {"times": times}, evidence_refs=tuple(shows))


def _met(run: Run, error: str) -> str:
    """Return the form of an error in which two sessions met the same.

    Of what is no check, and of a check that was called wrongly, it is without the names that the error quotes.
    """
    return signature(quoted_as_name(error) if run.step.purpose not in CHECKS or _RECURS.search(error) else error)


_RECURS = re.compile(
    rf"(?i){ABSENT.pattern.removeprefix('(?i)')}|unknown|unrecogni[sz]ed|no matches found|already (?:used|checked out)"
    r"|unexpected argument"
)
"""Says of any program, whatever it is for, that it is not there or was called wrongly."""


def _cures(view: SessionView, run: Run, later: Run, error: str) -> bool:
    """Tell whether a later run shows the very same thing working."""
    return later.step.subject == run.step.subject and later.passed and proves(view, run, later) and not loses(run, later, error)


def _calls(view: SessionView, thread: str) -> list[Any]:
    return [c for c in view.tool_calls if c.thread_id == thread]


def _outcome(run: Run, text: str, fine: bool, before: list[str]) -> MemoryCandidate:
    after = f" after {listed(before)}" if before else ""
    return MemoryCandidate(
        kind="case",
        text=f"the first `{text}`{after} {'passed' if fine else 'failed'}",
        evidence_refs=(run.call.call_event, run.call.result_event),
        confidence=0.2,
        priority=1,
        risk="low",
        structured={"what": _OUTCOME, "command": text, "passed": fine, "before": before},
        subject=run.step.subject,
        ts=run.call.ended,
    )


def _failure(run: Run, command: str, error: str, later: Run | None, works: str) -> MemoryCandidate:
    shows = (later.call.call_event, later.call.result_event) if later else ()
    return MemoryCandidate(
        kind="case",
        text=f"`{command}` failed with “{error}”",
        evidence_refs=(run.call.call_event, run.call.result_event, *shows),
        confidence=0.2,
        priority=1,
        structured={
            "what": _FAILURE,
            "command": command,
            "typed": typed(run.step),
            "error": error,
            "signature": _met(run, error),
            "cured": later is not None,
            "seconds": round(((later.call.ended or 0) - (run.call.ended or 0)) / 1e6) if later else 0,
            "absent": absent_program(run, error),
            "works": works,
            "purpose": run.step.purpose,
        },
        subject=run.step.subject,
        ts=run.call.ended,
    )


def refusals(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield what the person refused with a reason that is a rule; only an event of the host says that somebody did."""
    cwd = view.session.cwd
    reasons = {(e.thread_id, e.call_id): e for e in words_of_refusals(view)}
    for call in view.tool_calls:
        reason = reasons.get((call.thread_id, call.call_id))
        if reason is None or call.action not in ("shell", "edit", "write"):
            continue
        said = clean((reason.text or "")[:600])
        if not _SAID[0] <= len(said.split()) <= _SAID[1] or said.endswith("?") or not _lays_down(said):
            continue
        command = shown(" ".join(call.argv), cwd)
        if call.action == "shell":
            if len(command) > _LONGEST_COMMAND:
                continue
            what, subject = f"`{command}`", command
        else:
            files = [shorten_paths(p, cwd) for p in call.paths if not outside(p)]
            if not files:
                continue
            what, subject = f"a change of {listed(files[:2])}", files[0]
        instead = _instead(command, said) if call.action == "shell" else ""
        instead = "" if dangers(instead) else instead
        body: dict[str, Any] = {"what": _REFUSED, "refused": what, "said": said}
        body |= _of_program(command, said) if call.action == "shell" else {}
        yield MemoryCandidate(
            kind="risk_rule",
            text=f"the person refused {what}: “{said}”" + (f"; run `{instead}` instead" if instead else ""),
            when_to_use=f"{what} is about to be made" if call.action != "shell" else f"{what} is about to run",
            evidence_refs=(call.call_event, reason.event_id),
            confidence=0.6 if call.action == "shell" else 0.45,
            priority=4,
            risk="low",
            structured=body | ({"steps": [f"run `{instead}`"], "line": f"- Run `{instead}`, not {what}."} if instead else {}),
            subject=subject,
            ts=call.ended,
        )


def _of_program(command: str, said: str) -> dict[str, list[str]]:
    """Return which programs the words of a refusal want, and in place of which, where the command that was refused runs one of these.

    None where the words keep to the call that was refused: "use pnpm for this one".
    """
    if _THIS_TIME.search(said):
        return {}
    ran = {step.words[0].rpartition("/")[2] for step in steps(command) if step.words}
    meant = next((found for piece in sentences(said) if (found := rule(piece)) and ran & replaced(found)), None)
    return {"want": sorted(meant.want), "instead_of": sorted(replaced(meant))} if meant else {}


_THIS_TIME = re.compile(r"(?i)\b(?:this (?:time|one|once)|(?:for|only) now)\b")


def _lays_down(said: str) -> bool:
    """Tell whether the words of a refusal hold a rule of work, or say what is to be done in place."""
    return any(rule(piece) is not None for piece in sentences(said)) or bool(_OTHERWISE.search(said))


_OTHERWISE = re.compile(
    r"(?i)^(?:please |no,? |we |let's |just |i think |you (?:should|must) )*"
    r"(?:use|don'?t|do not|never|always|only|prefer|must|run|avoid|stop|separate|split)\b"
    r"|\b(?:instead of|rather than|should (?:not|never|always|only|use|separate|keep|be))\b"
)


def _instead(command: str, said: str) -> str:
    """Return the whole command that a refusal asks for; empty where its words do not give it.

    It is quoted in the refusal, or another program of the same family takes the same
    words: ``npm install`` and "use pnpm" make ``pnpm install``.
    """
    quoted = re.search(r"(?i)\b(?:use|run)\s+[`'\"]([^`'\"]+ [^`'\"]+)[`'\"]", said)
    if quoted:
        return quoted[1]
    program, *rest = command.split() or [""]
    named = [w for w in re.findall(r"(?i)\b(?:use|prefer|only)\s+([\w.-]*\w)", said) if w != program]
    family = next((f for f in _FAMILIES if program in f), None)
    fits = family is not None and len(rest) < _FEW and rest[:1] and rest[0] in family[program]
    return " ".join((named[0], *rest)) if fits and family and named and rest[0] in family.get(named[0], ()) else ""


_FEW = 3
_SCRIPTS = frozenset({"install", "run", "test", "start"})
_FAMILIES: tuple[dict[str, frozenset[str]], ...] = (
    dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _SCRIPTS),
    dict.fromkeys(("docker", "podman", "nerdctl"), frozenset({"build", "run", "ps", "images", "pull", "push"})),
    dict.fromkeys(("conda", "mamba", "micromamba"), frozenset({"install", "create", "update", "list"})),
)
"""Programs of which one takes the subcommands of another, with those that mean the same."""


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return what the person refused, and what holds over at least two sessions of a repository.

    A failure that several sessions met; a program that failed as absent in one session
    and passed under another call in others; a step after which a check passed where it
    failed without. A session that repeats another's calls (a fork) counts once.
    """
    ran: dict[tuple[str, str], int] = defaultdict(int)
    there: set[tuple[str, str]] = set()
    notes: dict[tuple[str, str], StoredCandidate] = {}
    outcomes: dict[tuple[str, str], dict[Any, StoredCandidate]] = defaultdict(dict)
    failures: dict[tuple[str, str, str], dict[Any, StoredCandidate]] = defaultdict(dict)
    for c in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        body = c.body
        place = c.repository or c.cwd or ""
        if body.get("what") == _OUTCOME:
            outcomes[place, str(body["command"])].setdefault(c.ts or c.candidate_id, c)
        elif body.get("what") == RAN:
            ran |= {(place, name): max(at, ran[place, name]) for name, at in body["programs"].items()}
            there |= {(place, str(name)) for name in body.get("otherwise", ())}
        elif body.get("what") == _FAILURE:
            failures[place, c.subject, str(body["signature"])].setdefault(c.ts or c.candidate_id, c)
        elif body.get(MODEL_WRITTEN):
            notes[c.cwd or c.session_id, c.subject] = c  # what a later session wrote into the same file counts
        elif body.get("what") != place_facts.PLACE:
            yield c
    yield from notes.values()
    facts = [c for c in candidates if c.body.get("what") == place_facts.PLACE]
    # one that ran afterwards, or is reached by another way, is there; of one that was called as well that failure tells
    there |= {(place, str(c.body.get("absent"))) for (place, _, _), rows in failures.items() for c in rows.values()}
    looked = [(c, (c.repository or c.cwd or "", str(c.body.get("absent")))) for c in facts]
    yield from place_facts.combine([c for c, name in looked if name not in there and ran[name] <= (c.ts or 0)])
    for (place, subject, _), members in sorted(failures.items()):
        rows = list(members.values())
        here = [c for (p, _), o in outcomes.items() if p == place for c in o.values()]
        missed = ABSENT.search(str(rows[0].body["error"])) and not any(c.body["cured"] for c in rows)
        if missed and ran[place, str(rows[-1].body["absent"])] > (rows[-1].ts or 0):
            continue
        if _sessions(rows) >= _LEAST:
            yield from (list(_absent(rows, subject, here)) if missed else []) or _repeated(rows, subject)
        elif missed:
            found = list(_elsewhere(rows, subject, here))
            yield from found or _absent(rows, subject, here)
        elif int(rows[0].body.get("times", 1)) >= _LEAST or _cause(rows):
            yield from _repeated(rows, subject)
    for (_, command), members in sorted(outcomes.items()):
        yield from _compared(command, list(members.values()))


def _repeated(rows: Sequence[StoredCandidate], subject: str) -> Iterator[StoredCandidate]:
    """Yield a failure that several sessions met, one session again after it had called the program well, or one that passes by itself."""
    alike = _of_one_name(rows)
    works = _preferred(alike)
    alike = alike if works else list(rows)
    newest = alike[-1].body
    sessions, same = _sessions(rows), _sessions(alike)
    times = f"{newest['times']} times " if sessions == 1 and "times" in newest else ""
    often = f"in {same} sessions" if same > 1 else f"{times}in one session"
    elsewhere = _with_other_names(rows, alike)
    cured = sum(bool(c.body["cured"]) for c in alike)
    quoted = _in_common([without_place(str(c.body["error"])) for c in alike])
    command = _ID.sub("ID", _in_common([str(c.body["command"]) for c in alike]))
    body = {"subject": subject, "signature": newest["signature"], "error": newest["error"], "sessions": sessions, "cured": cured}
    body["seconds"] = sum(int(c.body.get("seconds") or 0) for c in rows)
    if works and ABSENT.search(quoted):
        text = f"`{newest['typed']}` is missing here (“{quoted}” {', '.join(filter(None, (often, elsewhere)))}): run `{works[0]}`"
        text += f"; {listed(works[1:3])} worked too" if works[1:] else ""
        body["steps"] = [f"run `{works[0]}`"]
    else:
        outcome = f"{cured or 'none'} of them got it to pass" if sessions > 1 else "called otherwise it passed in between"
        if sessions == 1 and not works and (calls := newest.get("calls")):
            command, outcome = calls[0], f"`{calls[1]}` passed in between"
            quoted = quoted_as_name(quoted)
        text = f"`{command}` failed with “{quoted}” {often}; {outcome}"
        cause = _cause(rows)
        if works:
            wrong = next((n for n in _QUOTES.findall(quoted) if n in _WORDS.findall(command) and n not in _WORDS.findall(works[0])), "")
            met = ", ".join(filter(None, (often.removeprefix("in ") if same > 1 or not elsewhere else "", elsewhere)))
            fails = f"fails with “{quoted}” ({met})"
            text, body["steps"] = f"`{command}` {fails}: `{works[0]}` works", [f"run `{works[0]}`"]
            if wrong and WRONG.search(quoted) and len(command) > _LONGEST_COMMAND:
                text, body["steps"] = f"`{newest['typed']}` {fails}: leave out `{wrong}`", [f"leave out `{wrong}` in `{newest['typed']}`"]
                body["failed"] = command
        elif cause:
            text = f"`{command}` failed with “{quoted}” {often}, as {PASSING[cause]}: wait and run it again"
            body |= {"transient": cause}
        else:
            body["warning"] = not cured or sessions == 1
    if sessions == 1:
        body["once"] = True
    if works:
        body |= {"resolution": "command", "did": works[:3]}
    when = f"`{newest['typed']}` {'is about to run, or ' if 'steps' in body else ''}fails with “{quoted}”"
    for c in alike:
        yield _reworded(c, "failure_trigger", text, when, body, confidence=min(0.9, 0.4 + 0.1 * sessions))


def _cause(rows: Sequence[StoredCandidate]) -> str:
    """Return why a failure passes by itself, where every session that met it says so and one of them shows it, or two meet it."""
    causes = {str(c.body.get("transient") or "") for c in rows}
    shown_once = any(c.body.get("passed_alone") for c in rows)
    enough = shown_once or (_sessions(rows) >= _LEAST and not needs_proof(str(rows[-1].body.get("purpose"))))
    return causes.pop() if len(causes) == 1 and enough else ""


def _sessions(rows: Sequence[StoredCandidate]) -> int:
    return len({(c.host, c.session_id) for c in rows})


def _with_other_names(rows: Sequence[StoredCandidate], alike: Sequence[StoredCandidate]) -> str:
    """Return in words how many sessions met a failure with other names alone, and with which; empty where none did."""
    known = {(c.host, c.session_id) for c in alike}
    others = [c for c in rows if (c.host, c.session_id) not in known]
    names = list(dict.fromkeys(name for c in others for name in sorted(_named(c))))
    count = _sessions(others)
    return f"{'another session' if count == 1 else f'{count} other sessions'} with {listed(names[:3])}" if names else ""


def _named(c: StoredCandidate) -> frozenset[str]:
    """Return the names that the error of a failure quotes."""
    return frozenset(_QUOTES.findall(without_place(str(c.body["error"]))))


def _of_one_name(rows: Sequence[StoredCandidate]) -> list[StoredCandidate]:
    """Return the failures whose error quotes what the newest one does that was cured, else all.

    What cured the one name says nothing of another.
    """
    cured = next((c for c in reversed(rows) if c.body.get("works") and c.body["works"] != c.body["command"]), None)
    return [c for c in rows if _named(c) == _named(cured)] if cured else list(rows)


_ID = re.compile(r"(?<![\w.-])\d{5,}(?![\w.-])")
"""The number of one run, job or pull request, which no later session has."""

_QUOTES = re.compile(r"['\"`]([\w.-]+)['\"`]")
_WORDS = re.compile(r"[\w.-]+")


def _in_common(texts: Sequence[str]) -> str:
    """Return the newest of several texts, with an ellipsis for what only numbers tell apart; as it is where words do."""
    shared = texts[-1].split()
    for other in texts[:-1]:
        words = other.split()
        merged: list[str] = []
        a = b = 0
        for block in SequenceMatcher(None, shared, words, autojunk=False).get_matching_blocks():
            between = [word for word in (*shared[a : block.a], *words[b : block.b]) if word != "…"]
            if not all(_NUMBERED.search(word) for word in between):
                return texts[-1]
            merged += ["…"] * ((block.a > a or block.b > b) and merged[-1:] != ["…"])
            merged += shared[block.a : block.a + block.size]
            a, b = block.a + block.size, block.b + block.size
        shared = merged
    return " ".join(shared)


_NUMBERED = re.compile(r"\d")


def _absent(rows: Sequence[StoredCandidate], subject: str, outcomes: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield a program that is not installed here, as a warning before its next call; none where a later session ran it."""
    newest, sessions = rows[-1].body, _sessions(rows)
    called, last = str(newest.get("absent") or ""), rows[-1].ts or 0
    if not called or any(f"{c.subject} ".startswith(f"{called} ") and c.body["passed"] and (c.ts or 0) > last for c in outcomes):
        return
    often = f" in {sessions} sessions" if sessions > 1 else ""
    text = f"`{called}` is not installed here (“{without_place(str(newest['error']))}”{often})"
    text += f": `{other}` is" if (other := str(newest.get("other_name") or "")) else ""
    body = {"subject": subject, "signature": newest["signature"], "error": newest["error"], "sessions": sessions, "cured": 0}
    body |= {"warning": True, "absent": called} | ({"once": True} if sessions == 1 else {})
    for c in rows:
        yield _reworded(c, "failure_trigger", text, f"`{called}` is about to run", body, confidence=min(0.8, 0.3 + 0.1 * sessions))


def _preferred(rows: Sequence[StoredCandidate]) -> list[str]:
    """Return what worked instead: first what most sessions did, then what is most like the command that failed, then the newest."""
    from rapidfuzz import fuzz

    did = [(str(c.body["works"]), str(c.body["command"])) for c in rows if c.body.get("works") and c.body["works"] != c.body["command"]]
    times = Counter(works for works, _ in did)
    rank = {works: (times[works], fuzz.partial_ratio(works, failed), place) for place, (works, failed) in enumerate(did)}
    return sorted(rank, key=lambda works: rank[works], reverse=True)


def _elsewhere(rows: Sequence[StoredCandidate], subject: str, outcomes: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield a call that failed as absent, with the call of the same program that passes in other sessions."""
    failed = rows[-1]
    works = Counter(
        str(c.body["command"]) for c in outcomes if c.subject == subject and c.body["passed"] and c.session_id != failed.session_id
    )
    works.pop(str(failed.body["command"]), None)
    if works:
        command, times = works.most_common(1)[0]
        others = f"{times} other session{'s' if times > 1 else ''}"
        text = f"`{failed.body['command']}` fails with “{without_place(str(failed.body['error']))}”; `{command}` passed in {others}"
        body = {"subject": subject, "signature": failed.body["signature"], "resolution": "command", "did": [command], "sessions": times + 1}
        evidence = [e for c in outcomes if c.body["command"] == command for e in c.evidence][:4]
        for c in rows:
            yield _reworded(c, "tool_lesson", text, f"`{subject}` is run", body, confidence=0.5 + 0.1 * min(3, times))._replace(
                evidence=[*c.evidence, *evidence]
            )


def _compared(command: str, rows: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield the step before a check that tells the sessions in which it passed at once from those in which it failed."""
    best: tuple[float, str, int, int, int, int] | None = None
    for step in sorted({s for c in rows for s in c.body["before"]}):
        with_it = [c for c in rows if step in c.body["before"]]
        without = [c for c in rows if step not in c.body["before"]]
        if len(with_it) < _LEAST or len(without) < _LEAST:
            continue
        good, other = sum(c.body["passed"] for c in with_it), sum(c.body["passed"] for c in without)
        apart = good / len(with_it) - other / len(without)
        if apart >= _APART and (best is None or apart > best[0]):
            best = (apart, step, good, len(with_it), other, len(without))
    if best is None:
        return
    apart, step, good, many, other, rest = best
    text = f"`{command}` passed at once in {good} of {many} sessions after `{step}`, in {other} of {rest} without it"
    body = {"subject": command, "signature": f"{step} before {command}", "steps": [step, command], "sessions": many + rest}
    for c in rows:
        if step in c.body["before"] and c.body["passed"]:
            yield _reworded(c, "procedure", text, f"`{command}` is to pass", body, confidence=min(0.85, 0.3 + apart / 2 + 0.02 * many))


def _reworded(c: StoredCandidate, kind: str, text: str, when: str, body: dict[str, Any], *, confidence: float) -> StoredCandidate:
    return c._replace(
        kind=kind,
        text=text,
        when_to_use=when,
        structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
        confidence=round(confidence, 4),
        priority=4,
        risk="low",
    )


REME = Method(
    name="reme",
    version=32,
    describe=(
        "What worked and what failed, compared over the sessions of a project, after ReMe.\n\n"
        "Failure triggers are errors that several sessions met, success patterns steps after which a check passed where it "
        "failed without them, tool lessons calls that failed as absent while another call passed elsewhere, and risk rules "
        "what the person refused, with the words of the refusal. Apart from refusals, and from what one failure says of the place "
        "(git ignores a folder, another worktree has the branch, zsh expands a word, a program of the system lacks an option), "
        "one session alone proves nothing. What an agent wrote into a memory file of its own with words that the person had typed is "
        "kept with these words and waits for a person."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "tool_call", "tool_result", "permission"),
)
