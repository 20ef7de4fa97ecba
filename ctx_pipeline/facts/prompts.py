"""What the person typed: the prompts of a session, and what each asks for."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.greetings import is_greeting
from ctx_pipeline.facts.pasted_output import ONLY_OUTPUT, beside_output
from ctx_pipeline.model.display import GAP, shorten_ask
from ctx_pipeline.model.host_records import APPROVED_PLAN, REASON, approved_plan, plan_heading
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import NOTE_TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView


_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\?)?|[@-_])")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_SAID = lazy_pattern(
    rf"```.*?(?:```|\Z)|<{NOTE_TAG}>.*?(?:</{NOTE_TAG}>|\Z)|<[a-z][\w-]*>.*?</[a-z][\w-]*>|\[(?:Image|Request)[^\]]*\]", re.DOTALL
)
_POINTS = lazy_pattern(
    r"(?i)\b(?:these|those|them|above|below|again)\b"
    r"|\b(?:for|of|to|with|do|about|in|from|make|fix|like|on|invert|remove|change|update|use|reuse|if|is|add|does|keep|just)\s+(?:that|this|it)\b"
    r"|\b(?:that|this)\s+(?:\w+\s+)?(?:logic|behaviou?r|way|one|thing|test|method|code|file|function|comment|problem|issue|error|part|bit|line"
    r"|section|page)\b|^\W*(?:could|can|would)\s+(?:we|you)\s+(?:also\s+)?just\b|\bthe others\b|\bon the PR\b"
)
"""A prompt with one of these can only be understood by who was there."""

_NAME = lazy_pattern(r"[`_/\d]|[a-z][A-Z]|\w\.\w|\w-\w+-\w|\w\(\)")
_TELLING_WORDS = 8
"""A shorter prompt has to name a file, a command or a part of the program."""

_PAGE = 4000
_LEAST_WORDS, _MOST_WORDS, _TITLE = 6, 80, 120
_LEAST_OF_ORDER, _LEAST_OF_FILE = 3, 4
_FILE = lazy_pattern(r"(?<![\w/@-])(?:[\w.@-]{1,255}/){0,40}[\w@-]{1,255}\.[A-Za-z]\w{0,5}(?![\w/])")
_STEERS = lazy_pattern(
    r"(?i)(?:(?:(?:great|good|nice|excellent|amazing|awesome|fantastic|perfect|wonderful|brilliant)\s+(?:work|job)"
    r"|(?:very|so)\s+much|a\s+lot|for\s+(?:your|the|all\s+the)\s+(?:help|work)|y|n|yes|no|yep|yeah|nope|ok|okay|sure|right|correct|exactly|perfect|great|good|nice|cool|thanks|thank|you|please|go|on|ahead"
    r"|continue|proceed|resume|keep|going|carry|next|retry|again|try|do|it|that|this|so|stop|wait|push|commit|ship|merge|done|hi|hello|hey"
    r"|works|worked|working|looks|lgtm|fine|awesome|amazing|excellent|wonderful|brilliant"
    r"|and|then|now|all|both|the|first|second|third|one|option)\b\W*)+"
)
"""A prompt of such words alone steers what is under way and names no task."""

_ACTS = lazy_pattern(r"(?i)\b(?:push|commit|ship|merge|continue|proceed|resume|retry|again|try|do|stop|wait|keep|carry|go|next)\b")
"""Such a prompt with one of these asks for something all the same."""

MERGED = lazy_pattern(
    r"(?i)(?:ok(?:ay)?|great|thanks)?\W*(?:(?:i|we)(?:[\u2019']ve| have)? (?:just )?merged"
    r"(?: (?:it|(?:this|that|the)(?: pr| mr| pull request)?|all)\b)?"
    r"|(?:it|that|this|(?:(?:that|this|the) )?(?:pr|mr|pull request)(?: #\d{1,9})?)(?:[\u2019']s| is| was| has been| got) merged\b)"
    r"(?= *(?:$|[.,;!\n]|now\b|and\b))(?! *,? *(?:now\W+)?(?:right|correct|yes|yeah|no|ok(?:ay)?|or not|true|already"
    r"|(?:is|has|was|did|have|do)(?:n[\u2019']?t)? (?:it|i|we|you|that)) *\?)"
)
_HANDS_IN = lazy_pattern(
    r"(?i)\W*(?:(?:a|an|the|all|it|its|this|that|these|them|everything|changes?|work|pr|prs|mr|pull|merge|requests?|branch|commit(?:ted|s)?|push(?:ed)?"
    r"|open|make|create|send|submit|file|raise|ship|land|rebase|up|to|for|in|into|on|of|onto|with|main|master|origin|remote|and|then|now|ok(?:ay)?|so"
    r"|please|can|could|would|you|we|i|let[\u2019']?s|need|want|reply|respond|discussion|issue|comments?|go|ahead|on|continue|proceed|resume|do|fix"
    r"|address|pr-feedback|feedback|review|yes|great|good|thanks|done|again|retry|keep|going)\b\W*){1,14}"
)
_PULL = lazy_pattern(r"(?i)\b(?:pr|mr|pull request|merge request)\b")
"""A request of such words alone with an act or a pull request among them says nothing of what the work is about."""

_QUESTION = 200
"""Characters at the end of an answer in which it asks something."""

_WORD = lazy_pattern(r"[^\W\d_]{2,}")
_TAG = lazy_pattern(r"</?[a-z][\w-]*\s*/?>")


def typed(view: SessionView) -> list[Any]:
    """Return the prompts of the main thread, in order: in the others it is an agent that asks."""
    main = view.once(_main)
    return [p for p in view.prompts if p.thread_id == main]


def _main(view: SessionView) -> str:
    """Return the main thread: never one of a subagent, also where nothing of the main one was kept."""
    below = {t.thread_id for t in view.threads if t.parent_thread_id}
    threads = dict.fromkeys(e.thread_id for e in view.events)
    others = (t for t in threads if t not in below and not t.startswith(f"{view.session_id}/"))
    return view.session_id if view.session_id in threads else str(next(others, view.session_id))


_OF_TURNS = frozenset({"prompt", "answer", "tool_call", "tool_result"})


def taken_back(view: SessionView) -> set[str]:
    """Return the events that the person went back behind: the conversation forked before them, and goes on in another branch."""
    main = view.once(_main)
    own = [e for e in view.events if e.thread_id == main]
    records = {e.event_id: (e.stream, e.generation, e.start) for e in own}
    above: dict[Any, Any] = {records[e.event_id]: records.get(e.parent_id or "") for e in own}
    turns = [e for e in own if e.kind in _OF_TURNS]
    last = max(reversed(turns), key=_by_time(turns), default=None)
    at = None if last is None else records[last.event_id]
    goes_on = set()
    while at is not None and at not in goes_on:
        goes_on.add(at)
        at = above[at]
    # what does not begin in the branch that goes on stands before a compaction, or nothing says where
    back: dict[Any, bool] = dict.fromkeys((None, *goes_on), False)
    for record in above:
        if record in back:
            continue
        line, at = [], record
        while at not in back:
            back[at] = False
            line.append(at)
            at = above[at]
        back.update(dict.fromkeys(line, at in goes_on or back[at]))
    return {e.event_id for e in own if back[records[e.event_id]]} if any(back.values()) else set()


def is_request(ask: str) -> bool:
    """Tell whether a prompt, as one line, asks for something by itself: "push", "1", "yes, go on", a hello and a lone tag do not."""
    said = _TAG.sub(" ", ask).strip()
    return bool(_WORD.search(said)) and not (said.startswith("/") or _STEERS.fullmatch(said) or is_greeting(said))


def acts(ask: str) -> bool:
    """Tell whether a prompt that only steers asks for something: "commit and push" does, "ok, works, great" does not."""
    return bool(_ACTS.search(ask))


def hands_in(ask: str) -> bool:
    """Tell whether a request only says to hand in or go on with what was made: "ok make a pr", "commit this", "/pr", "continue"."""
    return _HANDS_IN.fullmatch(ask) is not None and (_ACTS.search(ask) is not None or _PULL.search(ask) is not None)


def requests(texts: Iterable[str | None]) -> list[str]:
    """Return the texts that ask for something, each as one line; where none does, those that are not blank."""
    asks = [ask for text in texts if text and (ask := asked(text))]
    return list(filter(is_request, asks)) or asks


def one_line(text: str) -> str:
    """Return one line without terminal escapes, control characters and runs of blanks."""
    return " ".join(_CONTROL.sub(" ", _ANSI.sub("", text) if "\x1b" in text else text).split())


def _names_of_agents() -> str:
    return "|".join(map(re.escape, discovery.declared_texts("agent.called"))) or "(?!)"


@discovery.until_reload
def _task() -> re.Pattern[str]:
    return re.compile(
        rf"(?i)^(?:\W*(?:hey|hi|ok(?:ay)?|so|now|then|and|also|please|{_names_of_agents()}|can|could|would|you|we|let'?s|i'?d|i|want|need|like|to|just|help"
        r"|new|feature:|me|us|should)\b\W*)*"
        r"(?:add|fix|implement|make|update|remove|change|refactor|ensure|replace|use|create|support|write|move|rename|convert|handle|simplify"
        r"|improve|migrate|upgrade|build|set|invert|bump|port|allow|show|extend|drop|split|extract|enable|disable|validate|test|document"
        r"|optimi[sz]e|integrate|rewrite|send|mark|reuse|address|resolve|restrict|prevent|expose|parse|cache|log)\b"
    )


@discovery.until_reload
def _aside() -> re.Pattern[str]:
    names = _names_of_agents()
    return re.compile(
        rf"(?i)^(?:(?:hey|hi|hello|ok(?:ay)?|so|now|then|alright|perfect|great|thanks|{names})\b[\s,.!:-]*)*"
        r"(?:(?:can|could|would) (?:you|we) (?:please |also |now )*|please )?(?=\w)"
    )


def asked(text: str) -> str:
    """Return what the person asks for in a prompt, as one line."""
    text = text[:_PAGE]
    if "```" in text or "<" in text or "[" in text:
        text = _NOT_SAID.sub(" ", text)
    return one_line(text)


_OF_EDITOR = lazy_pattern(r"(?s)<(ide_[a-z_]+)>(?:(?!<ide_).)*?</\1>")
"""What an editor put beside a prompt: the file that was open, the lines that were selected."""


def typed_words(text: str | None) -> list[str]:
    """Return all words that a person typed in a prompt, code and quoted output among them."""
    return _OF_EDITOR.sub(" ", text or "").split()


def _marking_gaps(text: str) -> str:
    """Return what a person typed, with a gap where code or an element that was left out stood between words."""

    def gap(left_out: re.Match[str]) -> str:
        between = text[: left_out.start()].strip() and text[left_out.end() :].strip()
        return f" {GAP} " if between and not left_out[0].startswith("[") else " "

    return _NOT_SAID.sub(gap, text)


def tells(ask: str) -> bool:
    """Tell whether a prompt says by itself what is to be done: neither "go on" nor a question nor a page nor "do that too"."""
    return bool(_task().match(ask)) and describes(ask)


def describes(ask: str) -> bool:
    """Tell whether a prompt can be understood by who was not there, be it an order or what somebody sees go wrong."""
    title = goal(ask)
    return _LEAST_WORDS <= len(ask.split()) <= _MOST_WORDS and not _POINTS.search(title) and _names(title)


def stands_alone(ask: str) -> bool:
    """Tell whether a prompt can be understood by who was not there, however long it is: "now fix that" and "ok why?" cannot.

    A few words can where they name a file.
    """
    words = len(ask.split())
    return words > _MOST_WORDS or describes(ask) or (words >= _LEAST_OF_FILE and bool(_FILE.search(ask)) and not _POINTS.search(ask))


def orders(ask: str) -> bool:
    """Tell whether a few words give an order with an object and point at nothing: "fix the tests" does, "commit it" does not."""
    return bool(_task().match(ask)) and len(ask.split()) >= _LEAST_OF_ORDER and not _POINTS.search(ask) and not hands_in(ask)


def _names(title: str) -> bool:
    return len(title.split()) >= _TELLING_WORDS or bool(_NAME.search(title))


def goal(ask: str) -> str:
    """Return a prompt as a title, at most 120 characters."""
    ask = _aside().sub("", ask)
    sentences = re.split(r"(?<=[.!?])\s", ask) if len(ask) > _TITLE else [ask]
    first = next((t for t in sentences if len(t.split()) >= _LEAST_WORDS), sentences[0])
    return first.rstrip(" .:;") if len(first) <= _TITLE else f"{first[: _TITLE - 1].rsplit(' ', 1)[0].rstrip(' ,.;')}…"


# What a session was asked to do: the request that began it and the one that it is at.


LONGEST = 400
"""Characters of a request that are told."""


class Request(NamedTuple):
    """Something that was asked for, and where that stands."""

    text: str
    """one line, at most 400 characters"""
    by: str
    """prompt (words of a refusal too), command (a slash command without words), plan (an approved one) or title"""
    event_id: str | None
    ts: int | None
    """microseconds since 1970"""


class Task(NamedTuple):
    """What a session is about; both None where nothing says so."""

    first: Request | None
    """the first prompt that asks for something"""
    now: Request | None
    """an approved plan where it is newer than the last prompt that says by itself what to do, else that prompt"""
    told: bool
    """False: no prompt says by itself what to do, and ``now`` is the last that asks for something"""
    last: Request | None = None
    """the last prompt, command, or words of a refusal, that ask for something"""
    then: Request | None = None
    """what the person said behind it, which only steers"""
    about: Request | None = None
    """where ``last`` cannot be understood by itself, or only says to hand in or go on with what was made, the request that it follows"""


def task(view: SessionView) -> Task:
    """Return what a session was asked to do.

    A prompt that only steers ("push", "1", "yes, go on") is no task, unless nothing else
    was typed. Reads prompts of the main thread that were not taken back, else of any, and
    the plans among ``tool_calls``.
    """
    back = taken_back(view)
    own = in_time([p for p in typed(view) if p.event_id not in back]) or in_time(view.prompts)
    prompts = _requests(view, own)
    telling = next((one for one in reversed(prompts) if tells(one[1])), None)
    since = telling[0].seq if telling else -1
    chosen = telling or (prompts[-1] if prompts else None)
    now = _plan(view, since) or (_request(chosen) if chosen else _title(view))
    here = {event.thread_id for event in own} or {view.once(_main)}
    commands, refusals = (
        [pair for pair in found(view) if pair[0].thread_id in here and pair[0].event_id not in back] for found in (_commands, _refusals)
    )
    began = in_time([event for event, _ in (*commands, *prompts[:1])])
    named = {event.event_id: ask for event, ask in commands}
    first = _title(view)
    if began:
        first = _request((began[0], named[began[0].event_id]), _by(began[0])) if began[0].event_id in named else _request(prompts[0])
    said = {event.event_id: ask for event in own if (ask := asked(event.text or ""))} | {
        e.event_id: ask for e, ask in (*refusals, *commands)
    }
    told = in_time([*own, *(event for event, _ in (*refusals, *commands))])
    asks = {e.event_id for e, _ in (*prompts, *commands)} | {event.event_id for event, ask in refusals if is_request(ask)}
    last = next((event for event in reversed(told) if event.event_id in asks), None)
    about = _about(view, told, last, {event_id: ask for event_id, ask in said.items() if event_id in asks})
    if first is not None and first.by == "command" and first.event_id in named:
        first = _with_words(first, prompts, {last.event_id if last else None, about.event_id if about else None})
    then = next((event for event in reversed(told) if event.event_id in said), None)
    return Task(
        first,
        now,
        telling is not None,
        _request((last, said[last.event_id]), _by(last) if last.event_id in named else "prompt") if last else None,
        _request((then, said[then.event_id])) if then is not None and then is not last else None,
        about,
    )


def _with_words(command: Request, prompts: Sequence[tuple[Any, str]], told: set[str | None]) -> Request:
    """Return a command without words, which says nothing of the work, with the first prompt behind it that stands by itself."""
    behind = next(((event, ask) for event, ask in prompts if stands_alone(ask)), None)
    if behind is None or behind[0].event_id in told:
        return command
    request = _request(behind)
    return request._replace(text=cut(f"{command.text} {GAP} {request.text}"))


def _about(view: SessionView, told: Sequence[Any], last: Any, asks: dict[str, str]) -> Request | None:
    """Return the last request before one that cannot be understood by itself, or hands in what was made, which stands by itself.

    Where none does, what was handed in is the last thing that was asked for.
    """

    def alone(event: Any) -> bool:
        ask = asks[event.event_id]
        by_itself = stands_alone(ask) and not hands_in(ask) and not beside_output(event.text or "").startswith(ONLY_OUTPUT)
        return by_itself and stands_alone(_beside_quotation(view, event, ask))

    if last is None or alone(last):
        return None
    end = told.index(last)
    ended = max((n for n, e in enumerate(told[: end + 1]) if MERGED.match(asked(e.text or ""))), default=-1)  # what stands before is done
    before = [e for e in told[ended + 1 : end] if e.event_id in asks]
    found = next(filter(alone, reversed(before)), None)
    if found is not None and not _task().match(asks[found.event_id]) and "?" not in asks[found.event_id]:
        # a remark says less of what is wanted than an order of a few words behind it
        found = next((e for e in reversed(before[before.index(found) + 1 :]) if orders(asks[e.event_id])), found)
    if found is None and hands_in(asks[last.event_id]):
        found = next((e for e in reversed(before) if not hands_in(asks[e.event_id])), None)
    elif found is None and not orders(asks[last.event_id]):
        found = next((e for e in reversed(before) if orders(asks[e.event_id])), None)
    return _request((found, asks[found.event_id])) if found is not None else None


def _beside_quotation(view: SessionView, event: Any, ask: str) -> str:
    """Return a request without the line of the agent's answer before it that it begins with; whole where that is all of it."""
    answer, own = _answer_before(view, event), _MARKS.sub("", ask)
    lines = _quotable_lines(view, answer).get(_first_words(own), ()) if answer is not None else ()
    quoted = max((line for line in lines if own.startswith(line) and not own[len(line) :][:1].isalnum()), key=len, default="")
    return (own.removeprefix(quoted).strip() or ask) if quoted else ask


