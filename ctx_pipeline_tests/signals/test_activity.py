"""Activity signals over hand-made sessions."""

from __future__ import annotations

import pytest

from ctx_pipeline.signals.activity import command_count, unique_files_edited
from ctx_pipeline_tests.factories.views import view


@pytest.mark.feature("signals.activity")
def test_commands_of_all_threads_count_once_each():
    session = view().shell("ls").tool("Read", action="read", paths=("a.py",)).on("agent-1").shell("pytest", exit=1, answered=False)
    found = command_count.function(session.build())
    assert found.value == 2
    assert found.evidence == ("s1.e0", "s1.e4")


@pytest.mark.feature("signals.activity")
def test_a_file_edited_twice_counts_once_and_a_failed_edit_not_at_all():
    session = view().edit("/w/app/a.py").edit("/w/app/a.py").edit("/w/app/b.py", "/w/app/c.py").edit("/w/app/d.py", failed=True)
    session.tool("Read", action="read", paths=("/w/app/e.py",)).edit("/w/app/f.py", action="write")
    found = unique_files_edited.function(session.build())
    assert found.value == 4
    assert found.metadata == {"files": ["/w/app/a.py", "/w/app/b.py", "/w/app/c.py", "/w/app/f.py"]}
