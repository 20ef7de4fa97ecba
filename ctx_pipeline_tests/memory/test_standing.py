"""What a reader is told of stored memories: superseded, contradicted, about files that are gone or changed."""

from __future__ import annotations

import json
import os

import pytest

from ctx_pipeline.learning.memories import marks
from ctx_pipeline.model.memories import Memory


def rule(memory_id, text, **more):
    return Memory(memory_id, "user_preference", text, **{"repository": "/w/app", "cwd": "/w/app", **more})


@pytest.mark.feature("memory.standing")
def test_two_memories_that_say_the_opposite_are_both_marked_and_both_stay():
    found = marks(
        [
            rule("m1", "use uv instead of pip"),
            rule("m2", "use pip instead of uv"),
            rule("m3", "always commit generated files"),
            rule("m4", "never commit generated files", scope="user"),
            rule("m5", "use pip instead of uv", repository="/w/other", cwd="/w/other"),
        ]
    )
    assert found == {
        "m1": ["contradicts m2"],
        "m2": ["contradicts m1"],
        "m3": ["contradicts m4"],
        "m4": ["contradicts m3"],
    }


@pytest.mark.feature("memory.standing")
@pytest.mark.parametrize("ended", [{"status": "rejected"}, {"status": "retired"}, {"superseded_by": "m9"}])
def test_what_was_rejected_retired_or_superseded_contradicts_nobody(ended):
    found = marks([rule("m1", "use uv instead of pip"), rule("m2", "use pip instead of uv", **ended)])
    assert found.get("m1") is None
    assert found.get("m2") == (["superseded by m9"] if "superseded_by" in ended else None)


@pytest.mark.feature("memory.standing", "mining.staleness")
def test_memories_about_files_that_are_gone_or_changed_since_are_marked(tmp_path):
    for name in ("kept.py", "changed.py"):
        (tmp_path / name).write_text("x")
    seen = 1_760_000_000_000_000
    os.utime(tmp_path / "kept.py", (seen / 1e6 - 60, seen / 1e6 - 60))
    os.utime(tmp_path / "changed.py", (seen / 1e6 + 60, seen / 1e6 + 60))
    body = json.dumps({"files": ["kept.py", "changed.py", "gone.py", "../outside.py"]})
    here = {"structured": body, "last_ts": seen, "repository": str(tmp_path), "cwd": str(tmp_path)}
    assert marks([Memory("m1", "skill", "a part", **here)]) == {"m1": ["changed since: changed.py", "gone: gone.py"]}
    assert marks([Memory("m1", "skill", "a part", **{**here, "cwd": "/nowhere/at/all"})]) == {}