def _answer_before(view: SessionView, event: Any) -> Any:
    """Return the answer that stands last before an event in its thread; None where there is none."""
    answers = view.once(_answers_by_thread).get(event.thread_id, [])
    place = bisect_left(answers, event.seq, key=lambda e: e.seq)
    return answers[place - 1] if place else None


def _answers_by_thread(view: SessionView) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for event in sorted(view.of_kinds("answer"), key=lambda e: e.seq):
        if event.text:
            found.setdefault(event.thread_id, []).append(event)
    return found


def _quotable_lines(view: SessionView, answer: Any) -> dict[tuple[str, ...], list[str]]:
    """Return the lines of an answer that a prompt may quote, by their first words; of each answer they are looked up once."""
    known = view.once(_quotable_by_answer)
    if answer.event_id not in known:
        found: dict[tuple[str, ...], list[str]] = {}
        for line in (one_line(_MARKS.sub("", line)) for line in answer.text.splitlines()):
            if line.count(" ") >= _LEAST_QUOTED - 1:
                found.setdefault(_first_words(line), []).append(line)
        known[answer.event_id] = found
    return known[answer.event_id]


def _quotable_by_answer(_view: SessionView) -> dict[str, dict[tuple[str, ...], list[str]]]:
    return {}


def _first_words(line: str) -> tuple[str, ...]:
    """Return the words of a line that a prompt quotes whole, if it quotes the line: a sign may stand behind the next one."""
    return tuple(line.split(None, _LEAST_QUOTED - 1)[: _LEAST_QUOTED - 1])


