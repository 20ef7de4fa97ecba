"""Every stage is verified, having no data is no pass, and limits hold over all sessions."""

from __future__ import annotations

import pytest

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.maintenance.verify import Check, Limit, Verification, Violations, limits_of, verify
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.session_notes import MADE, made_of, write
from ctx_pipeline_tests.sessions.conftest import KEY, WORK, Shop


def statuses(found):
    return {c.name: c.status for c in found.checks}


@pytest.mark.feature("session.verify")
def test_what_nobody_looked_at_is_no_pass(shop: Shop):
    found = verify(settings=shop.settings)

    assert statuses(found) == {
        "captured sessions are in the tables": "pass",
        "records could be decoded": "pass",
        "events are of a known kind": "pass",
        "sums by tool, server, thread, session and day equal the bill": "pass",
        "snapshots parse and fit": "no data",
        "snapshots name what they left out": "no data",
        "artifacts hold no secret": "no data",
    }
    assert (found.counts, found.rate, found.failed) == ({"pass": 4, "fail": 0, "no data": 3}, 1.0, False)
    nothing = Verification([Check("x", "y", 0, 0, [])], [])
    assert (nothing.rate, nothing.to_json()["pass_rate"]) == (None, None)


@pytest.mark.feature("session.verify")
def test_a_broken_artifact_fails_its_check_and_is_named(own: Shop, monkeypatch):
    own.json(monkeypatch, "session", "snapshot")
    assert verify(settings=own.settings).counts["no data"] == 0
    broken = ("<session_snapshot><task>a & b</task></session_snapshot>", "<a>" + "x" * 3000 + "</a>", f"<a>{KEY}</a>")
    ids = []
    with open_store(own.settings) as store:
        for content in broken:
            words = {"kind": "snapshot", "host": "claude", "session_id": WORK, "name": "bad", "content": content, "about": {}}
            write(store, MADE, words, "person")
            ids.append(made_of(store)[-1].artifact_id)
    found = {c.name: c for c in verify(settings=own.settings).checks if c.status == "fail"}

    assert {name: (c.checked, c.failed, c.examples) for name, c in found.items()} == {
        "snapshots parse and fit": (4, 2, ids[:2]),
        "artifacts hold no secret": (4, 1, ids[2:]),
    }
    assert own.ctx(monkeypatch, "verify").exit_code == 1


@pytest.mark.feature("session.output-verifier")
def test_what_a_snapshot_lost_without_a_word_is_found(own: Shop, monkeypatch):
    own.ctx(monkeypatch, "session", "snapshot", "--bytes", "700")
    own.ctx(monkeypatch, "session", "snapshot", "--at", "before-compaction:1")
    assert statuses(verify(settings=own.settings))["snapshots name what they left out"] == "pass"

    content = '<session_snapshot><task source="prompt">x</task></session_snapshot>'
    about = {"seq": 22, "dropped": {"files": ["CHANGELOG.md", "shop/prices.py"]}}
    words = {"kind": "snapshot", "host": "claude", "session_id": WORK, "name": "bad", "content": content, "about": about}
    with open_store(own.settings) as store:
        write(store, MADE, words, "person")
    (bad,) = [c for c in verify(settings=own.settings).checks if c.status == "fail"]
    assert (bad.name, bad.checked, bad.failed) == ("snapshots name what they left out", 3, 1)
    assert [one.partition(": ")[2] for one in bad.examples[:2]] == ["shop/cart.py", "shop/prices.py:7"]


def test_a_torn_line_among_thousands_is_tolerated_and_one_among_hundreds_is_not():
    assert Check("x", "decode", 10_000, 10, [], 0.001).status == "pass"
    assert Check("x", "decode", 500, 1, [], 0.001).status == "fail"
    # nothing could be read at all
    assert Check("x", "decode", 0, 1, [], 0.001).status == "fail"


@pytest.mark.feature("session.slo")
def test_limits_are_checked_over_all_sessions_with_an_exit_code(own: Shop, monkeypatch):
    (own.settings.home / "slos.toml").write_text(
        '[[slo]]\nname = "small"\nmetric = "tool_calls_total"\nthreshold = 5\naction = "fail"\n'
        '[[slo]]\nmetric = "session_context_tokens"\nthreshold = 200000\n'
        '[[slo]]\nmetric = "session_cost_usd"\nthreshold = 0.00001\n'
    )
    done = own.ctx(monkeypatch, "verify")
    told = own.ctx(monkeypatch, "verify", "--json")
    found = verify(settings=own.settings)

    assert [(v.limit.name, v.sessions, v.violated, v.status) for v in found.limits] == [
        ("small", 2, 1, "fail"),
        ("session_context_tokens", 2, 0, "pass"),
        ("session_cost_usd", 2, 2, "fail"),
    ]
    assert found.limits[0].worst == (f"claude/{WORK}", 9.0)
    assert (found.worst_action, done.exit_code, told.exit_code) == ("fail", 1, 1)
    assert done.stdout.endswith("violated: 2\nnot verified\n")
    assert f"limit small: tool_calls_total max 5: fail (1 of 2 sessions, worst claude/{WORK} with 9; fail)" in done.stdout


@pytest.mark.feature("session.slo")
@pytest.mark.parametrize(
    "text",
    [
        "[[slo]]\nmetric = 'speed'\nthreshold = 1",
        "[[slo]]\nmetric = 'session_cost_usd'",
        "[[slo]]\nmetric = 'session_cost_usd'\nthreshold = 1\naction = 'block'",
        "[",
        "[slo]\nmetric = 'session_cost_usd'\nthreshold = 1",
        "slo = [1]",
        "[[slo]]\nmetric = ['session_cost_usd']\nthreshold = 1",
        "[[slo]]\nmetric = 'session_cost_usd'\nthreshold = nan",
    ],
)
def test_a_limit_that_cannot_be_used_is_an_error(tmp_path, text):
    (tmp_path / "slos.toml").write_text(text)
    with pytest.raises(SettingsError):
        limits_of(tmp_path / "slos.toml")


def test_a_limit_without_sessions_has_no_data():
    assert Violations(Limit("x", "session_cost_usd", 1.0, "max", "fail"), 0, 0, None).status == "no data"


@pytest.mark.feature("session.verify-json", "session.verify")
def test_a_verification_is_json_or_four_lines_and_is_kept(own: Shop, monkeypatch):
    told = own.json(monkeypatch, "verify")
    lines = own.ctx(monkeypatch, "verify", "--summary").stdout.splitlines()
    own.ctx(monkeypatch, "verify", "--no-record")
    past = own.json(monkeypatch, "verify", "--history", "9")["history"]

    assert (told["schema"], told["counts"], told["pass_rate"]) == (1, {"pass": 4, "fail": 0, "no data": 3}, 1.0)
    assert lines == [
        "checks: 4 pass, 0 fail, 3 without data",
        "pass rate: 100% of 4 checks with data",
        "limits: 0, violated: 0",
        "verified, but for 3 checks without data",
    ]
    assert [(p["pass"], p["fail"], p["no_data"], p["pass_rate"]) for p in past] == [(4, 0, 3, 1.0)] * 2
