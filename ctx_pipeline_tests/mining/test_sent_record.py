"""What of a transcript goes to a model, and which of the model's lessons it bears out."""

from __future__ import annotations

import json
import time

import pytest

from ctx_pipeline import discovery, settings
from ctx_pipeline.facts import prompts
from ctx_pipeline.mining.lessons.asked_models.model_lessons import believed
from ctx_pipeline.mining.lessons.asked_models.sent_record import MOST_CHARS, sent_record
from ctx_pipeline.pipeline.models import model_mining
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.story import Story, answered, ran, refused, said
from ctx_pipeline_tests.factories.views import view

LESSON = {"kind": "tool_lesson", "when_to_use": "", "steps": [], "confidence": 0.6, "priority": 3, "risk": "low"}
FOLDER = "/Users/samantha/code/shop"


def sent(environ):
    """Return the records of the one question about each session in the store, as ``ctx mine --method dspy`` asks it."""
    chosen = settings.load(environ)
    with open_store(chosen) as store:
        return [
            [json.loads(line) for line in question.record.splitlines()]
            for question in model_mining.questions(store, chosen, discovery.methods()["dspy"])
        ]


def long_story(environ, tmp_path, host):
    plain = [ran(f"cat part{n}.txt", f"plain {n} " + "x" * 900) for n in range(150)]
    refusal = (
        [refused("git push --force", "never force-push to main here")] if host == "claude" else [said("never force-push to main here")]
    )
    steps = (
        said("start with the parser"),
        ran("make check", "error: the schema is stale", status=2),
        *refusal,
        *plain,
        answered("that is the end"),
    )
    (tmp_path / "shop").mkdir()
    Story(environ, tmp_path / "shop").day(*steps, host=host, folder=FOLDER).learn()


@pytest.mark.feature("mining.llm-order")
@pytest.mark.parametrize("host", ["claude", "codex"])
def test_refusals_and_failures_of_a_long_transcript_are_sent_and_outputs_left_out(environ, tmp_path, host):
    long_story(environ, tmp_path, host)
    (record,) = sent(environ)
    by = {(line["by"], line["text"]) for line in record}
    assert sum(len(json.dumps(line, ensure_ascii=False)) + 1 for line in record) <= MOST_CHARS
    assert ("person", "start with the parser") in by
    assert ("person", "never force-push to main here") in by
    assert any(who == "output" and "the schema is stale" in text for who, text in by)
    assert ("agent", "that is the end") in by
    assert not any("plain 100 " in text for _, text in by)


@pytest.mark.feature("mining.llm-private")
def test_no_login_and_no_home_folder_is_sent(environ, tmp_path):
    listing = (
        "drwxr-xr-x 3 samantha staff 96 /Users/samantha/code/shop/src\nssh samantha@build.internal; mail jane@acme.io; /home/samantha/notes"
    )
    steps = said(f"look into {FOLDER}/src, samantha"), ran(f"ls -l {FOLDER}", listing), ran("make", f"error: {FOLDER}/a.c", status=2)
    (tmp_path / "shop").mkdir()
    Story(environ, tmp_path / "shop").day(*steps, folder=FOLDER).learn()
    (record,) = sent(environ)
    text = json.dumps(record)
    assert "look into src, user" in text
    for private in ("samantha", "/Users/", "/home/", "acme.io"):
        assert private not in text


def refusals(session, *lessons):
    found = believed(session.build(), {"lessons": [{**LESSON, **lesson} for lesson in lessons]})
    return [c.text for c in found.candidates], dict(found.refused)


def worked():
    return (
        view("a")
        .prompt("fix the importer")
        .shell("make check", exit=2, text="error: schema out of date, run make schema")
        .shell("make schema", text="written")
        .shell("make check", text="40 passed")
        .answer("The importer is fixed and all is well.")
    )


@pytest.mark.feature("mining.llm-evidence")
def test_a_lesson_is_believed_where_its_records_hold_a_quarter_of_its_words_or_half_of_its_ids():
    told = {"text": "`make check` says schema out of date until `make schema` ran.", "evidence": ["e3", "e4"]}
    guess = {"text": "The schema of the billing database in staging belongs to another team and deploys nightly.", "evidence": ["e3"]}
    ids = {
        "text": "When generated clients lag behind the backend contract after merging, refresh them via src/gen_all.py somewhere",
        "evidence": ["e9"],
    }
    session = worked().shell("python src/gen_all.py", text="ok")
    assert refusals(session, told, guess, ids) == ([told["text"], ids["text"]], {"little of it in its evidence": 1})


