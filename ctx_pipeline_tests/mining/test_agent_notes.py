"""Memory files that an agent wrote with the person's words: kept as lessons that wait for a person."""

from __future__ import annotations

import json
import time

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import BY_MODEL, consolidate
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import view

SAID = "the name will cause issues with the other agent"
FILE = "/home/ann/.claude/projects/-w-app/memory/feedback_frontmatter.md"
NOTE = "---\nname: Frontmatter\ndescription: Do not add fields to SKILL.md that one agent needs.\ntype: feedback\n---\n\n"
WRITTEN = f'{NOTE}**Why:** the user stopped an edit because "{SAID}".\n'


def kept(session):
    """Return the lessons that are drawn of a session."""
    method = discovery.methods()["reme"]
    return consolidate(method.combine(draw(method, session.build())[0]))


def noted(content=WRITTEN, *, file=FILE, said=SAID, action="write", failed=False):
    """Return a session in which the person said something and the agent wrote a file."""
    arguments = [json.dumps({"file_path": file, "content": content}, ensure_ascii=False)]
    return view().prompt("fix it").prompt(said).tool("Write", action=action, paths=(file,), argv=arguments, failed=failed)


@pytest.mark.feature("mining.agent-notes")
def test_a_memory_file_that_quotes_the_person_is_a_lesson_with_both_as_evidence_and_waits_for_a_person():
    (found,) = kept(noted())
    assert found.text == f"Do not add fields to SKILL.md that one agent needs: “{SAID}”"
    assert (found.status, found.flags, found.evidence) == ("needs_review", [BY_MODEL], ["s1.e1", "s1.e2"])


@pytest.mark.feature("mining.agent-notes")
@pytest.mark.parametrize(
    "session",
    [
        noted(said="go on"),
        noted(NOTE),
        noted(f'{NOTE}because "the name"', said="the name"),
        noted(WRITTEN.replace("description:", "about:")),
        noted(file="/w/app/docs/memory/notes.md"),
        noted(file="/home/ann/.claude/projects/-w-app/plans/notes.md"),
        noted(action="other"),
        noted(failed=True),
        noted(said="go on").prompt(SAID),
        noted(said="go on").shell("cat log", text=SAID),
    ],
    ids=("not-said", "quotes-nothing", "two-words", "no-description", "of-project", "plan", "read", "failed", "said-later", "printed"),
)
def test_a_note_without_words_that_the_person_had_typed_and_any_other_file_teach_nothing(session):
    assert kept(session) == []


@pytest.mark.feature("mining.agent-notes")
@pytest.mark.parametrize(
    "content",
    [
        WRITTEN.replace("\n", "\r\n"),
        WRITTEN.replace("Do not add fields to SKILL.md that one agent needs.", '"Do not add fields to SKILL.md that one agent needs."'),
        WRITTEN.replace("Do not add fields to SKILL.md that one agent needs.", "'Do not add fields to SKILL.md that one agent needs.'"),
        WRITTEN.replace("because", '(they said "no") and because'),
        WRITTEN.replace("**Why:**", '**Why:** on a 5" panel'),
        WRITTEN.replace(f'"{SAID}"', f"\u201c{SAID}\u201d"),
    ],
    ids=("windows", "double-quotes", "single-quotes", "short-quote-before", "inches-before", "curly"),
)
def test_line_ends_and_quotes_of_a_memory_file_do_not_hide_what_it_says(content):
    assert [m.text for m in kept(noted(content))] == [f"Do not add fields to SKILL.md that one agent needs: “{SAID}”"]


@pytest.mark.feature("mining.agent-notes")
def test_of_a_memory_file_that_was_written_again_the_newest_content_counts():
    newer = json.dumps({"file_path": FILE, "content": WRITTEN.replace("Do not add fields", "Add no fields")})
    unquoted = json.dumps({"file_path": FILE, "content": NOTE})
    again = noted().tool("Write", action="write", paths=(FILE,), argv=[newer])
    assert [m.text for m in kept(again)] == [f"Add no fields to SKILL.md that one agent needs: “{SAID}”"]
    assert kept(noted().tool("Write", action="write", paths=(FILE,), argv=[unquoted])) == []
    assert len(kept(noted().tool("Write", action="write", paths=(FILE,), argv=[unquoted], failed=True))) == 1


@pytest.mark.feature("mining.agent-notes")
@pytest.mark.parametrize(("file", "texts"), [(FILE, ["Add no"]), (FILE.replace("feedback", "user"), ["Do not add", "Add no"])])
def test_what_a_later_session_wrote_into_the_same_file_takes_the_place_of_the_earlier_note(file, texts):
    method = discovery.methods()["reme"]
    first = noted().build()
    second = noted(WRITTEN.replace("Do not add fields", "Add no fields"), file=file).build()
    later = [c._replace(session_id="s2", candidate_id=f"{c.candidate_id}-2", ts=(c.ts or 0) + 1) for c in draw(method, second)[0]]
    told = [c.text.partition(" fields")[0] for c in method.combine([*later, *draw(method, first)[0]]) if c.body.get("model_written")]
    assert sorted(told, reverse=True) == texts


def test_a_memory_file_of_opening_marks_alone_is_read_at_once():
    begun = time.process_time()
    assert kept(noted(NOTE + "\u201c" * 30_000, said="go on")) == []
    assert time.process_time() - begun < 1
