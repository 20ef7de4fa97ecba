"""``ctx search`` as a process: filters, facets, pages, marks and what it loads."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from datetime import datetime

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.claude import ClaudeHome

HIT = {
    "host",
    "session_id",
    "thread_id",
    "event_id",
    "ts",
    "kind",
    "tool",
    "outcome",
    "title",
    "project",
    "snippet",
    "marks",
    "resume",
    "score",
    "place",
    "also_in",
}
ANSWER = {"query", "level", "offset", "next_offset", "hits", "total", "left_out", "facets", "covered", "partial", "days", "missing"} | {
    "with_all_words",
    "corrected",
    "empty_days",
}


@pytest.mark.feature("cli.search-json")
def test_the_json_has_stable_keys_and_counts_where_they_are_asked_for(ran: Ctx):
    plain = ran.json("search", "pytest")
    assert set(plain) == ANSWER
    assert all(set(hit) == HIT for hit in plain["hits"])
    assert (plain["total"], plain["facets"], plain["covered"]) == (None, None, None)

    counted = ran.json("search", "pytest", "--facets", "--limit", "3")
    assert sum(counted["facets"]["kind"].values()) == counted["total"] > 3
    assert counted["hits"] == plain["hits"][:3]
    assert counted["next_offset"] == 3
    rest = ran.json("search", "pytest", "--limit", "1000", "--offset", "3")
    assert len(rest["hits"]) == counted["total"] - 3
    assert rest["next_offset"] is None
    assert {hit["event_id"] for hit in rest["hits"]}.isdisjoint(hit["event_id"] for hit in counted["hits"])


@pytest.mark.feature("search.by-date")
def test_hits_are_put_in_order_by_date_when_asked_page_by_page(ran: Ctx):
    best = ran.json("search", "pytest", "--limit", "100")["hits"]
    newest = sorted((hit["ts"] for hit in best), reverse=True)
    first, then = (ran.json("search", "pytest", "--sort", "date", "--limit", "3", "--offset", str(n)) for n in (0, 3))

    assert newest != [hit["ts"] for hit in best]
    assert [hit["ts"] for answer in (first, then) for hit in answer["hits"]] == newest[:6]
    assert (first["next_offset"], then["offset"]) == (3, 3)
    assert ran.json("search", "pytest", "--sort", "date", "--limit", "200")["next_offset"] is None
    assert "leave one out" in ran("search", "pytest", "--sort", "date", "--sessions", ok=False).stderr


@pytest.mark.feature("search.sessions")
def test_every_session_that_holds_a_hit_is_listed_once_with_its_hits(ran: Ctx):
    hits = ran.json("search", "pytest", "--limit", "1000", "--sessions")
    held = Counter(f"{hit['host']}/{hit['session_id']}" for hit in hits["hits"])
    assert hits["facets"]["session"] == dict(held.most_common())
    titles = {s["session_id"]: s["title"] for s in ran.json("list")["sessions"]}

    lines = ran("search", "pytest", "--sessions").stdout.splitlines()

    assert lines[0].split() == ["session", "hits", "first", "call", "project", "title", "host"]
    for line, place in zip(lines[1:], dict.fromkeys(f"{hit['host']}/{hit['session_id']}" for hit in hits["hits"]), strict=False):
        session = place.partition("/")[2]
        assert line.split()[:2] == [session, str(held[place])]
        assert titles[session][:30] in line
    assert lines[-2:] == [
        f"{held.total()} hits in {len(held)} sessions",
        "of a long output the beginning is searched; every character: --regex",
    ]
    assert "more: --limit" in ran("search", "pytest", "--sessions", "--limit", "1").stdout
    few, first = ran("search", "pytest", "--limit", "1000").stdout, ran("search", "pytest", "--limit", "1").stdout
    assert ["the beginning is searched" in said for said in (few, first)] == [True, False]


@pytest.mark.feature("search.filters")
def test_filters_narrow_and_can_stand_alone(ran: Ctx):
    failed = ran.json("search", "--outcome", "failed", "pytest", "--limit", "100")
    assert failed["hits"]
    assert {hit["outcome"] for hit in failed["hits"]} == {"failed"}
    tests = ran.json("search", "--file", "test_discounts.py", "--role", "command")
    assert {hit["kind"] for hit in tests["hits"]} == {"tool_call"}
    assert ran.json("search", "pytest", "--until", "2020-01-01")["hits"] == []
    for nothing in ((), ("",), (" ",), ("--regex", "--host", "claude"), ("--timezone", "Europe/Berlin")):
        none = ran("search", *nothing, ok=False)
        assert none.returncode == 2
        assert "give " in none.stderr
    alone = ran.json("search", "--role", "command", "--limit", "1000")
    assert alone["level"] == "newest"
    times = [hit["ts"] for hit in alone["hits"]]
    assert len(times) > 3
    assert times[0][:13] >= times[-1][:13]
    assert {hit["kind"] for hit in alone["hits"]} == {"tool_call"}
    assert "--regex finds signs" in ran("search", "🎉").stdout
    wrong = ran("search", "x", "--role", "pilot", ok=False)
    assert wrong.returncode == 2
    assert "user" in wrong.stderr


@pytest.mark.feature("search.filters")
def test_filters_are_all_kept_to_and_values_of_one_are_alternatives(ran: Ctx):
    both = ran.json("search", "--role", "assistant", "--kind", "answer", "--kind", "prompt", "--limit", "100")
    assert {hit["kind"] for hit in both["hits"]} == {"answer"}
    either = ran.json("search", "--kind", "answer", "--kind", "prompt", "--limit", "1000")
    assert {hit["kind"] for hit in either["hits"]} == {"answer", "prompt"}
    for words, named in (
        (("--role", "assistant", "--kind", "prompt"), "answer, reasoning"),
        (("--since", "2026-10-02", "--until", "2026-10-01"), "is after"),
    ):
        refused = ran("search", "pytest", *words, ok=False)
        assert refused.returncode == 2
        assert named in refused.stderr


@pytest.mark.feature("search.tools")
def test_the_shell_of_every_agent_is_meant_by_bash_and_an_unknown_name_says_so(ran: Ctx):
    for name in ("bash", "Shell"):
        found = ran.json("search", "--tool", name, "--role", "command", "--limit", "1000")["hits"]
        assert {hit["host"] for hit in found} == {"claude", "codex"}
        assert {hit["tool"] for hit in found} >= {"Bash"}
    wrong = ran("search", "pytest", "--tool", "Bosh", ok=False)
    assert (wrong.returncode, "Bash" in wrong.stderr) == (1, True)
    other = ran("search", "pytest", "--project", "nowhere-at-all", ok=False)
    assert (other.returncode, "no project" in other.stderr or "project" in other.stderr) == (1, True)
    assert ran.json("search", "nothingholdsthisword", "--tool", "bash")["hits"] == []


@pytest.mark.feature("search.filters")
def test_a_page_says_which_hits_it_shows(ran: Ctx):
    assert "\nhits 1-1; from 2 on: --offset 1\n" in ran("search", "pytest", "--limit", "1").stdout
    assert "\nhits 2-3; from 4 on: --offset 3\n" in ran("search", "pytest", "--limit", "2", "--offset", "1").stdout
    one = ran.json("search", "--file", "test_discounts.py", "--facets", "--limit", "1")["total"]
    assert ran("search", "--file", "test_discounts.py", "--limit", "1000").stdout.splitlines()[-1] == f"{one} hit{'s' * (one != 1)}"


@pytest.mark.feature("search.grouped")
def test_hits_stand_below_their_session_with_one_command_that_resumes_it(ran: Ctx):
    hits = ran.json("search", "pytest", "--limit", "1000")["hits"]
    sessions = list(dict.fromkeys(f"{hit['host']} {hit['session_id']}" for hit in hits))
    assert len(sessions) < len(hits)
    lines = ran("search", "pytest", "--limit", "1000").stdout.splitlines()
    heads = [line for line in lines if line.startswith(("claude ", "codex "))]
    assert [" ".join(head.split()[:2]) for head in heads] == sessions
    resumes = [hit["resume"] for hit in {hit["session_id"]: hit for hit in hits}.values()]
    assert [line.strip() for line in lines if line.strip() in resumes] == list(dict.fromkeys(hit["resume"] for hit in hits))


@pytest.mark.feature("search.resume")
@pytest.mark.parametrize(("host", "command"), [("claude", "claude --resume"), ("codex", "codex resume")])
def test_the_command_goes_to_the_folder_in_which_the_session_worked(ran: Ctx, host: str, command: str):
    found = next(hit for hit in ran.json("search", "pytest", "--limit", "1000")["hits"] if hit["host"] == host)
    folder = ran.json("show", host, found["session_id"])["session"]["cwd"]
    assert found["resume"] == f"cd {shlex.quote(folder)} && {command} {found['session_id']}"


@pytest.mark.feature("search.regex")
def test_a_regular_expression_is_searched_and_a_wrong_one_refused(ran: Ctx):
    found = ran.json("search", "--regex", r"freeze\w+", "--facets")
    assert found["level"] == "regex"
    assert found["covered"]["complete"]
    assert all("freezegun" in hit["snippet"] for hit in found["hits"])
    assert ran("search", "--regex", "(", ok=False).returncode == 2


@pytest.mark.feature("cli.search")
def test_people_see_counts_scores_and_how_to_go_on(ran: Ctx):
    shown = ran("search", "pytest", "--facets", "--explain", "--limit", "2").stdout
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert any(line.startswith("host") and "claude" in line for line in lines)
    assert any("session " in line and "around " in line for line in lines)
    assert any(line.startswith("2 of ") for line in lines)
    assert any(line.endswith("; from 3 on: --offset 2") for line in lines)


@pytest.mark.feature("cli.search-prompts")
def test_prompts_alone_are_searched_where_that_is_asked_and_a_mixed_answer_says_how(ran: Ctx):
    hits = ran.json("search", "tests", "--prompts", "--limit", "100")["hits"]
    assert hits
    assert {hit["kind"] for hit in hits} == {"prompt"}
    assert hits == ran.json("search", "tests", "--kind", "prompt", "--limit", "100")["hits"]
    assert {hit["kind"] for hit in ran.json("search", "tests", "--limit", "100")["hits"]} > {"prompt"}
    hint = "\nonly what people asked: --prompts; "
    assert hint in ran("search", "tests", "--limit", "100").stdout
    assert hint not in ran("search", "tests", "--prompts").stdout


@pytest.mark.feature("search.light")
def test_a_search_loads_neither_arrow_nor_duckdb_nor_dagster(ran: Ctx):
    code = (
        "import sys; from ctx_pipeline.cli import cli; cli.main(['search', 'pytest'], standalone_mode=False);"
        "print([m for m in ('pyarrow', 'duckdb', '_duckdb', 'pydantic', 'dagster', 'rich', 'numpy') if sys.modules.get(m)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **ran.environ}, capture_output=True, text=True, check=True, timeout=250
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "resume" in done.stdout


@pytest.mark.feature("search.time-words")
def test_days_that_a_question_names_are_searched_alone_where_something_is_found_there(ran: Ctx):
    newest = max(hit["ts"] for hit in ran.json("search", "pytest", "--limit", "100")["hits"])
    month = f"{datetime.fromisoformat(newest):%B}"
    named = ran.json("search", "pytest", "in", month, newest[:4])
    assert named["days"][0] == f"{newest[:7]}-01"
    assert {hit["ts"][:7] for hit in named["hits"]} == {newest[:7]}
    until = ran("search", "pytest", "until", month, newest[:4]).stdout
    assert f", until {newest[:7]}-" in until
    nowhere = ran.json("search", "pytest", "in", "January", "2020")
    assert (nowhere["days"], nowhere["empty_days"], bool(nowhere["hits"])) == (None, ["2020-01-01", "2020-01-31"], True)
    told = "nothing in 2020-01-01 to 2020-01-31: all days were searched"
    assert f"; {told}" in ran("search", "pytest", "in", "January", "2020").stdout
    assert f"nothing found; {told}; nothing holds: " in ran("search", "zzqxentry", "January", "2020").stdout


@pytest.mark.feature("search.typos")
@pytest.mark.parametrize("typed", ["pyteest", "pyetst", "pytset", "pytist", "Pytezt"])
def test_a_typo_finds_what_was_meant_and_says_so(ran: Ctx, typed: str):
    meant, found = ran.json("search", "pytest"), ran.json("search", typed)
    assert [hit["event_id"] for hit in found["hits"]] == [hit["event_id"] for hit in meant["hits"]]
    assert (found["query"], found["corrected"], found["missing"]) == (typed, {typed: "pytest"}, [])
    assert f"nothing holds {typed}: pytest was looked for" in ran("search", typed).stdout


@pytest.mark.feature("search.typos")
@pytest.mark.parametrize("typed", ["zytest", "pyteeest", "pytes7", "ZzqxEntry"])
def test_a_word_that_is_near_to_none_is_not_replaced(ran: Ctx, typed: str):
    assert ran.json("search", typed)["corrected"] == {}


@pytest.mark.feature("search.typos")
def test_a_word_that_the_filters_leave_out_is_no_typo(ran: Ctx):
    assert ran.json("search", "pytest", "--until", "2020-01-01")["corrected"] == {}


@pytest.mark.feature("search.missing-words")
@pytest.mark.parametrize("form", [(), ("--sessions",), ("--project", "bookshop-api")])
def test_words_of_a_question_that_nothing_holds_are_named_as_typed(ran: Ctx, form: tuple[str, ...]):
    assert re.search(r"\d.* for any of the words; nothing holds: ZzqxEntry\b", ran("search", "ZzqxEntry", "pytest", *form).stdout)
    assert "nothing holds" not in ran("search", "round", "pytest", *form).stdout
    if not form:
        assert ran("search", "ZzqxEntry", "pytest").stdout.startswith("no text holds all of these words; with any of the words:\n")
        assert not ran("search", "pytest").stdout.startswith("no text holds")
        some = ran.json("search", "ModuleNotFoundError", "freezegun", "--limit", "50")
        both = [hit for hit in some["hits"] if {"modulenotfounderror", "freezegun"} <= set(re.findall(r"\w+", hit["snippet"].lower()))]
        assert (some["level"], some["with_all_words"]) == ("any", len(both))
        assert f" for any of the words, {len(both)} of them with all" in ran("search", "ModuleNotFoundError", "freezegun").stdout
    assert ran("search", "ZzqxEntry", *form).stdout == "nothing found; nothing holds: ZzqxEntry\n"


@pytest.mark.feature("search.missing-words")
def test_a_word_that_only_sessions_hold_which_a_filter_leaves_out_is_missing(ran: Ctx):
    def missing(*words: str) -> list[str]:
        return ran.json("search", *words)["missing"]

    assert missing("freezegun", "pytest") == missing("--host", "claude", "freezegun", "pytest") == []
    assert missing("--host", "codex", "Freezegun", "pytest") == ["Freezegun"]
    assert missing("Freezegu", "Zzqx") == ["Zzqx"], "a beginning of a word is found"


@pytest.mark.feature("search.fixed-errors")
def test_which_session_fixed_an_error_and_by_what_is_told_with_its_evidence(ran: Ctx):
    found = ran.json("search", "--fixed", "ModuleNotFoundError", "freezegun")
    (fixed,) = found["fixed"]
    printed = ran("search", "--fixed", "ModuleNotFoundError", "freezegun").stdout

    assert (fixed["session_id"], fixed["did"]) == ("51b369cc-0a63-4a24-aa2a-c6ba8b05c225", ["uv add --dev freezegun"])
    assert (fixed["failed"], fixed["passed"]) == ("pytest -q tests/test_discounts.py", "uv run pytest -q tests/test_discounts.py")
    assert "No module named 'freezegun'" in fixed["error"]
    assert re.match(r"1 fix of \d+ failed outputs?; times in ", printed), "the verdict stands first"
    assert found["left_open"] == []
    texts = [ran.json("sql", f"select text from events where event_id = '{event}'")["rows"][0]["text"] for event in fixed["evidence"]]
    assert "freezegun" in texts[0]
    assert "passed" in texts[-1]
    assert all(words in printed for words in (fixed["session_id"], fixed["did"][0], fixed["passed"], fixed["evidence"][0], fixed["resume"]))
    assert printed.splitlines()[-1] == "the record that an id of evidence names: ctx explain ID"
    assert fixed["evidence"][0] in ran("explain", fixed["evidence"][0]).stdout
    assert ran.json("search", "--fixed", "which session fixed the freezegun error?") == found | {"query": "freezegun error"}
    assert ran.json("search", "--fixed", "freezegun nosuchword othernosuchword")["failures"] == 0


@pytest.mark.feature("search.fixed-errors")
def test_an_error_that_nobody_is_known_to_have_fixed_is_listed_with_what_came_next(ran: Ctx):
    failures = "select e.session_id, e.event_id from events e join tool_calls t on t.result_event = e.event_id where t.is_error"
    known = {(row["session_id"], row["event_id"]) for row in ran.json("sql", failures)["rows"]}
    met = [one for word in ("refused", "connection", "command", "error") for one in ran.json("search", "--fixed", word)["left_open"]]

    assert met
    assert {(one["session_id"], one["event_id"]) for one in met} <= known
    assert "; no failed output has these words" in ran("search", "--fixed", "nosuchword").stdout
    assert ran("search", "--fixed", "x", "--regex", ok=False).returncode == 2
    assert ran("search", "--fixed", ok=False).returncode == 2


@pytest.mark.feature("search.fixed-errors")
def test_a_search_for_the_words_of_an_error_says_how_to_see_what_fixed_it(ran: Ctx):
    hint = "\nwhich session fixed it:\n  ctx search --fixed 'ModuleNotFoundError freezegun'\n"
    assert hint in ran("search", "ModuleNotFoundError", "freezegun").stdout
    assert "which session fixed it" not in ran("search", "freezegun").stdout
    assert "which session fixed it" not in ran("search", "ModuleNotFoundError", "--role", "user").stdout


@pytest.mark.feature("search.question-words")
def test_the_words_with_which_a_question_begins_are_left_out_where_no_text_has_all(ran: Ctx):
    found = ran.json("search", "which session fixed the ModuleNotFoundError named freezegun?")
    bare = ran.json("search", "ModuleNotFoundError named freezegun")

    assert found["query"] == bare["query"] == "ModuleNotFoundError named freezegun"
    assert found["hits"] == bare["hits"]
    assert "no text holds all of these words" not in ran("search", "which session fixed the ModuleNotFoundError freezegun").stdout
    assert ran.json("search", "which nosuchword fixed the freezegun")["query"] == "which nosuchword fixed the freezegun"


@pytest.mark.feature("search.some-words")
def test_sessions_that_hold_only_some_of_the_words_are_set_apart_from_those_that_hold_all(ran: Ctx):
    hits = ran.json("search", "uv", "add", "freezegun")["hits"]
    best: dict[str, int] = {}
    for hit in hits:
        best[hit["session_id"]] = min(hit["score"]["tier"], best.get(hit["session_id"], 9))
    told = ran("search", "uv", "add", "freezegun").stdout
    whole, some = told.split("in these no text holds all of the words:\n")

    assert set(best.values()) >= {2}
    assert all((name in whole) == (tier < 2) for name, tier in best.items())
    assert all((name in some) == (tier == 2) for name, tier in best.items())
    later = ran("search", "uv", "add", "freezegun", "--offset", str(sum(hit["score"]["tier"] < 2 for hit in hits))).stdout
    assert later.startswith("in these no text holds all of the words:\n"), "on the next page they are set apart too"
    for asked in (("ZzqxEntry", "pytest"), ("pytest",)):
        assert "no text holds all" not in ran("search", *asked).stdout.replace("no text holds all of these", "")


@pytest.mark.feature("search.grouped")
def test_the_same_output_printed_again_in_a_session_is_shown_once_with_its_times(tmp_path, ctx: Ctx):
    home = ClaudeHome(tmp_path / "again")
    made = home.session().prompt("why is the linker slow")
    for n in range(3):
        made.call(f"toolu_{n}", "Bash", "warning: quagga linker fell back to one thread", command=f"make step{n}")
    made.call("toolu_9", "Bash", "error: quagga linker is missing", command="make all").save()
    again = Ctx(ctx.folder, {**ctx.environ, "CLAUDE_CONFIG_DIR": str(home.root)})
    again("sync")

    shown, counted = again("search", "quagga", "linker").stdout, again.json("search", "quagga", "linker")["hits"]

    assert sum(hit["kind"] == "tool_result" for hit in counted) == 4
    assert shown.count("fell back to one thread") == 1
    assert re.search(r"the same words at \d{4}-\d\d-\d\d \d\d:\d\d, \d{4}-", shown)
    assert shown.count("linker is missing") == 1


@pytest.mark.feature("search.grouped")
def test_a_failed_output_is_no_repeat_of_one_that_passed_and_each_repeat_is_explained(tmp_path, ctx: Ctx):
    home = ClaudeHome(tmp_path / "mixed")
    made = home.session().prompt("why is the linker slow")
    for n, failed in enumerate((None, None, True)):
        made.call(f"toolu_{n}", "Bash", "quagga linker fell back to one thread", is_error=failed, command=f"make step{n}")
    made.save()
    mixed = Ctx(ctx.folder, {**ctx.environ, "CLAUDE_CONFIG_DIR": str(home.root)})
    mixed("sync")

    shown = mixed("search", "quagga", "linker", "--tool", "Bash", "--explain").stdout

    assert shown.count("fell back to one thread") == 2
    assert shown.count("the same words at") == 1
    assert shown.count("tool_result  Bash (failed)") == 1
    assert len(re.findall(r"^    tier .*\btotal ", shown, re.MULTILINE)) == 3