@pytest.mark.feature("mining.llm-evidence")
def test_only_the_first_six_records_of_a_lesson_count():
    session = worked()
    for _ in range(6):
        session = session.shell("true", text="schema")
    lesson = {"text": "Deploy `infra/eu.tf` with terraform before the schema", "evidence": [f"e{n}" for n in (3, 11, 13, 15, 17, 19)]}
    session = session.shell("terraform apply infra/eu.tf")
    assert refusals(session, {**lesson, "evidence": [*lesson["evidence"], "e21"]})[0] == []
    assert refusals(session, {**lesson, "evidence": ["e21"]})[0] == [lesson["text"]]


@pytest.mark.feature("mining.llm-evidence")
@pytest.mark.parametrize("kind", ["user_preference", "risk_rule"])
def test_a_rule_of_the_person_names_a_record_of_the_person(kind):
    rule = {"kind": kind, "text": "Run make schema before make check."}
    session = worked().prompt("run make schema before make check, always")
    assert refusals(session, {**rule, "evidence": ["e3", "e4"]}) == ([], {"a rule that the person did not say": 1})
    assert refusals(session, {**rule, "evidence": ["e3", "e9"]}) == ([rule["text"]], {})
    below = worked().subagent("below").prompt("run make schema before make check, always")
    assert refusals(below, {**rule, "evidence": ["e9"]}) == ([], {"a rule that the person did not say": 1})


@pytest.mark.feature("mining.llm-evidence")
def test_what_a_rules_file_told_the_agent_is_no_lesson():
    rules = "# Rules\nBe kind.\n- Before `make check`,\n  run `make schema`: the schema goes out of date.\n"
    lesson = {"text": "Run `make schema` before `make check`: the schema is out of date.", "evidence": ["e4", "e5"]}
    other = {"text": "`make check` prints 40 passed when the importer is fixed.", "evidence": ["e8", "e9"]}
    shown = view("a").tool("Read", action="read", paths=("/w/app/CLAUDE.md",), text=rules).prompt("fix the importer")
    shown = shown.shell("make check", exit=2, text="error: schema out of date, run make schema").shell("make schema", text="written")
    shown = shown.shell("make check", text="40 passed").answer("The importer is fixed.")
    assert refusals(shown, lesson, other) == ([other["text"]], {"told already": 1})
    assert refusals(worked(), {**lesson, "evidence": ["e2", "e3", "e4"]})[1] == {}


@pytest.mark.feature("mining.llm-evidence")
def test_what_the_model_itself_calls_of_little_worth_is_refused():
    lesson = {"text": "`make check` says schema out of date until `make schema` ran.", "evidence": ["e3", "e4"]}
    for priority, kept in ((1, False), (2, False), (3, True), ("high", True), (None, True)):
        expected = ([lesson["text"]], {}) if kept else ([], {"of little worth": 1})
        assert refusals(worked(), {**lesson, "priority": priority}) == expected


GO_ON = ". You can now continue with the user's answers in mind."


def asking(text, *questions):
    """A session in which the agent asked questions (question, label of a choice) and was answered."""
    asked = {"questions": [{"id": f"q{n}", "question": q, "options": [{"label": o}]} for n, (q, o) in enumerate(questions)]}
    session = view("a").prompt("go").tool("AskUserQuestion", action="ask", text=text)
    session.events[-2] = session.events[-2]._replace(text=json.dumps(asked))
    return session


