"""What a signal counts can be listed: each time that the person corrected the agent, with the event that proves it."""

from __future__ import annotations

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx


@pytest.mark.feature("cli.signal-evidence")
def test_every_correction_is_listed_with_its_session_and_its_words(ran: Ctx):
    found = ran.json("signal", "evidence", "user_correction_count")
    counted = ran.json("sql", "select sum(value) as n from readings where signal = 'user_correction_count'")["rows"][0]["n"]
    (finding,) = [f for f in ran.json("hints")["findings"] if f["signal"] == "user_correction_count"]
    printed = ran("signal", "evidence", "user_correction_count").stdout

    assert found["total"] == len(found["events"]) == counted == 3
    assert ran.json("usage", "outcomes")["totals"]["corrections"] == 3
    assert {e["kind"] for e in found["events"]} == {"prompt"}
    assert [e["ts"] for e in found["events"]] == sorted((e["ts"] for e in found["events"]), reverse=True)
    assert all(" ".join(e["text"].split())[:60] in printed and e["session_id"] in printed for e in found["events"])
    assert finding["command"] == "ctx signal evidence user_correction_count"
    for event in found["events"]:
        assert event["event_id"] in ran("explain", event["event_id"]).stdout


@pytest.mark.feature("cli.signal-evidence")
def test_the_list_is_narrowed_and_cut_as_others_are(ran: Ctx):
    first = ran.json("signal", "evidence", "user_correction_count")["events"][0]
    of_project = ran.json("signal", "evidence", "user_correction_count", "--project", first["project"])

    assert {e["project"] for e in of_project["events"]} == {first["project"]}
    assert "2 more: --limit 3" in ran("signal", "evidence", "user_correction_count", "--limit", "1").stdout
    assert ran.json("signal", "evidence", "user_correction_count", "--since", "yesterday")["events"] == []
    assert ran("signal", "evidence", "nosuch", ok=False).returncode == 1


@pytest.mark.feature("cli.signal-evidence")
def test_what_the_agent_said_or_did_just_before_stands_above_each_correction(ran: Ctx):
    found = ran.json("signal", "evidence", "user_correction_count")["events"]
    printed = ran("signal", "evidence", "user_correction_count").stdout

    assert found
    for event in found:
        sql = f"select kind, text from events where session_id = '{event['session_id']}' and kind in ('answer', 'tool_call') and text <> ''"
        place = f"and seq < (select seq from events where event_id = '{event['event_id']}') order by seq desc limit 1"
        (last,) = ran.json("sql", f"{sql} {place}")["rows"]
        assert last["kind"] == "tool_call" or event["before"] == last["text"][:400]
        assert f"agent before: {' '.join(event['before'].split())[:60]}" in printed
    stopped = ran.json("signal", "evidence", "failed_command_count")["events"]
    assert {event["before"] for event in stopped} == {None}


@pytest.mark.feature("cli.signal-evidence")
def test_what_a_reading_of_zero_rests_on_is_shown_only_on_request(ran: Ctx):
    every = ran.json("signal", "evidence", "tests_failing_at_end", "--all")["events"]
    found = ran.json("signal", "evidence", "tests_failing_at_end")["events"]
    zero = {event["session_id"] for event in every if event["value"] == 0}
    printed = ran("signal", "evidence", "tests_failing_at_end").stdout

    assert found == [event for event in every if event["value"] != 0]
    assert zero
    assert f"{len(zero)} session{'s' * (len(zero) > 1)} in which it is 0 left out: --all" in printed
    assert not any(session in printed for session in zero)
