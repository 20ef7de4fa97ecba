"""Skills and procedures get a grade from parts that can be checked."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.memory.lesson_files import grade
from ctx_pipeline.model.memories import Memory

WHOLE = {
    "steps": ["edit `a.py`: raise the limit to 10", "run `make test`"],
    "termination": "`make test` passes",
    "verification": ["`make test`"],
}


def skill(body=WHOLE, **more):
    given = {"kind": "skill", "when_to_use": "`a.py` is to be changed", "risk": "low", "structured": json.dumps(body)} | more
    return Memory("m", given.pop("kind"), "`a.py` goes with `make test`", **given)


@pytest.mark.feature("memory.quality")
def test_a_safe_complete_short_skill_whose_steps_name_commands_is_an_a():
    found = grade(skill())
    assert found.letter == "A"
    assert found.parts == {"safety": 1.0, "completeness": 1.0, "executability": 1.0, "upkeep": 1.0, "cost": 1.0}


@pytest.mark.feature("memory.quality")
@pytest.mark.parametrize(
    ("memory", "marks", "part", "value"),
    [
        (skill(risk="high"), (), "safety", 0.2),
        (skill(flags=["injection"]), (), "safety", 0.0),
        (skill({"steps": WHOLE["steps"]}, when_to_use=None), (), "completeness", 0.5),
        (skill({"steps": ["think hard", "run `make test`"]}), (), "executability", 0.5),
        (skill({"steps": ["change `a.py`", "run `make test`"]}), (), "executability", 0.5),
        (skill({"steps": ["see whether `b.py` changes with it", "edit `a.py`, `b.py` and 2 more"]}), (), "executability", 0.0),
        (skill(), ("gone: a.py", "changed since: b.py"), "upkeep", 0.0),
        (skill(), ("changed since: b.py",), "upkeep", 0.5),
        (skill({"steps": ["`x` " + "word " * 2_000]}), (), "cost", 0.0),
    ],
)
def test_each_part_falls_for_its_own_reason(memory, marks, part, value):
    found = grade(memory, marks)
    assert found.parts[part] == value
    assert sum(found.parts.values()) < 5


@pytest.mark.feature("memory.quality")
def test_an_empty_skill_is_a_d_and_other_kinds_have_no_grade():
    assert grade(skill({}, when_to_use=None, risk="high"), ("gone: a.py",)).letter == "D"
    assert grade(skill(kind="procedure")).letter == "A"
    assert grade(skill(kind="tool_lesson")) is None


@pytest.mark.feature("memory.quality")
@pytest.mark.parametrize(
    ("steps", "letter"),
    [
        (["edit `a.py`", "write `b.py`", "run `make test`"], "C"),
        (["edit `a.py`", "run `make test`"], "B"),
        (["edit `a.py`: raise the limit", "edit `b.py`", "run `make test`"], "A"),
    ],
)
def test_a_list_of_files_is_not_a_way_to_do_something_however_complete_the_rest_is(steps, letter):
    assert grade(skill(WHOLE | {"steps": steps})).letter == letter
