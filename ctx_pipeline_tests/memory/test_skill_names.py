"""A skill is named after what it does, not after the request that it came from."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.memory.lesson_files import skill_name
from ctx_pipeline.model.memories import Memory


def named(body, **more):
    return skill_name(Memory("mem-1", more.pop("kind", "procedure"), "a lesson of the zebra", structured=json.dumps(body), **more))


@pytest.mark.feature("memory.skill-name")
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (
            {
                "title": "let's use apple container instead of docker proper",
                "steps": [
                    "run `npm install`",
                    "write `src/oracle.ts`: ask the model",
                    "edit `src/index.ts`: wire it",
                    "run `npm run build`",
                ],
                "verification": ["`npm run build`"],
            },
            "change-oracle-index-check-npm-run-build",
        ),
        ({"title": "could you do that", "steps": ["make fmt", "make lint"]}, "run-make-fmt-lint"),
        ({"title": "could you do that", "steps": ["run `uv run pytest`"]}, "run-pytest"),
        ({"title": "change export.py", "steps": ["think", "look around"], "names": []}, "change-export-py"),
        ({"title": "change export.py"}, "change-export-py"),
        ({}, "lesson-zebra"),
    ],
)
def test_a_mined_skill_is_named_after_the_files_it_changes_and_the_commands_it_runs(body, name):
    assert named(body) == name


@pytest.mark.feature("memory.skill-name")
def test_a_note_of_a_person_keeps_its_own_name():
    assert named({"names": ["How we release"], "steps": ["make tag"]}, source="authored") == "how-we-release"
