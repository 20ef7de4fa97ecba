"""The instructions by which a model draws lessons, improved on those that a person accepted and rejected."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError, UsageError
from ctx_pipeline.mining.lessons.asked_models import model_lessons as asked
from ctx_pipeline.mining.lessons.rules.said_rules import terms
from ctx_pipeline.pipeline.models.model_judge import access, language_model
from ctx_pipeline.pipeline.models.outgoing_record import TABLES, outgoing_record
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.pricing.price_book import PriceBook
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.settings import keep_litellm_offline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.journal import Journal

INSTRUCTED = "mining.instructions"
"""Kind of the journal's facts that hold instructions which a person took; the newest counts."""

TABLE = "mine"
LEAST_JUDGED = 4
"""Judged lessons below which there is nothing to learn from."""

_ALIKE = 0.5
"""Share of the words of the shorter of two lessons from which both say the same."""

_LONGEST = 6_000
_MOST_TOKENS = 4_000
_BYTES_A_TOKEN = 4
"""A sign of Chinese has three, and is most of a token."""

_FRAME = 2_200
"""Bytes around the instructions and the record of a request: what the fields of an answer are."""

_AT_ONCE = 3
"""Sessions that one try of other instructions is held against first."""

_NANO = 1_000_000_000


class Judged(NamedTuple):
    """A session's record with the lessons of it that a person accepted and rejected."""

    record: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]


class Plan(NamedTuple):
    """What an optimization would send."""

    model: str
    sessions: list[Judged]
    calls: int
    """requests, of all kinds, that are never exceeded"""
    tokens: int
    """about so many are sent if all requests are made"""
    cost: float | None
    """about so many USD, at list prices and with the longest answers; None where no price is known"""


class Optimized(NamedTuple):
    """What an optimization gave: instructions, their score before and after (0 to 1), and what was paid."""

    instructions: str
    before: float
    after: float
    sessions: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """USD as the provider says, else at list prices; None where neither is known"""


def worth(told: Sequence[str], judged: Judged) -> tuple[float, str]:
    """Return how good the lessons of an answer are, 0 to 1, and why in words: the metric of the program.

    Half is the share of the accepted lessons that are told, half the share of what is told
    that was not rejected; no lesson where all were rejected is the best answer.
    """
    found = [a for a in judged.accepted if any(alike(a, t) for t in told)]
    wrong = [t for t in told if any(alike(t, r) for r in judged.rejected)]
    share = len(found) / len(judged.accepted) if judged.accepted else 1.0
    clean = 1 - len(wrong) / len(told) if told else 1.0
    missed = [a for a in judged.accepted if a not in found]
    said = [
        *(f"A lesson that the person accepted is missing: {a}" for a in missed),
        *(f"The person rejected a lesson like this one: {w}" for w in wrong),
    ]
    return round(0.5 * share + 0.5 * clean, 4), "\n".join(said) or "All accepted lessons are told, and none that was rejected."


def alike(one: str, other: str) -> bool:
    """Tell whether two lessons say the same: half of the words of the shorter one are in the other."""
    first, second = terms(one), terms(other)
    return bool(first and second) and len(first & second) >= _ALIKE * min(len(first), len(second))


def judged_sessions(store: Store, settings: Settings) -> list[Judged]:
    """Return the sessions that taught lessons which a person accepted or rejected, with their redacted records."""
    from ctx_pipeline.model.memories import Memory

    lessons: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for row in store.lake.read_rows("memories", WHOLE, "memory/consolidated"):
        memory = Memory._make(row)
        if memory.source == "mined" and memory.status in ("accepted", "rejected"):
            for name in memory.sessions:
                host, _, session_id = name.partition("/")
                lessons.setdefault((host, session_id), ([], []))[memory.status == "rejected"].append(memory.text)
    redactor = Redactor(settings.patterns)
    found = []
    for cell in sorted(store.lake.manifests("normalized")):
        wanted = {session for host, session in lessons if host == cell.host}
        for view in store.lake.read_sessions(cell, wanted, TABLES) if wanted else ():
            accepted, rejected = lessons[view.host, view.session_id]
            found.append(Judged(outgoing_record(view, redactor), tuple(accepted), tuple(rejected)))
    return found


def instructions(journal: Journal) -> str:
    """Return the instructions that a person took last; those that are shipped where nobody did."""
    taken = journal.newest(INSTRUCTED, 1)
    return str(taken[0].payload["instructions"])[:_LONGEST] if taken else asked.INSTRUCTIONS


def plan(store: Store, settings: Settings, *, calls: int) -> Plan:
    """Return what an optimization would send; nothing is sent.

    Raises UsageError where fewer than four lessons were judged, or where ``calls`` are too
    few for one try, SettingsError where no model is configured.
    """
    sessions = judged_sessions(store, settings)
    count = sum(len(s.accepted) + len(s.rejected) for s in sessions)
    if count < LEAST_JUDGED:
        raise UsageError(f"{count} judged lessons are too few to learn from", hint="ctx learn --ask")
    found = access(settings, TABLE)
    each, least = _one_try(len(sessions)), len(sessions) + _one_try(len(sessions))
    if calls < least:
        raise UsageError(f"{calls} calls are too few: one try over {len(sessions)} sessions makes {least}", hint=f"--optimize {least}")
    sizes = [len(s.record.encode()) for s in sessions]
    each_request = sum(sizes) / len(sizes) + len(instructions(store.journal).encode()) + _FRAME
    # a try asks for better words with the records of its first sessions in one request
    share = (each + min(_AT_ONCE, len(sessions)) - 1) / each
    tokens = int(calls * each_request * share / _BYTES_A_TOKEN)
    return Plan(found.model, sessions, calls, tokens, list_price(settings, found.model, tokens, calls * longest_answer(found.model)))


