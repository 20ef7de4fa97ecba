"""From the rows of a session to its state: what was asked, found, decided, changed, checked and planned up to a moment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.context.session_state.state import REFUSAL, Item, SessionState, asked_for
from ctx_pipeline.facts.check_runs import check_runs, runs_of_hooks
from ctx_pipeline.facts.command_runs import command_runs, printed, runs_by_call
from ctx_pipeline.facts.prompts import MERGED, acts, arguments_of, command_before, one_line, orders, shell_before, task, typed_words
from ctx_pipeline.facts.started_agents import starting_calls
from ctx_pipeline.mining.lessons.commands import checks_format, formats, shown
from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.host_records import REASON
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.changed_files import file_states
from ctx_pipeline.sessions.states.check_scope import Scope, scope_of
from ctx_pipeline.sessions.states.commits import last_commit
from ctx_pipeline.sessions.states.decisions import decisions
from ctx_pipeline.sessions.states.end_state import BRANCH, end_state, recorded_branch
from ctx_pipeline.sessions.states.ending import agent_orders, called, ending, recap, warmed_up
from ctx_pipeline.sessions.states.last_checks import CHECKED, last_checks, why_failed
from ctx_pipeline.sessions.states.offers import BRIEF, reply_between, with_offer
from ctx_pipeline.sessions.states.times import micros, written
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.sessions.states.commits import Commit


# What a session planned, and what its agent asked the person.


_ENDED = frozenset({"completed", "done", "deleted", "cancelled", "canceled"})
_CREATED = lazy_pattern(r"#(\w+)")
_LISTED = lazy_pattern(r"(?m)^#(\w+) \[(\w+)\] ")
"""A task as a list of all of them shows it."""


class Planned(NamedTuple):
    """An item of a plan: what is to be done, its status (``pending``, ``in_progress``, ``completed``), and the call that said so last."""

    text: str
    status: str
    call: Any

    @property
    def ended(self) -> bool:
        """It is done or given up."""
        return self.status in _ENDED


def planned(view: SessionView, calls: Sequence[Any]) -> list[Planned]:
    """Return the items of the last list, or of the tasks that were made one by one."""
    listed: list[Planned] | None = None
    tasks: dict[str, Planned] = {}
    for call in calls:
        body = arguments_of(view.call_text(call)) if call.action == "plan" else {}
        items = next((v for v in body.values() if isinstance(v, list)), None)
        if items is not None:
            listed = [_item(i, call) for i in items if isinstance(i, dict)]
        elif isinstance(body.get("subject"), str) and (made := _CREATED.search(view.result_text(call))):
            tasks[made.group(1)] = Planned(clean(body["subject"]), "pending", call)
        elif not body:
            said = {number: status for number, status in _LISTED.findall(view.result_text(call)) if number in tasks}
            tasks |= {number: tasks[number]._replace(status=status, call=call) for number, status in said.items()}
        elif str(body.get("taskId")) in tasks:
            before = tasks[str(body["taskId"])]
            subject = clean(str(body["subject"])) if body.get("subject") else before.text
            tasks[str(body["taskId"])] = Planned(subject, str(body.get("status") or before.status), call)
    return [item for item in (listed if listed is not None else tasks.values()) if item.text]


def _item(item: Mapping[str, Any], call: Any) -> Planned:
    said = next((str(item[key]) for key in ("content", "step", "subject", "text") if item.get(key)), "")
    return Planned(clean(said), str(item.get("status") or ""), call)


_PLACE = lazy_pattern(r"(?<![\w/.-])((?:[\w@.-]{1,60}/){0,12}[\w@-][\w@.-]{0,80}\.[A-Za-z]\w{0,7}):(\d{1,7})\b")
_CLAIM = lazy_pattern(r"[`*]{0,2}\s{0,3}(?:—|\u2013|-|:)\s{1,3}(\S[^\n]{11,300})")
_LONG, _SHORT, _NAMED = 400, 160, 90
_NOT_FOUND = lazy_pattern(
    r"(?i)```|(?:as|at|by|for|from|in|of|on|to|via|when|where|with|called|returned|used) "
    r"|\W{0,3}(?:now |will |to )?(?:add|remov|fix|chang|updat|renam|replac|mov|creat|delet|refactor|implement|extract|introduc|simplif"
    r"|convert|adjust|correct|rewrit|rewrote|drop|revert|bump|wrap|mak|made|writ|wrote|switch|inlin|ensur|modif)"
    r"(?:e|ed|d|ing|ting|ped|pped|pping|y|ied|ten)? (?:the|a|an|this|that|these|those|all|any|some|its|[`'\"(])"
)
"""The beginning of code, of words that go on with what stands before the place, and of such that say what is to be done there, or was."""

_MISCALLED = lazy_pattern(
    r"(?i)^(?:error|usage): .*(?:unexpected argument|unrecogni[sz]ed (?:option|argument)|unknown (?:option|flag|argument)|no such option"
    r"|file or directory not found|no library targets found)|:1:1: E902 "
)
"""What a runner says that was called wrongly: it found nothing."""

_LACKING = lazy_pattern(r"(?i)command not found|no such command|not installed")


def fold(view: SessionView, *, whole: bool = True, head: int = 0, brief: bool = False) -> SessionState:
    """Return the state that the rows of a session show; what people said is not in it.

    Rows may be cut at any event (:func:`upto`); those of which the middle is missing are not ``whole``, and
    which prompt was the first is known if it stands in the ``head``, of so many bytes. Subagents count
    as part of the session, but it stood where its own thread did. A ``brief`` one has what a block tells, and no
    findings of its own and no figures: a hook has no time for them.
    """
    session = view.session
    main = [e for e in view.events if e.thread_id == view.session_id] or view.events
    # an agent that its host only warms up writes beside the work, also days later
    last = max((e.ts for e in main if e.ts is not None and e.kind != "unknown"), key=micros, default=None)
    plan = _plan(view)
    asked = _prompts(view, whole=whole, head=head)
    checks = last_checks(view)
    told = {name: getattr(session, name, None) for name in ("title", "project", "repository", "branch")}
    agents = unseen_agents(view)
    end, outside, commit = ending(view, main, whole=whole), list(end_state(view, agents)), _commit(made := last_commit(view))
    if commit is None and main and (on := recorded_branch(view, main[-1])):  # the person may have left the one that a command showed
        outside = [on, *(item for item in outside if item.by != BRANCH)]
    alone = _only_subagents(view)
    return SessionState(
        host=view.host,
        session_id=view.session_id,
        **told,
        titled=getattr(session, "title_source", None) != "prompt",
        as_of=written(last),
        seq=main[-1].seq if main else -1,
        began=written(session.first_ts),
        asked_first=asked.first,
        asked_last=asked.last,
        task=task_of(view),
        findings=[] if brief else [*_failures(view), *_claims(view, session.cwd)],
        decisions=list(decisions(view)),
        progress=[_planned_item(p) for p in plan if p.status in ("completed", "done")],
        next_steps=[_planned_item(p) for p in plan if not p.ended],
        files=file_states(view),
        unseen_agents=len(agents),
        forked_from=_forked_from(view, main),
        commit=commit,
        unsent=made is not None and made.unsent and not agents,
        committed=any("git commit" in run.programs or "commit" in run.command for run in command_runs(view)),
        subagents_only=alone,
        subagents=len({e.thread_id for e in view.events} - view.once(warmed_up)) if alone else 0,
        orders=[order for order in agent_orders(view)[1:] if order] if alone else [],
        hooks_ran=bool(view.once(runs_of_hooks)),
        tests=checks[0] if checks else None,
        checks=checks,
        asked_again=asked.again,
        asked_before=asked.before,
        goes_on=asked.goes_on,
        answer_of_subagent=end.of_subagent,
        said_last=asked.said,
        replied=asked.replied,
        answer=end.answer,
        recap=recap(view, main),
        answer_longer=list(end.longer),
        calls_since=end.calls_since,
        unanswered=end.unanswered,
        asked_since=end.asked_since,
        delivered=end.delivered,
        last_call=end.last_call,
        outside=outside,
        stats={} if brief else _stats(view),
    )


def _commit(commit: Commit | None) -> Item | None:
    return Item(commit.text, "git", written(commit.ended), commit.event, reason=commit.since or None) if commit else None


def _forked_from(view: SessionView, main: Sequence[Any]) -> Item | None:
    """Return the id of the session that this one was forked from, with the event that begins it; None where it is none."""
    parent = getattr(view.session, "parent_session", None) or ""
    begun = next((e for e in main if e.kind == "session_start"), None)
    return Item(parent, "fork", written(begun.ts), begun.event_id) if begun is not None and _ID.fullmatch(parent) else None


_ID = lazy_pattern(r"[0-9A-Za-z][\w-]{3,63}")
"""An id as it may stand in a command."""


def resume_command(host: str, session_id: str, folder: str | None, *, archived: bool) -> str:
    """Return the command that resumes a session; empty where nothing does, as for one that was named after a file."""
    import uuid  # a hook that tells of its own session does without

    try:
        uuid.UUID(session_id)
    except ValueError:
        return ""
    return discovery.hosts()[host].resuming(session_id, folder, archived=archived)


def upto(view: SessionView, thread: str, seq: int, at: int | None) -> SessionView:
    """Return the rows of a session up to an event of a thread; of other threads what had happened by that time."""
    events = [e for e in view.events if (e.seq <= seq if e.thread_id == thread else at is None or e.ts is None or micros(e.ts) <= at)]
    seen = {e.event_id for e in events}
    calls = [
        c if c.result_event is None or c.result_event in seen else c._replace(result_event=None, ended=None, is_error=False, exit=None)
        for c in view.tool_calls
        if c.call_event in seen
    ]
    keys = {e.call_key for e in events if e.call_key}
    known = {e.call_key for e in view.events if e.call_key}
    models = [m for m in view.model_calls if m.call_key in keys or (m.call_key not in known and m.ts is not None and _before(m.ts, at))]
    return replace(view, events=events, tool_calls=calls, model_calls=models, facts={}, _made={})


def _before(ts: Any, at: int | None) -> bool:
    return at is not None and micros(ts) <= at


# what it is about


def _plan(view: SessionView) -> list[Any]:
    return [p for p in planned(view, [c for c in view.tool_calls if c.action == "plan"]) if not repeats(view, p.text)]


def task_of(view: SessionView) -> Item | None:
    """Return the task that a session is at; a step at work counts where no prompt says by itself what to do."""
    known = view.once(task)
    step = next((p for p in _plan(view) if p.status == "in_progress"), None)
    if step is not None and not known.told and (known.now is None or known.now.by != "plan"):
        return Item(truncate(step.text, _LONG), "todos", written(step.call.started), step.call.call_event)
    now = known.now
    if (now is None or now.by == "title") and _only_subagents(view) and (order := next(iter(agent_orders(view)), None)):
        return order  # the title may be of another one
    return Item(now.text, now.by, written(now.ts), now.event_id) if now else None


def _only_subagents(view: SessionView) -> bool:
    """Tell whether no event of the main thread is recorded."""
    return bool(view.events) and all(e.thread_id.startswith(f"{view.session_id}/") for e in view.events)


def current_task_of(view: SessionView) -> Item | None:
    """Return what :attr:`SessionState.current_task` is where nobody said anything of the task."""
    asked = _prompts(view)
    return asked_for(asked.first, asked.last, asked.before, goes_on=asked.goes_on) or task_of(view)


class _Prompts(NamedTuple):
    """Prompts that ask for something; the last and the one before are others than the first."""

    first: Item | None
    last: Item | None
    said: Item | None
    """what the person said behind them"""
    again: bool
    """the last one says what the first one does, word for word"""
    before: Item | None
    goes_on: bool
    """the last one only goes on with the one before"""
    replied: Item | None
    """the last reply to a question of the agent between the last request and what was said, where that answers none"""


def _prompts(view: SessionView, *, whole: bool = True, head: int = 0) -> _Prompts:
    first, last, said, before = _asked(view)
    request, newest = (last, said) if said is not None else (before, last)
    replied = reply_between(view, request, newest) if request is not None and newest is not None and not newest.reason else None
    if not whole:
        first, last, before = _known_of_part(view, head, first, last, before)
    if said is not None and acts(said.text):
        before, last, said = before or last, said, None
    goes_on = before is not None and (last is None or not orders(last.text))
    last, before = (one if first is None or one is None or one.event != first.event else None for one in (last, before))
    return _Prompts(first, last, said, _repeated(view, first, last), before, goes_on, replied)


def _repeated(view: SessionView, first: Item | None, last: Item | None) -> bool:
    """Tell whether two prompts are the same as a whole; an answer to a question, or a refusal of another call, is another."""
    if first is None or last is None:
        return False
    one, other = (view.by_event.get(item.event or "") for item in (first, last))
    same = (first.text, first.by, first.reason) == (last.text, last.by, last.reason)
    return same and one is not None and other is not None and typed_words(one.text) == typed_words(other.text)


def _asked(view: SessionView) -> list[Item | None]:
    """Return the first and the last prompt that ask for something, what the person said behind it, and what the last one is about."""
    known = view.once(task)
    first, *others = (_asked_item(view, request) for request in (known.first, known.last, known.then, known.about))
    return [first, *(with_offer(view, said) for said in others)]


def _known_of_part(view: SessionView, head: int, first: Item | None, last: Item | None, before: Item | None) -> tuple[Item | None, ...]:
    """Return the same prompts of rows whose middle is missing, where one behind the ``head`` may be no first one, and one in it no last."""

    def behind(item: Item) -> bool:
        return bool(view.by_event[item.event or ""].start >= head)

    if first is not None and behind(first):
        at = view.by_event[first.event or ""].seq
        done = any(e.seq > at and MERGED.match(one_line(e.text or "")) for e in view.prompts)
        first, before = None, before or (None if done else first)
    if last is not None and not behind(last):
        last, before = None, last
    return first, last, before if before is not None and (last is None or before.event != last.event) else None


def _asked_item(view: SessionView, request: Any) -> Item | None:
    """Return a request with the slash command that it stands behind, or with the call that was refused by it."""
    if request is None or not request.event_id:
        return None
    event = view.by_event.get(request.event_id)
    if event is not None and (event.kind, event.subtype, event.actor) == REASON:
        call = next((c for c in view.tool_calls if c.call_id == event.call_id and c.thread_id == event.thread_id), None)
        return Item(request.text, REFUSAL, written(request.ts), request.event_id, reason=called(view, call) if call else "a call")
    command = command_before(view, event)
    if not command and len(request.text) <= BRIEF and (ran := shell_before(view, event)):
        command = f"(after ! {truncate(shown(ran, view.session.cwd), _SHORT)})"
    return Item(f"{command} {request.text}".lstrip(), request.by, written(request.ts), request.event_id)


def _planned_item(step: Any) -> Item:
    begun = " (begun)" if step.status == "in_progress" else ""
    return Item(truncate(step.text, _SHORT) + begun, "todos", written(step.call.started), step.call.call_event)


# what came of it


def _failures(view: SessionView) -> Iterator[Item]:
    """Yield for each check the failure that it ended with, or the last one that was mended; what still fails ranks first.

    Runs that check the same are one check, whatever shapes their output; what a later run
    checked too, by itself or among more, and found in order, is not said to fail. What a
    formatter rewrote later is no finding.
    """
    cwd, commands = view.session.cwd, runs_by_call(view)
    by_scope: dict[tuple[str, Scope], list[Any]] = {}
    every = check_runs(view)
    listed: set[str] = set()
    for check in every:
        by_scope.setdefault((check.thread_id, scope_of(check, cwd)), []).append(check)
    for n, ((thread, scope), members) in enumerate(by_scope.items()):
        bad = next((c for c in reversed(members) if c.result == "failed"), None)
        why = _RULE.sub("", why_failed(view, bad)) if bad is not None else ""
        if bad is None or not why:
            continue
        place = _PLACE.search(why)
        path, line = (place[1], int(place[2])) if place else (None, None)
        behind = [c for c in every if c.thread_id == thread and c.seq > bad.seq]
        if _formatted(bad, behind):
            continue
        later = (
            _passed_later(bad, scope, [(c, scope_of(c, cwd)) for c in behind])
            or _passed_with_same_words(bad, every, commands, cwd)
            or _named_as_passed(view, bad, behind)
        )
        uncounted = not bad.passed and not bad.failed
        if uncounted and _MISCALLED.search(why) and any(c.kind == bad.kind and c.result == "passed" for c in behind):
            continue
        command = commands[bad.call_event]
        named = _named(command, bad, cwd)
        told = f"`{truncate(named, _NAMED)}`"
        if later is not None:
            again = _named(commands[later.call_event], later, cwd)
            same = any(c.result == "passed" and _named(commands[c.call_event], c, cwd) == named for c in behind)
            passed = "then passed" if same else f"`{truncate(again, _NAMED)}` passed later"
            text = f"{told} failed, {passed}: {truncate(why, _LONG)}"
        else:
            text = f"{told} failed when it last {'ran' if members[-1].result == 'failed' else 'ended'}: {truncate(why, _LONG)}"
        if text in listed or (later is not None and why in listed and _LACKING.search(why)):
            continue  # one run that two tools report of, or a tool that another call had lacked as well
        listed |= {text, why}
        score = (8.0 if later is None else 4.0) + n / 100
        yield Item(text, "checks", written(command.started), bad.event, path, line, score=score, passed_later=later is not None)


def _named(run: Any, check: Any, cwd: str | None) -> str:
    """Return a command line as it is told; of a long one the part that ran the check."""
    whole = shown(run.command, cwd)
    if len(whole) <= _NAMED or not check.program:
        return whole
    alike = [step for step in steps(run.command) if step.purpose == check.kind]  # which of several failed is not known
    return shown(alike[0].text, cwd) if len(alike) == 1 and check.program.startswith(alike[0].subject) else whole


def _passed_later(bad: Any, scope: Scope, behind: Sequence[tuple[Any, Scope]]) -> Any:
    """Return the last later run of what a check had failed on, if all of it passed when it last ran, be it by parts."""
    last = bad
    for part in scope.parts():
        found = next((c for c, wide in reversed(behind) if c.ran is not False and part.within(wide)), None)
        if found is None or found.result != "passed":
            return None
        last = max(last, found, key=lambda c: c.seq)
    return last


def _passed_with_same_words(bad: Any, every: Sequence[Any], commands: Mapping[str, Any], cwd: str | None) -> Any:
    """Return what the last later run of the same words found, if all of it passed: which tool a task runs shows only where it prints.

    Other checks of a line are no part of the words: one of several may run by itself later.
    """

    def words(check: Any) -> tuple[str, ...]:
        before = shown(commands[check.call_event].command, cwd).partition(check.program)[0] if check.program else ""
        parts = (part.strip() for part in before.split("&&"))
        return check.program, *(part for part in parts if part and not any(step.purpose in CHECKED for step in steps(part)))

    ran = {words(c) for c in every if c.program and c.call_event == bad.call_event}
    if bad.program or len(ran) > 1:
        ran &= {words(bad)}  # what a task runs names no program: the task does, where it is alone
    same = [c for c in every if c.thread_id == bad.thread_id and c.seq > bad.seq and c.program and words(c) in ran]
    last = [c for c in same if c.call_event == same[-1].call_event]
    return last[-1] if last and all(c.result == "passed" for c in last) else None


def _formatted(bad: Any, behind: Sequence[Any]) -> bool:
    """Tell whether a formatter, which is not known to have failed, rewrote later what a check of the format had found."""
    if not bad.program or not checks_format(bad.program):
        return False
    tool = bad.program.split()[0]
    return any(c.program and c.program.split()[0] == tool and formats(c.program) and c.result != "failed" for c in behind)


_FAILED_PART = lazy_pattern(r"(?m)^\s{0,8}FAIL\s{1,4}(\S*[./]\S*)")
_PASSED_PART = lazy_pattern(r"(?m)^\s{0,8}(?:ok|PASS)\s{1,4}(\S*[./]\S*)")
"""The lines of Go and Jest that name the package or file of tests that failed, or passed."""


def _named_as_passed(view: SessionView, bad: Any, behind: Sequence[Any]) -> Any:
    """Return the last later run that passed and names as passed each part that a check named as failed; None where there is none."""
    if bad.kind != "test":
        return None
    commands = runs_by_call(view)
    failed = set(_FAILED_PART.findall(printed(view, commands[bad.call_event])))
    for check in reversed(behind) if failed else ():
        if check.kind == "test" and check.ran is not False:
            passed = set(_PASSED_PART.findall(printed(view, commands[check.call_event])))
            if check.result == "passed" and failed <= passed:
                return check
            if failed & set(_FAILED_PART.findall(printed(view, commands[check.call_event]))):
                return None
    return None


_RULE = lazy_pattern(r"^[=_*\u2500\u2501\u2550-]{3,}\s*|\s*[=_*\u2500\u2501\u2550-]{3,}$")
"""The line that a runner draws around its last words."""


def _claims(view: SessionView, cwd: str | None) -> Iterator[Item]:
    """Yield what answers say of a place: ``path:12 - text``; later ones rank higher."""
    answers = [e for e in view.events if e.kind == "answer" and e.text and ":" in e.text]
    for n, event in enumerate(answers):
        for place in _PLACE.finditer(event.text[:20_000]):
            said = _CLAIM.match(event.text, place.end())
            if said and not _NOT_FOUND.match(said[1]) and not repeats(view, said[1]):
                text = truncate(clean(said[1]), _LONG)
                yield Item(
                    text, "answer", written(event.ts), event.event_id, shorten_paths(place[1], cwd), int(place[2]), score=1 + n / 1000
                )


def unseen_agents(view: SessionView) -> list[Any]:
    """Return the calls that started subagents which may change files, as many of the last as have no thread in the view."""
    reading = discovery.declared_texts("records.reading_agents")
    calls = [c for c in starting_calls(view) if arguments_of(view.call_text(c)).get("subagent_type") not in reading]
    seen = sum(thread.kind in ("subagent", "sidechain") for thread in view.threads)
    return calls[seen:]


def _stats(view: SessionView) -> dict[str, int]:
    owned = [m for m in view.model_calls if m.owner]
    return {
        "events": len(view.events),
        "prompts": len(view.prompts),
        "model_calls": len(owned),
        "tool_calls": len(view.tool_calls),
        "compactions": len(view.of_kinds("compaction")),
        "prompt_tokens": sum(m.context_tokens for m in owned),
        "output_tokens": sum(m.output for m in owned),
    }
