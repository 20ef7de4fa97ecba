"""Hand-made sessions for the signals of the context window, of git and of the judge, with the values a person counts in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.pipeline.signals.signal_inputs import rot_by_thread
from ctx_pipeline.pricing.price_book import Rates
from ctx_pipeline_tests.factories.views import Builder, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.model.session_view import SessionView

RATES = Rates(input=10.0, cache_read=1.0, cache_write_5m=12.5, cache_write_1h=20.0)
FIGURES = {
    "rate_of": lambda _view: lambda *_call: RATES,
    "rot": rot_by_thread,
}


class Told:
    """A session, with what stages tell a signal beside its rows."""

    def __init__(self, builder: Builder, seen: dict[str, Any] | None = None) -> None:
        self._builder, self._seen = builder, seen or {}

    def build(self) -> SessionView:
        """Return the view."""
        built = self._builder.build()
        built.analyses, built.seen = FIGURES, self._seen
        return built


def nothing() -> Told:
    """No event at all."""
    return Told(view())


def reader() -> Told:
    """Two calls; 10,000 characters of a file come in between, 3,000 tokens of the 4,000 that the prompt grew by."""
    return Told(
        view()
        .prompt("explain a.py")
        .model(10_000, 500, said="I read it.", written=8_000)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 10_000)
        .model(14_000, 100, said="It loads the shop.", read=8_000, written=5_000)
        .model(14_200, 50, said="Anything else?", read=13_000)
    )


def forgetful() -> Told:
    """A compaction takes 90,000 tokens away; the file, the command and the instruction come again."""
    rule = "please keep the public names of the shop module as they are"
    return Told(
        view()
        .prompt(rule)
        .model(90_000, 100, said="Yes.", written=50_000)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 1_000)
        .shell("pytest -q", text="y" * 2_000)
        .model(100_000, 100, said="Next.", read=50_000, written=40_000)
        .other("compaction", '{"trigger":"manual","preTokens":100000}', "system/compact_boundary")
        .model(10_000, 100, said="Where was I?", written=10_000)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 1_000)
        .shell("pytest -q", text="y" * 2_000)
        .prompt(f"again: {rule}")
        .model(12_000, 100, said="Of course.", read=10_000)
    )


def rereader() -> Told:
    """The same file three times: once more for nothing, once more after it was changed; and lines of another that were not shown yet."""
    return Told(
        view()
        .prompt("explain a.py")
        .model(10_000, 500, said="I read it.", written=8_000)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 10_000)
        .shell("sed -n '1,50p' b.py", text="z" * 500)
        .model(14_000, 100, said="Once more.", read=8_000, written=5_000)
        .shell("cat a.py", text="x" * 10_000)
        .shell("sed -n '60,90p' b.py", text="z" * 500)
        .edit("/w/app/a.py")
        .model(18_000, 100, said="Changed.", read=13_000)
        .tool("Read", action="read", paths=("a.py",), text="x" * 10_000)
    )


def stuck() -> Told:
    """Says one thing, another, the first again, and so on, while the prompts grow and the answers shrink."""
    session = view()
    said = ("the loader drops the header of every file", "the header is written twice by the writer")
    for step in range(12):
        session.model(10_000 * (step + 1), 1_600 // (step + 1), said=said[step % 2])
    return Told(session)


def repeating() -> Told:
    """Says the same twice."""
    same = "the loader drops the header of every file"
    return Told(view().model(1_000, 100, said=same).model(1_000, 100, said=same))


SEEN = {"during": 2, "after": 1, "added": 30, "removed": 4, "reverted": 1, "shipped": 2, "commits": ["aaaaaaaaaaaa"]}


def committed() -> Told:
    """Two commits during the session, one after it; one was taken back, two are on the main branch."""
    return Told(view().prompt("go").shell("git add -A && git commit -m done"), {"git": SEEN})


def homeless() -> Told:
    """A session whose directory is gone."""
    return Told(view().prompt("go"), {"git": {"reason": "the working directory is gone"}})


def judged() -> Told:
    """A session that a judge has answered about."""
    answer = {"label": "partly", "confidence": 0.8, "model": "m", "input_tokens": 9, "output_tokens": 2, "cost_nano": 5}
    return Told(view().prompt("go"), {"judge:judged_goal_reached": answer})


EXAMPLES: dict[str, tuple[tuple[Callable[[], Told], Any], ...]] = {
    "cache_hit_share": ((reader, 21_000 / 38_200), (nothing, None)),
    "cache_rebuild_count": ((reader, 0), (forgetful, 1)),
    "cache_rebuild_tokens": ((reader, 0), (forgetful, 10_000)),
    # reader: 21,000 tokens read at 9 less than input, 13,000 written at 2.5 more
    "cache_saved_cost": ((reader, (21_000 * 9 - 13_000 * 2.5) / 10**9), (nothing, None)),
    "compaction_commands_run_again": ((forgetful, 1), (reader, None)),
    "compaction_count": ((forgetful, 1), (reader, 0)),
    "compaction_dropped_tokens": ((forgetful, 90_000), (reader, None)),
    "compaction_files_read_again": ((forgetful, 1), (reader, None)),
    "compaction_prompts_said_again": ((forgetful, 1), (reader, None)),
    "compaction_recovery_tokens": ((forgetful, 900), (reader, None)),
    "compaction_trigger": ((forgetful, "manual"), (reader, None)),
    "completion_efficiency_kept": ((stuck, 133 / 120_000 / 0.16), (repeating, 1.0)),
    "completion_repetition": ((repeating, 1.0), (reader, 0.0)),
    "context_growth_per_call": ((reader, 2_100), (nothing, None)),
    "context_growth_shape": ((reader, "short"), (stuck, "linear")),
    "context_largest_layer": ((reader, "tools"), (stuck, "rest")),
    "context_peak_share": ((reader, 0.071), (forgetful, 0.5)),
    "context_peak_tokens": ((reader, 14_200), (forgetful, 100_000)),
    "context_rot_score": ((stuck, 6), (repeating, 2)),
    "context_rot_verdict": ((stuck, "severe"), (nothing, None)),
    "file_reread_count": ((rereader, 2), (reader, 0)),
    "file_reread_tokens": ((rereader, 6_000), (nothing, None)),
    "file_reread_without_reason_count": ((rereader, 1), (forgetful, 0)),
    "git_commits_after": ((committed, 1), (homeless, None)),
    "git_commits_made_during": ((committed, 2), (homeless, None)),
    "git_commits_reverted": ((committed, 1), (nothing, None)),
    "git_lines_committed": ((committed, 34), (homeless, None)),
    "git_shipped_share": ((committed, 2 / 3), (homeless, None)),
    "judged_goal_reached": ((judged, "partly"), (nothing, None)),
    "largest_result_carry_share": ((reader, 6_000 / 38_200), (nothing, None)),
    "looping_completion_count": ((stuck, 10), (repeating, 0)),
    # carried to two calls; the second reading comes from the cache for 13,000 of 14,200 tokens
    "tool_result_carry_cost": ((reader, round(3_000 * (13_000 + 10 * 1_200) / 14_200) / 10**9), (nothing, None)),
    "tool_result_carry_tokens": ((reader, 6_000), (nothing, None)),
    "tool_output_share": ((reader, 3_000 / 4_200), (nothing, None)),
}