_LEAST_QUOTED = 4
"""Words of a line from which on it is quoted and not said by chance."""

_MARKS = lazy_pattern(r"[*`]+")
"""Signs of emphasis and code, which a terminal does not show."""


def in_time(events: Sequence[Any]) -> list[Any]:
    """Return events of a thread by their time, where all of them have one: a file may hold them in another order; else by their place."""
    return sorted(events, key=_by_time(events))


def _by_time(events: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the key that sorts events by their time, where all of them have one, else by their place."""
    if all(e.ts is not None for e in events):
        return lambda e: (e.ts, e.seq)
    return lambda e: e.seq


_COMMAND = lazy_pattern(r"\s{0,9}(/[a-z][\w-]{1,60}(?::[\w-]{1,60}){1,3})\s{0,9}")
"""A command of a plug-in that was typed and that its host recorded as a prompt."""


def command_before(view: SessionView, event: Any) -> str:
    """Return the slash command whose words a prompt holds (``/review`` of ``/review the tests``); empty where it holds none's."""
    if event is None or not event.subtype:
        return ""
    before = next((e for e in view.of_kinds("injected") if e.thread_id == event.thread_id and e.seq == event.seq - 1), None)
    named = discovery.declared_pattern("records.named_command").match(before.text.lstrip()) if before is not None and before.text else None
    return next(filter(None, named.groups()), "") if named else ""


def shell_before(view: SessionView, event: Any) -> str:
    """Return the shell command that the person ran themselves right before a prompt, whose output that may be about; empty for none."""
    ran, printed = (discovery.declared_pattern(f"records.{name}") for name in ("shell_command", "shell_output"))
    before = [e for e in view.events if e.thread_id == event.thread_id and e.seq < event.seq] if event is not None else []
    output = False
    for e in reversed(before):
        text = (e.text or "").lstrip() if e.kind == "injected" else ""
        if match := ran.match(text):
            return next(filter(None, match.groups()), "") if output else ""
        if not printed.match(text):
            break
        output = True
    return ""


def command_in(event: Any) -> str:
    """Return the command that the person gave the model with nothing behind it (``/init``); empty for another event."""
    if event.kind == "prompt" and event.text and (typed_as := _COMMAND.fullmatch(event.text)):
        return typed_as[1]
    text = event.text.lstrip() if event.kind == "injected" and event.text else ""
    match = discovery.declared_pattern("records.command").match(text) if text.startswith("<") else None
    return next(filter(None, match.groups()), "") if match else ""


def went_on(event: Any) -> bool:
    """Tell whether the person ran a command in the prompt, be it one of the shell or of the agent, other than to leave."""
    text = event.text.lstrip() if event.kind == "injected" and event.text else ""
    if discovery.declared_pattern("records.shell_command").match(text):
        return True
    named = discovery.declared_pattern("records.named_command").match(text)
    return named is not None and next(filter(None, named.groups()), "") not in discovery.declared_texts("records.leaving_commands")


def plan_in(event: Any) -> str:
    """Return the heading of the agent's own plan whose work the person began with it, typing nothing; empty for another event."""
    return approved_plan(event.kind, event.subtype, event.text) if event.kind == "injected" and event.subtype == APPROVED_PLAN else ""


def _commands(view: SessionView) -> list[tuple[Any, str]]:
    return [(e, began) for e in view.events if (began := command_in(e) or plan_in(e))]


def _by(event: Any) -> str:
    return "plan" if plan_in(event) else "command"


def _refusals(view: SessionView) -> list[tuple[Any, str]]:
    """Return what the person said when a call was refused."""
    found = ((e, asked(e.text)) for e in view.events if (e.kind, e.subtype) == REASON[:2] and e.text)
    return [(e, ask) for e, ask in found if ask]


def _requests(view: SessionView, prompts: Sequence[Any]) -> list[tuple[Any, str]]:
    told = [(e, ask) for e in prompts if (ask := asked(e.text or ""))]
    return [one for one in told if is_request(one[1]) and not _replies(view, *one)] or told


def _replies(view: SessionView, prompt: Any, ask: str) -> bool:
    """Tell whether a prompt of one word answers what the agent asked last."""
    if " " in ask:
        return False
    before = _answer_before(view, prompt)
    return before is not None and "?" in before.text[-_QUESTION:]


def _request(prompt: tuple[Any, str], by: str = "prompt") -> Request:
    event, ask = prompt
    text = event.text or ""
    typed = _GOES_ON.sub("", text)
    words = one_line(beside_output(_marking_gaps(typed))) if by == "prompt" and "\n" in text else ""
    if not words and asked(text) == ask:
        words = one_line(_marking_gaps(typed[:_PAGE]))
    return Request(shorten_ask(words or ask, LONGEST), by, event.event_id, event.ts)


_GOES_ON = lazy_pattern(r"(?<![\w\\])(?<!\b[A-Za-z]:)\\[ \t]*(?=\r?\n|\Z)")
"""What a terminal writes at the end of a line of a prompt that goes on; the end of a folder of Windows is none."""


def _title(view: SessionView) -> Request | None:
    title = view.session.title
    return Request(cut(one_line(title)), "title", None, None) if title else None


def _plan(view: SessionView, since: int) -> Request | None:
    """Return the heading of the newest plan that the person approved behind a place in the main thread."""
    main = view.once(_main)
    began = [(e.seq, plan_in(e), e.event_id, e.ts) for e in view.of_kinds("injected") if e.thread_id == main]
    agreed = [c for c in view.tool_calls if c.action == "plan" and not c.is_error and c.result_event and c.thread_id == main]
    plans = [(c, arguments_of(view.call_text(c)).get("plan")) for c in agreed if c.seq > since]
    began += [(c.seq, plan_heading(plan), c.call_event, c.started) for c, plan in plans if isinstance(plan, str)]
    found = [
        (seq, Request(head, "plan", event_id, ts)) for seq, text, event_id, ts in began if seq > since and (head := cut(one_line(text)))
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def arguments_of(text: str) -> dict[str, Any]:
    """Return the arguments of a call; empty for what is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_ANSWERED = lazy_pattern(r'"([^"\n]{3,300})"="([^"\n]{1,300})"')
_CLOSING = lazy_pattern(r"(?:\.\sYou can [^\".]{0,160})?\.?\s{0,9}$")
_BEHIND_QUOTE = lazy_pattern(r"(?<=\")\.\s[A-Z][^\"]{0,120}$")
"""What the host says behind the last answer: one sentence, or any words where no note stands before them."""
_SHOWN, _NOTED = " selected preview:\n", " user notes: "
"""What stands before the text that the agent had shown of a choice, and before what the person wrote beside it."""


def answered(view: SessionView, call: Any) -> Iterator[tuple[str, str]]:
    """Yield what the agent asked the person in a call with the answer: quoted in a sentence, or by the ids of the questions.

    An answer is what was chosen or typed; the question and what the agent showed of a choice are not the person's words.
    """
    told = view.result_text(call)
    given, asked_of = arguments_of(told).get("answers"), arguments_of(view.call_text(call)).get("questions")
    every = [q for q in asked_of if isinstance(q, dict)] if isinstance(asked_of, list) else []
    if not isinstance(given, dict):
        yield from _quoted_answers(told, every) or _ANSWERED.findall(told)
        return
    for question in every:
        asking = str(question.get("question"))
        found = given.get(str(question.get("id")), given.get(asking))
        texts = found.get("answers") if isinstance(found, dict) else [found] if isinstance(found, str) else None
        if isinstance(texts, list) and texts:
            yield asking, ", ".join(map(str, texts))


def _quoted_answers(told: str, questions: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the answers of a sentence that quotes each question before its answer, whatever signs an answer holds."""
    asked_of = {str(q.get("question")): q for q in questions}
    begins = sorted((at, f'"{q}"="', q) for q in asked_of if (at := told.find(f'"{q}"="')) >= 0)
    found: list[tuple[str, str]] = []
    for place, (at, quoted, question) in enumerate(begins, 1):
        last = place == len(begins)
        given = told[at + len(quoted) :] if last else told[at + len(quoted) : begins[place][0]].removesuffix(", ")
        if answer := _own_words(_CLOSING.sub("", given) if last else given, asked_of[question]):
            found.append((question, answer))
    return found


def _own_words(given: str, question: dict[str, Any]) -> str:
    """Return what was chosen or typed, and below it what the person noted; what the agent had shown of the choice is left out."""
    answer, shown, behind = given.partition(f'"{_SHOWN}')
    if shown:
        previews = _previews(question)
        known = next((text for text in previews if behind == text or behind.startswith(f"{text}{_NOTED}")), None)
        notes = behind[len(known) :].removeprefix(_NOTED) if known is not None else behind.rpartition(_NOTED)[2] if _NOTED in behind else ""
        return "\n".join(filter(None, (answer, notes)))
    answer, noted, notes = given.partition(f'"{_NOTED}')
    if noted:
        return "\n".join(filter(None, (answer, notes)))
    closed = _BEHIND_QUOTE.sub("", given)
    return closed[:-1] if closed.endswith('"') else ""


def _previews(question: dict[str, Any]) -> list[str]:
    """Return what the agent showed of the choices of a question, the longest first."""
    options = question.get("options")
    shown = (option.get("preview") for option in options if isinstance(option, dict)) if isinstance(options, list) else ()
    return sorted((text for text in shown if isinstance(text, str) and text), key=len, reverse=True)


def cut(text: str, width: int = LONGEST) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"