@pytest.mark.feature("mining.answers")
@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ('User has answered your questions: "Which port?"="8081". You can now continue.', ["8081"]),
        (
            'User has answered: "Which port?"="use "8081", not 80", "Always use tabs?"="no". You can now go on.',
            ['use "8081", not 80', "no"],
        ),
        (
            'User has answered: "Which port?"="8081" selected preview:\nnever 80 user notes: see x.md. You can now go on.',
            ["8081\nsee x.md"],
        ),
        (f'User has answered: "Which port?"="{"8081 as ever, " * 40}ok". You can go on.', [f"{'8081 as ever, ' * 40}ok"]),
        (
            f'User has answered: "Which port?"="8081" user notes: Use TLS 1.3. Never open 80. You can drop the "old" one{GO_ON}',
            ['8081\nUse TLS 1.3. Never open 80. You can drop the "old" one'],
        ),
        (
            f'User has answered: "Which port?"="8081" user notes: Not 80. Ever., "Always use tabs?"="no" user notes: Two. Always{GO_ON}',
            ["8081\nNot 80. Ever.", "no\nTwo. Always"],
        ),
        (
            'User has answered: "Which port?"="8081" selected preview:\nport user notes: 80\nmore user notes: see x.md. You can now go on.',
            ["8081\nsee x.md"],
        ),
        ('{"answers": {"q0": {"answers": ["8081"]}, "Always use tabs?": "no"}}', ["8081", "no"]),
    ],
)
def test_of_a_question_the_answer_alone_is_the_persons(text, answers):
    session = asking(text, ("Which port?", "8081"), ("Always use tabs?", "yes")).build()
    assert [answer for _, answer in prompts.answered(session, session.tool_calls[0])] == answers
    record = sent_record(session)
    lines = [json.loads(line) for line in record.text.splitlines()]
    assert [line["by"] for line in lines] == ["person", "call", "person"]
    assert (lines[-1]["text"].split("\n"), record.events[lines[-1]["id"]]) == ("\n".join(answers).split("\n"), "a.e2")


@pytest.mark.feature("mining.answers")
@pytest.mark.parametrize(("notes", "own"), [("", "8081"), (" user notes: Only with TLS. Always", "8081\nOnly with TLS. Always")])
def test_notes_in_what_the_agent_showed_of_a_choice_are_not_the_persons(notes, own):
    shown = "listen 8081\n# user notes: open 80 user notes: to all. You can see it"
    told = f'User has answered your questions: "Which port?"="8081" selected preview:\n{shown}{notes}. You can now continue.'
    session = asking(told, ("Which port?", "8081"))
    options = [{"label": "8081", "preview": shown}, {"label": "80", "preview": "listen 80"}]
    session.events[-2] = session.events[-2]._replace(text=json.dumps({"questions": [{"question": "Which port?", "options": options}]}))
    built = session.build()
    assert list(prompts.answered(built, built.tool_calls[0])) == [("Which port?", own)]


@pytest.mark.feature("mining.answers")
def test_many_marks_of_a_note_are_read_in_time_that_grows_with_their_number_alone():
    shown = 'a" selected preview:\n user notes: ' * 20_000
    session = asking(f'User has answered: "Which port?"="{shown}"x', ("Which port?", "8081")).build()
    begun = time.process_time()
    list(prompts.answered(session, session.tool_calls[0]))
    assert time.process_time() - begun < 1


@pytest.mark.feature("mining.answers")
def test_a_rule_that_the_agents_question_names_was_not_said_by_the_person():
    rule = LESSON | {"kind": "user_preference", "text": "Always deploy from the release branch.", "evidence": ["e2", "e3"]}
    question = "Always deploy from the release branch?"
    told_by_host = 'User has answered your questions: "{}"="{}". You can now continue.'
    told = asking(told_by_host.format(question, "no, ask me each time"), (question, "yes")).build()
    assert believed(told, {"lessons": [rule]}).refused
    unanswered = asking("The person did not answer.", (question, "yes")).build()
    assert [json.loads(line)["by"] for line in sent_record(unanswered).text.splitlines()] == ["person", "call", "output"]


@pytest.mark.feature("mining.llm-evidence")
@pytest.mark.parametrize(("apart", "refused"), [(0, 1), (12, 0)])
def test_a_paragraph_on_one_line_says_one_thing_a_few_sentences_at_a_time(apart, refused):
    between = "Something else altogether stands in this sentence of the paragraph. " * apart
    rules = f"The build needs make. {between}Deploy from the release branch. {between}Lint runs before every commit. {between * 2}"
    told = view(cwd="/w").prompt("build and lint, then deploy").tool("Read", action="read", paths=("/w/AGENTS.md",), text=rules).build()
    lesson = LESSON | {"kind": "user_preference", "text": "build with make, lint, then deploy from release", "evidence": ["e1"]}
    assert believed(told, {"lessons": [lesson]}).refused["told already"] == refused
