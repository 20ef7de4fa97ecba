"""Files read again: after a compaction, after an edit, or without reason, with what it cost."""

from __future__ import annotations

import pytest

from ctx_pipeline.signals.context_rot import file_reread_count, file_reread_tokens, file_reread_without_reason_count, rereads
from ctx_pipeline_tests.contracts.examples_of_context import FIGURES
from ctx_pipeline_tests.factories.views import Builder, view


def told(session: Builder) -> list[tuple[str, str]]:
    return [(r.path, r.reason) for r in rereads(session.build())]


@pytest.mark.feature("signals.re-reads")
def test_a_read_again_is_told_with_its_reason():
    session = view().tool("Read", action="read", paths=("/w/app/a.py",)).shell("cat b.py").shell("cat c.py")
    session.other("compaction", "{}", "system/compact_boundary")
    session.tool("Read", action="read", paths=("/w/app/a.py",)).edit("/w/app/b.py").shell("cat b.py").shell("cat b.py").shell("cat a.py")

    assert told(session) == [
        ("/w/app/a.py", "after a compaction"),
        ("/w/app/b.py", "after a compaction"),
        ("/w/app/b.py", "without reason"),
        ("/w/app/a.py", "without reason"),
    ]


@pytest.mark.feature("signals.re-reads")
def test_a_change_by_tool_or_shell_is_a_reason_and_a_failed_one_is_none():
    session = view().shell("cat a.py b.py c.py")
    session.edit("/w/app/a.py").shell("sed -i s/x/y/ b.py").edit("/w/app/c.py", failed=True)
    session.shell("cat a.py b.py c.py")

    assert told(session) == [("/w/app/a.py", "after an edit"), ("/w/app/b.py", "after an edit"), ("/w/app/c.py", "without reason")]


@pytest.mark.feature("signals.re-reads")
def test_other_lines_of_a_file_and_other_windows_are_no_reads_again():
    session = view().shell("sed -n '1,100p' a.py").shell("sed -n '90,300p' a.py").shell("sed -n '40,60p' a.py")
    session.shell("cat gone.py", exit=1).shell("cat gone.py", exit=1)
    session.subagent("agent-1").shell("sed -n '1,100p' a.py")

    assert told(session) == [("/w/app/a.py", "without reason")]


@pytest.mark.feature("signals.re-reads")
@pytest.mark.parametrize(
    "command", ["cat a.py | grep x", "cat a.py | wc -l", "sed -n '/def f/p' a.py", "tail -5 a.py", "head -c 100 a.py", "cat a.py > b.py"]
)
def test_lines_that_nobody_can_name_are_no_read_again(command: str):
    assert told(view().shell(command).shell(command)) == []
    assert told(view().shell("cat a.py").shell(command)) == []
    assert told(view().shell("cat a.py 2> /dev/null | nl | tee /dev/null").shell("cat a.py")) == [("/w/app/a.py", "without reason")]


@pytest.mark.feature("signals.re-reads")
def test_counts_and_cost_are_readings_with_their_reasons():
    session = (
        view()
        .prompt("go")
        .model(10_000, 100, said="a", written=8_000)
        .tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 1_000)
    )
    session.model(10_400, 100, said="b", read=8_000).tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 1_000)
    session.edit("/w/app/a.py").shell("cat a.py", text="x" * 1_000)
    session.model(11_200, 100, said="c", read=8_000)
    built = session.build()
    built.analyses = FIGURES

    count, idle, tokens = (s.function(built) for s in (file_reread_count, file_reread_without_reason_count, file_reread_tokens))

    assert (count.value, idle.value, tokens.value) == (2.0, 1.0, 600.0)
    assert count.metadata == {"reasons": {"after an edit": 1, "without reason": 1}, "files": [{"file": "/w/app/a.py", "times": 2}]}
    # ten nano-dollars a token
    assert tokens.metadata == {"tokens": {"after an edit": 300, "without reason": 300}, "dollars": 6_000 / 10**9}
    assert len(count.evidence) == 2
    assert file_reread_count.function(view().build()).reason == "the session has no events"
