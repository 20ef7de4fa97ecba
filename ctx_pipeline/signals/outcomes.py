"""How the session went: failures, interruptions, how content the person was, errors of the provider."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs, failed_calls
from ctx_pipeline.facts.turns import interruptions
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.host_records import REFUSED, words_of_refusals
from ctx_pipeline.signals import checks, context_rot, recovery, trajectory, validation
from ctx_pipeline.signals.inputs.steps import COLUMNS, KINDS, steps

if TYPE_CHECKING:
    from ctx_pipeline.model.declared import Signal
    from ctx_pipeline.model.session_view import SessionView


# What the person's own words say: corrections, praise and complaint.


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[^\S\n]*>[^\n]*$", re.DOTALL | re.MULTILINE)
_CORRECTION = re.compile(
    r"""
    (?:^|[.!?;:,\n]\ ?|\b(?:please|and|but|also|so)\ )
    (?:
        (?:(?!(?:if|when|whether|why|what|how|where|which|that|since|because|make|check|explain|fix|see|is|are|does)\b)[\w./'-]+\ ){1,4}
        (?:(?:is|are|was|were)\ (?:not\ (?:right|correct|true)|wrong|incorrect|mistaken)
         | (?:still\ )?(?:does\ not|doesn't|don't|didn't|did\ not|isn't|is\ not)\ (?:work(?:ing)?|compile|help)
         | (?:is|are)\ (?:still\ |now\ )?failing\ (?:now|again|still))\b(?!\ (?:if|when|unless|for))
      | (?:oh\ )?(?:no|nope|wait)\b[,.! -]{1,4}(?:that|this|it|the|i|you|we|not|don'?t|do\ not|please|use|stop|again|still|actually|just)\b
      | (?:(?:it|that|this|they|which)\ )?still\ (?:doesn'?t|does\ not|don'?t|do\ not|isn'?t|not|fails?|
            failing|broken|wrong|the\ same|see(?:ing)?|get(?:ting)?)\b
      | (?:don'?t|do\ not|never|stop)\ (?:\w+\ )?(?:do|doing|use|using|run|running|add|adding|delete|deleting|remove|removing|
            change|changing|touch|touching|edit|editing|create|creating|make|making|commit|committing|
            write|writing|assume|assuming|saying|guess|guessing)\b
      | (?:that|this|it)(?:'s|\ is|\ was)\ (?:not\ (?:right|correct|true|what|how|working|it)|wrong|
            incorrect|broken|still\ (?:wrong|broken|failing))
      | (?:that|this|it)\ (?:does\ not|doesn'?t|didn'?t|did\ not)\ (?:work|fix|help|compile)
      | let's\ not\ \w
      | hmm*,?\ i\ (?:just\ )?(?:checked|tried|was\ able|do\ not|don't|still|thought)\b
      | i\ (?:do\ not|don't)\ (?:see\ (?:it|that|this|them|any|the)|think\ (?:we|you|it|that|this)\ (?:need|should|have|works?|is|are))\b
      | why\ (?:can't|can\ not|don't|do\ not)\ (?:we|you)\ (?:not\ )?just\b
      | (?:that(?:'s|\ is)\ )?not\ (?:what|exactly\ what)\ (?:i|we)\ (?:asked|meant|wanted|said)
      | i\ (?:said|told\ you|asked\ (?:you\ )?(?:for|to)|meant)\b
      | you(?:'re|\ are)\ (?:not\ (?:correct|right)|wrong|mistaken)\b
      | you\ (?:forgot|missed|broke|misunderstood|misread|should(?:n'?t|\ not)\ have|were\ not\ supposed|ignored|didn'?t|did\ not)\b
      | (?:please\ )?(?:revert|undo|roll\ back)\ (?:that|this|it|your|the|those|these|last|all)\b
      | (?:let'?s\ )?use\ \S+(?:\ \S+){0,3},?\ (?:and\ )?(?:instead|not)\b
      | why\ (?:did|are|have|would)\ you\b
      | are\ you\ sure\b
    )
  | \A(?:no[,.!\ ]+)?(?:never\ (?!mind\b|seen\b|heard\b|used\b)|not\ (?:\S+\ ){1,6}but\ )\w
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_WORDS = 2000
_REFUSES = re.compile(r"\A(?:oh\ )?(?:no|nope)\b[,.!\ -]*", re.IGNORECASE)
"""The "no" that answers a question of the agent: what it asked was not done yet."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_LEADS = r"\W*(?:(?:ok(?:ay)?|yes|and|but|also|so|then|well|sorry|thanks)\b\W*)*"
_OBJECTS_TO_NOTHING = re.compile(
    rf"""
    {_LEADS}
    (?:
        (?:i'll|i\ will|let\ me|i\ can|i'd\ rather)\ (?:take|do|run|handle|finish|continue|try|check|fix|commit|push)\b
            (?!.*\b(?:instead|not)\b).*
      | (?:never\ mind|wait|hold\ on|one\ (?:moment|second)|later|not\ (?:now|yet))\W*
      | (?:(?:branch|prs?|pull\ request|commit|push|merge|rebase|ok(?:ay)?|yes|no|stop|go\ (?:on|ahead)|go|continue
            |proceed|resume|first|please|and|then
            |a|the|it|this)\b\W*)+
      | (?:is|are|what|where|how|which|who|does|do|did|when|was|were)\b(?!.*\b(?:not|instead|rather)\b).*\?\W*
      | \W*
    )
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""A sentence, typed when a call was refused, that takes the work over, puts it off, names the next step or asks."""
_NAME = re.compile(
    r"(?!(?:Use|Run|Try|No|Not|Wrong|Stop|Don't|Never|Keep|Make|Add|Fix|Put|Do)\b)[A-Z][\w&'-]*(?:\ (?:[A-Z][\w&'-]*|of|and|the))*\W*"
)
"""Words that only name somebody or something, such as the holder of a license."""

_POSITIVE = re.compile(
    r"""
    \b(?:thanks|thank\ you|thx|awesome|amazing|excellent|fantastic|brilliant|lgtm|ship\ it)\b
  | \b(?:well\ done|nicely\ done|(?:good|great|nice)\ (?:job|work))\b
  | (?:^|[.!,;]\ ?|\b(?:looks|that'?s|is|it'?s|works|very|so|all|ok|yes|yep|yeah)\ )
    (?:great|perfect|nice|good|cool|lovely|beautiful)(?:\ (?:now|work|job|stuff|one))?
    (?=[.!,;:)]|\ (?:-|and|but|now|let'?s|next|can|could|please)|$)
  | \blove\ (?:it|this|that)\b
  | \b(?:it|that|this)\ (?:now\ )?works(?:\ (?:now|great|well|fine|perfectly))?(?=[.!,;]|\ and|$)
  | \b(?:works\ (?:great|well|fine|perfectly|now)|(?:fixed|solved)\ it|all\ good|looks\ (?:good|great|right|correct))\b
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_NEGATIVE = re.compile(
    r"""
    \b(?:broken|terrible|awful|horrible|useless|ridiculous|nonsense|wtf|wth|damn|annoying|frustrat\w{0,5}|disappoint\w{0,5})\b
  | \b(?:you\ broke|made\ it\ worse|hate\ (?:it|this|that))\b
  | \b(?:does\ not|doesn'?t|didn'?t|did\ not|isn'?t|is\ not|not)\ (?:work(?:ing)?|right|correct|good|great|what\ i|help(?:ful)?|fixed)\b
  | \bstill\ (?:not|fails?|failing|broken|wrong|the\ same|doesn'?t|isn'?t|see(?:ing)?|get(?:ting)?)\b
  | \b(?:that|this|it|you)(?:'s|'re|\ is|\ are|\ was)\ (?:completely\ |totally\ |just\ )?(?:wrong|incorrect|bad|worse)\b
  | \b(?:revert|undo)\ (?:that|this|it|your|the|those|these|last|all)\b
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)


def own_words(text: str) -> str:
    """Return the person's own words of a prompt's first 2,000 characters: no code, no quotes, no runs of blanks."""
    words = text[:_FIRST_WORDS]
    if "`" in words or ">" in words:
        words = _CODE.sub("\n", words)
    words = words.replace("\u2019", "'")
    return "\n".join(line for raw in words.splitlines() if (line := " ".join(raw.split())))


def corrects(text: str, *, asked: bool = False) -> bool:
    """Tell whether a prompt corrects what the agent did; where the agent ``asked`` something, "no" alone answers that."""
    words = own_words(text)
    return bool(_CORRECTION.search(_REFUSES.sub("", words) if asked else words))


def objects(text: str) -> bool:
    """Tell whether what was typed when a call was refused says that it was wrong: a name, a question or "I'll do it" does not."""
    words = own_words(text)
    return not _NAME.fullmatch(words) and not all(_OBJECTS_TO_NOTHING.fullmatch(s) for s in _SENTENCE.split(words))


def mood(text: str) -> str:
    """Return positive, negative, or neutral when a prompt says both or neither."""
    words = own_words(text)
    bad = bool(_NEGATIVE.search(words))
    good = bool(_POSITIVE.search(_NEGATIVE.sub("", words) if bad else words))
    if good is bad:
        return "neutral"
    return "positive" if good else "negative"


_ACTS = ("answer", "tool_call", "tool_result", "permission")
"""Kinds of events that show what an agent did last before a prompt, and whether the person kept it from that."""


def _with_what_came_before(view: SessionView) -> list[tuple[Any, Any]]:
    """Return each prompt after the first with the last act of the agent before it in its thread, None where there is none."""
    last: dict[str, Any] = {}
    found = []
    for event in view.of_kinds("prompt", *_ACTS):
        if event.kind == "prompt":
            found.append((event, last.pop(event.thread_id, None)))
        else:
            last[event.thread_id] = event
    return found[1:]


def _corrections(view: SessionView) -> list[Any]:
    """Return the prompts that correct what the agent did last, or was about to do when the person refused it without a word."""
    proposed = {call.result_event for call in view.tool_calls if call.action in ("plan", "ask")}
    found = []
    for prompt, before in _with_what_came_before(view):
        text = prompt.text or ""
        asked = before is not None and before.kind == "answer" and (before.text or "").rstrip().endswith("?")
        refused = before is not None and before.subtype == REFUSED and before.kind == "tool_result" and before.event_id not in proposed
        if corrects(text, asked=asked) or (refused and objects(text)):
            found.append(prompt)
    return found


_STEPS = ("events", "tool_calls", "command_runs", "check_runs")
_RUNS = ("command_runs",)
_COLUMNS = {**COLUMNS, "events": (*COLUMNS["events"], "actor")}
_LIMIT = re.compile(
    r"rate_limit_error|rate limit (?:reached|exceeded)|usage limit reached|too many requests|(?:status\D{1,4}|^|\W)429\b", re.IGNORECASE
)
_WINDOW = 4000


def _answered(view: SessionView) -> list[Any]:
    return [run for run in command_runs(view) if run.outputs and run.result != "refused"]


def _evidence(found: list[Any]) -> tuple[str, ...]:
    return tuple(run.event for run in found)


@signal(version=4, group="outcome", unit="commands", better="lower", reads=_RUNS)
def failed_command_count(view: SessionView) -> Reading:
    """Shell commands that ran and failed: by exit status, by the host's word, or by what a check behind a pipe reported.

    Each command counts once, however many records it left. A search that found nothing
    (grep, rg, diff with status 1) is an answer and not a failure; a command that the
    person refused never ran. Some failures are healthy: a red test before the fix. Look
    at the share and at what failed twice.
    """
    failed = [run for run in _answered(view) if run.result == "failed"]
    return Reading(
        float(len(failed)), _evidence(failed), metadata={"commands": [run.command[:120] for run in failed[:3]]} if failed else None
    )


@signal(version=4, group="outcome", unit="ratio", better="lower", reads=_RUNS)
def failed_command_ratio(view: SessionView) -> Reading:
    """Share of answered shell commands that failed, 0 to 1.

    The same commands as ``failed_command_count`` are counted above and below the line,
    so the two never disagree. Above 0.3 the agent is usually fighting the environment
    (missing tools, wrong directory) and not the task. Unknown without a command.
    """
    commands = _answered(view)
    if not commands:
        return Reading(None, reason="no shell command was answered")
    failed = [run for run in commands if run.result == "failed"]
    return Reading(len(failed) / len(commands), _evidence(failed), metadata={"failed": len(failed), "commands": len(commands)})


@signal(version=3, group="outcome", unit="calls", better="lower", reads=_STEPS, columns=_COLUMNS, kinds=KINDS)
def failed_tool_call_count(view: SessionView) -> Reading:
    """Tool calls of every kind that ended in an error: commands, edits that did not match, files that are not there.

    What the person refused is not among them. Edits that fail because the file changed
    or the text stands twice cost a read and a second try each; the metadata says which
    tools failed.
    """
    failed = failed_calls(view)
    tools = Counter(call.tool for call in failed)
    return Reading(
        float(len(failed)), tuple(call.event for call in failed), metadata={"tools": dict(sorted(tools.items()))} if failed else None
    )


@signal(group="outcome", unit="calls", better="lower", reads=_STEPS, columns=_COLUMNS, kinds=KINDS)
def refused_call_count(view: SessionView) -> Reading:
    """Tool calls that the person, or a rule, kept from running.

    Several of one kind are a permission to grant for good, or a thing to forbid in the
    instructions, so that nobody has to be asked.
    """
    refused = [s for s in view.once(steps).all if s.category == "permission" and s.call.is_error]
    return Reading(float(len(refused)), tuple(s.evidence for s in refused))


@signal(version=2, group="outcome", kind="boolean", better="lower", reads=("turns",))
def interrupted_signal(view: SessionView) -> Reading:
    """Whether the person stopped the agent in the middle of a turn.

    Only the host's own record of an interruption counts; the word in a prompt or in a
    program's output does not. One is ordinary, several mean that the agent went where
    the person did not want it to go. Unknown for a session without events.
    """
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    found = interruptions(view)
    return Reading(bool(found), tuple(found), metadata={"count": len(found)} if found else None)


@signal(version=2, group="outcome", unit="stops", better="lower", reads=("turns",))
def interruption_count(view: SessionView) -> Reading:
    """Turns that the person stopped.

    Several marks in one turn are one stop. Read it beside ``user_correction_count``: a
    stop followed by a correction is work that was thrown away.
    """
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    found = interruptions(view)
    return Reading(float(len(found)), tuple(found))


@signal(group="outcome", kind="categorical", method="regex", better="higher", reads=("events",), columns=_COLUMNS, kinds=("prompt",))
def user_satisfaction_lexical(view: SessionView) -> Reading:
    """How content the person's last words sound: positive, negative or neutral.

    Only the last thing that the person typed is read, without code and quotes; praise
    and complaint together are neutral. English phrases and a weak sign for one session;
    over many it tells which projects and models go well. Unknown where the person typed
    nothing after the task.
    """
    if len(view.prompts) < 2:
        return Reading(None, reason="the person typed nothing after the task")
    last = view.prompts[-1]
    return Reading(mood(last.text or ""), (last.event_id,), confidence=0.4)


@signal(
    group="cost",
    unit="messages",
    better="lower",
    method="regex",
    reads=("events", "tool_calls"),
    columns=_COLUMNS,
    kinds=("prompt", *_ACTS),
    version=5,
)
def user_correction_count(view: SessionView) -> Reading:
    """Times that the person corrects the agent: "no, that's wrong", "don't use X", a refusal with a reason.

    Only what the person typed is read: no injected text, no command wrapper, no quoted
    code; the first prompt is the task and cannot be a correction. What was typed when a
    call was refused, or right after that, is one, unless it only names something, asks, or
    takes the work over. A "no" to what the agent asked, and what follows a plan, is an answer.
    English phrases, so the count is a lower bound for other languages. Each correction is
    a turn that was paid for twice; the same one in several sessions belongs in CLAUDE.md or AGENTS.md.
    """
    if not view.prompts:
        return Reading(None, reason="the person typed nothing in this session")
    found = _corrections(view)
    found += [e for e in words_of_refusals(view) if corrects(e.text or "") or objects(e.text or "")]
    return Reading(float(len(found)), tuple(e.event_id for e in found), confidence=0.7)


@signal(group="outcome", unit="errors", better="lower", reads=("events",), columns=_COLUMNS, kinds=("error", "injected"))
def provider_error_count(view: SessionView) -> Reading:
    """Errors of the model's provider that the host recorded: overload, limits, failed requests.

    Each is a wait, and often a request that was paid for twice. They come in waves;
    compare sessions of the same hour before the agent is blamed.
    """
    found = view.once(_of_provider)
    return Reading(float(len(found)), tuple(e.event_id for e in found))


@signal(group="outcome", unit="errors", better="lower", method="regex", reads=("events",), columns=_COLUMNS, kinds=("error", "injected"))
def rate_limit_hit_count(view: SessionView) -> Reading:
    """Errors of the provider that say that a rate or usage limit was reached.

    Only the host's own records of errors are read: a prompt about rate limiting is none.
    Above zero, spread the work or move a part of it to another model.
    """
    found = [e for e in view.once(_of_provider) if _LIMIT.search((e.text or "")[:_WINDOW])]
    return Reading(float(len(found)), tuple(e.event_id for e in found))


def _of_provider(view: SessionView) -> list[Any]:
    """Return the events that are errors of the provider and not of a hook or a tool."""
    return [
        e
        for e in view.of_kinds("error", "injected")
        if ("hook" not in (e.subtype or "") if e.kind == "error" else e.subtype == "synthetic" and (e.text or "").startswith("API Error"))
    ]


GRADES = ((90, "A"), (75, "B"), (60, "C"), (40, "D"))
"""Points from which a session has a grade; F below."""
_DEDUCTIONS: tuple[tuple[Signal, float, float], ...] = (
    (failed_command_ratio, 20, 20),
    (user_correction_count, 8, 24),
    (interruption_count, 8, 16),
    (validation.trajectory_premature_finish_without_validation, 15, 15),
    (recovery.trajectory_failure_ignored_count, 5, 10),
    (trajectory.trajectory_repeated_action_without_progress, 4, 12),
)
"""signal, points off for each unit of its value, points off at most"""

_LABELLED: tuple[tuple[Signal, str, float], ...] = (
    (checks.last_test_outcome, "failed", 30),
    (user_satisfaction_lexical, "negative", 15),
    (context_rot.context_rot_verdict, "severe", 15),
)
"""signal, the label that costs points, the points"""


@signal(
    version=8,
    group="outcome",
    kind="categorical",
    better="higher",
    reads=tuple(dict.fromkeys((*_STEPS, "turns", *context_rot.ROT_TABLES))),
    columns={name: tuple(dict.fromkeys((*_COLUMNS.get(name, ()), *own))) for name, own in (_COLUMNS | context_rot.ROT_COLUMNS).items()},
    kinds=tuple(dict.fromkeys((*KINDS, "prompt", "injected", *_ACTS, *context_rot.ROT_KINDS))),
)
def session_grade(view: SessionView) -> Reading:
    """One grade for how the session went, A to F, of the parts that other signals measure.

    100 points less what failed commands, corrections, stops, a last change that nothing
    checked, red tests at the end, failures passed over, retries without progress,
    complaints and severe context rot take off; the metadata has the points of each part. A from 90, B from 75, C
    from 60, D from 40. A rough sorting, to choose which sessions to read: not a verdict on
    one. Unknown where the agent took no step.
    """
    if not view.once(steps).all:
        return Reading(None, reason="the agent took no step")
    parts: dict[str, float] = {}
    evidence: list[str] = []
    for part, each, most in _DEDUCTIONS:
        found = view.once(part.function)
        points = min(most, each * float(found.value)) if found is not None and isinstance(found.value, int | float) else 0.0
        if points:
            parts[part.name] = round(points, 2)
            evidence += found.evidence[:1] if found is not None else ()
    for part, label, points in _LABELLED:
        found = view.once(part.function)
        if found is not None and found.value == label:
            parts[part.name] = points
            evidence += found.evidence[:1]
    left = max(0.0, 100 - sum(parts.values()))
    grade = next((name for least, name in GRADES if left >= least), "F")
    return Reading(grade, tuple(evidence), confidence=0.5, metadata={"points": round(left, 2), "off": dict(sorted(parts.items()))})