def tokens_of(questions: Sequence[str]) -> int:
    """Return about how many tokens requests with these questions have."""
    return sum(len(question.encode("utf-8", "replace")) + _FRAME for question in questions) // _BYTES_A_TOKEN


def longest_answer(name: str) -> int:
    """Return the tokens that an answer of a model may have."""
    keep_litellm_offline()
    import dspy

    given = language_model(dspy.LM, name, {"temperature": 0.0, "max_tokens": _MOST_TOKENS}).kwargs
    return int(given.get("max_completion_tokens") or given["max_tokens"])


def _one_try(sessions: int) -> int:
    """Return the requests of one try: some sessions by the old and by new words, one for these words, and then all sessions."""
    return 2 * min(_AT_ONCE, sessions) + 1 + sessions


def list_price(settings: Settings, model: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return the USD of so many tokens at list prices."""
    nano, _ = PriceBook.of(settings).cost_nano(model, None, input=tokens_in, output=tokens_out)
    return None if nano is None else nano / _NANO


class _Count:
    """Counts requests and allows no more than so many; copies of a model share it."""

    def __init__(self, most: int) -> None:
        self.most, self.made = most, 0

    def __deepcopy__(self, _: Any) -> _Count:
        return self

    def one_more(self) -> None:
        if self.made >= self.most:
            raise UsageError(f"{self.most} calls are made", hint="more calls: ctx learn --optimize CALLS")
        self.made += 1


def optimize(store: Store, settings: Settings, *, calls: int) -> Optimized:
    """Return better instructions, found by GEPA with at most ``calls`` requests to the configured model; nothing is kept.

    Raises what ``plan`` raises, and SettingsError where the model answers nothing.
    """
    wanted = plan(store, settings, calls=calls)
    found = access(settings, TABLE)
    keep_litellm_offline()
    import dspy

    from ctx_pipeline.mining.dspy import signature

    count = _Count(calls)

    class Counted(dspy.LM):  # type: ignore[misc]
        def __call__(self, *args: Any, **more: Any) -> Any:
            count.one_more()
            return super().__call__(*args, **more)

    model = language_model(Counted, found.model, {**found.options, "max_tokens": _MOST_TOKENS, "num_retries": 0})
    examples = [dspy.Example(record=s.record, judged=s).with_inputs("record") for s in wanted.sessions]
    program = dspy.Predict(signature(instructions(store.journal)))

    def metric(gold: Any, pred: Any, *_: Any) -> Any:
        score, why = worth(_texts(pred), gold.judged)
        return dspy.Prediction(score=score, feedback=why)

    tried = dspy.GEPA(
        metric=metric,
        max_metric_calls=calls,
        reflection_lm=model,
        reflection_minibatch_size=min(_AT_ONCE, len(examples)),
        use_merge=False,
        track_stats=True,
        num_threads=1,
        seed=0,
        gepa_kwargs={"stop_callbacks": [lambda _: count.made + _one_try(len(examples)) > calls or not model.history]},
    )
    # an answer that does not fit is none: asking for it in another form would be a second request
    with _quiet_log(dspy.__name__), dspy.context(lm=model, callbacks=[], adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        better = tried.compile(program, trainset=examples, valset=examples)
    if not model.history:
        raise SettingsError(f"{found.model} gave no answer to {count.made} requests", hint="look at [mine] in config.toml")
    scores = better.detailed_results.val_aggregate_scores
    usage = [entry.get("usage") or {} for entry in model.history]
    sent, answered = (sum(int(u.get(name) or 0) for u in usage) for name in ("prompt_tokens", "completion_tokens"))
    costs = [entry.get("cost") for entry in model.history]
    told = sum(c for c in costs if c) if any(c is not None for c in costs) else None
    return Optimized(
        str(better.signature.instructions)[:_LONGEST],
        round(scores[0], 4),
        round(max(scores), 4),
        len(examples),
        count.made,
        sent,
        answered,
        list_price(settings, found.model, sent, answered) if told is None else told,
    )


@contextmanager
def _quiet_log(name: str) -> Iterator[None]:
    """Keep what a library notes of each try from the person: the result says what was found and paid."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _texts(prediction: Any) -> list[str]:
    lessons: Iterable[Any] = getattr(prediction, "lessons", None) or ()
    return [str(lesson.text) for lesson in lessons]


def take(journal: Journal, made: Optimized) -> None:
    """Keep instructions: from now on a model is asked by them."""
    journal.append(INSTRUCTED, {"instructions": made.instructions, "before": made.before, "after": made.after}, actor="person")
