"""Signals of one's own: as Python, as SQL, from the documented example, from a plug-in; what a backfill reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery
from ctx_pipeline import signals as package
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import DeclarationError, UsageError
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.signals import new_signal
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.sessions.signals import catalogue
from ctx_pipeline.storage.lake import reading
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view

SEED_EXAMPLE = """\
from retro.signals.base import SessionContext, reading, register

@register("my_signal", group="outcome", kind="boolean",
          method="heuristic", description="…")
def _my_signal(ctx: SessionContext):
    return reading(ctx, _my_signal, value=True, evidence=[some_event])
"""
"""The example of a new signal in retro's README, letter by letter."""


@pytest.fixture(autouse=True)
def _own_files_forgotten():
    yield
    discovery.look_in(None)
    discovery.reload()


def own(chosen, name: str, text: str) -> Path:
    """Write a file of signals of one's own."""
    folder = chosen.home / "config" / "signals"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(text), "utf-8")
    discovery.look_in(chosen.home / "config")
    discovery.reload()
    return path


def sessions():
    """Two sessions: one with two commands of which one fails, one with an answer only."""
    return view("a").prompt("go").shell("pytest", exit=1).shell("ls").answer("red"), view("b").prompt("go").answer("fine")


def readings(store, family):
    return {(r.session_id, r.signal): r for r in store.lake.read_rows("readings", CELL, f"signals/{family}")}


@pytest.mark.feature("signals.seed-example")
def test_the_documented_example_of_a_new_signal_runs_as_written(store, chosen):
    text = SEED_EXAMPLE.replace("retro.signals.base", "ctx_pipeline.signals.base")
    own(chosen, "mine", f'some_event = "a.e1"\n{text}')
    normalized(store, *sessions())
    measure(store, chosen, families=["mine"], cells=[CELL])
    row = readings(store, "mine")["a", "my_signal"]
    assert (row.value, row.kind, row.evidence, row.reason) == (1.0, "boolean", ["a.e1"], None)
    found = discovery.signals()["my_signal"]
    assert (found.group, found.method, found.describe, found.family) == ("outcome", "heuristic", "…", "mine")


@pytest.mark.feature("signals.seed-example")
def test_the_documented_helpers_take_event_rows_and_every_kind(store, chosen):
    own(
        chosen,
        "labels",
        """
        from ctx_pipeline.signals.base import SessionContext, reading, register

        @register("last_word", group="outcome", kind="text", method="regex", description="What was said last.")
        def last_word(ctx: SessionContext):
            said = [e for e in ctx.events if e.kind == "answer"]
            return reading(ctx, last_word, value=said[-1].text, evidence=said, confidence=0.5)
        """,
    )
    normalized(store, *sessions())
    measure(store, chosen, families=["labels"], cells=[CELL])
    row = readings(store, "labels")["a", "last_word"]
    assert (row.label, row.kind, row.evidence, row.confidence) == ("red", "text", ["a.e5"], 0.5)


FAILED = '''
from ctx_pipeline.model.declared import sql_signal
from ctx_pipeline.model.examples import session

@sql_signal(group="outcome", unit="calls", better="lower", reads=("tool_calls",), version={version})
def failing_calls():
    """Tool calls that failed.

    None is good; look at the session when there are many of them.
    """
    return """
        SELECT session_id, count(*) FILTER (WHERE is_error) AS value, list(call_event) FILTER (WHERE is_error) AS evidence
        FROM tool_calls GROUP BY session_id
    """

EXAMPLES = {{"failing_calls": [(session().shell("x", exit=1), 1), (session().shell("x", exit=1), 2), (session(), None)]}}
'''


@pytest.mark.feature("signals.sql")
def test_a_signal_in_sql_is_run_by_the_store_with_its_evidence(store, chosen):
    own(chosen, "queries", FAILED.format(version=1))
    normalized(store, *sessions())
    measure(store, chosen, families=["queries"], cells=[CELL])
    found = readings(store, "queries")
    assert (found["a", "failing_calls"].value, found["a", "failing_calls"].evidence) == (1, ["a.e1"])
    assert found["b", "failing_calls"].reason == "the query gave no row for this session"
    assert discovery.signals()["failing_calls"].method == "sql"


@pytest.mark.feature("signals.sql")
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT nothing FROM tool_calls", "the query failed: BinderException"),
        ("SELECT session_id, 1 AS value FROM events", "the query failed: CatalogException"),
        ("SELECT session_id, 1 AS value FROM tool_calls", "the query gives two rows for one session"),
        ("SELECT session_id, 'many' AS value FROM tool_calls GROUP BY 1", "the query gives no number"),
        ("SELECT session_id, 'nan'::DOUBLE AS value FROM tool_calls GROUP BY 1", "not a finite number"),
        ("SELECT session_id, 1 AS value, 2 AS more FROM tool_calls", "the query gives the columns session_id, value, more"),
        ("SELECT 'a' AS session_id, 1 AS value; DROP VIEW tool_calls", "a signal is one SELECT"),
        ("SELECT 'a' AS session_id, 1 AS value); DROP VIEW tool_calls; --", "the query failed: ParserException"),
        ("COPY (SELECT 1) TO 'x'", "a signal is one SELECT"),
        ("SELECT content AS session_id, 1 AS value FROM read_text('/etc/hostname')", "the query failed: PermissionException"),
    ],
)
def test_a_query_that_is_wrong_is_a_null_with_its_reason_and_reaches_nothing_else(store, chosen, query, reason):
    text = f"""
    from ctx_pipeline.model.declared import sql_signal

    @sql_signal(group="outcome", unit="calls", reads=("tool_calls",))
    def wrong():
        return {query!r}
    """
    own(chosen, "queries", text)
    normalized(store, *sessions())
    report = measure(store, chosen, families=["queries"], cells=[CELL])
    assert not report.failed_partitions
    assert readings(store, "queries")["a", "wrong"].reason == reason


@pytest.mark.feature("signals.new")
@pytest.mark.parametrize("options", [(), ("--sql",)], ids=["python", "sql"])
def test_a_new_file_has_a_failing_example_to_fill_in_and_holds_when_it_is(chosen, options):
    made = CliRunner().invoke(cli, ["signal", "new", "long_answers", *options, "--json"])
    assert made.exit_code == 0, made.output
    path = Path(json.loads(made.output)["path"])
    assert path.stat().st_mode & 0o777 == 0o600
    failing = CliRunner().invoke(cli, ["signal", "check", "long_answers"])
    assert failing.exit_code == 1
    assert "long_answers example 1: expected 1, found" in failing.output
    path.write_text(path.read_text().replace('"FILL ME IN"', '"wrong"').replace("'FILL ME IN'", "'wrong'"))
    discovery.reload()
    held = CliRunner().invoke(cli, ["signal", "check", "--json"])
    assert held.exit_code == 0, held.output
    assert [line["holds"] for line in json.loads(held.output)["examples"]] == [True, True]
    again = CliRunner().invoke(cli, ["signal", "new", "long_answers"])
    assert "already a signal" in str(again.exception)


@pytest.mark.feature("signals.list")
def test_a_signal_is_described_in_full_when_it_is_named(chosen):
    shown = CliRunner().invoke(cli, ["signal", "list", "cache_hit_share", "command_count"])
    assert shown.exit_code == 0, shown.output
    for name in ("cache_hit_share", "command_count"):
        what, _, how = discovery.signals()[name].describe.replace("``", "").partition("\n\n")
        assert f"{name}: {' '.join(what.split())}\n  {' '.join(how.split())}\n" in shown.output
    assert "family context_cache, group context, kind numeric, unit ratio, better higher, method heuristic, version 1" in shown.output
    assert "tool_call_count" not in shown.output
    assert catalogue("behaviour") == catalogue("behavior") != [], "the name of the group until 2026-11"
    assert not [row for row in catalogue() if "``" in row["what"] + row["how_to_read"]]
    assert "no signal called" in str(CliRunner().invoke(cli, ["signal", "list", "nope"]).exception)


@pytest.mark.feature("signals.new")
@pytest.mark.parametrize("name", ["x", "../evil", "Long", "a-b", "failed_command_count", "outcomes", "import os", "class", "signal"])
def test_a_name_that_is_none_or_is_taken_makes_no_file(chosen, name):
    with pytest.raises(UsageError):
        new_signal.write(name, settings=chosen)
    assert not list(chosen.home.rglob("*.py"))


@pytest.mark.feature("signals.own-files")
def test_a_broken_file_of_ones_own_is_named_with_its_line(chosen):
    path = own(chosen, "broken", "x = 1\n\ny = nothing\n")
    known = set(discovery.signals())
    assert re.search(r"broken\.py cannot be imported: NameError: .* line 3$", discovery.left_out()[str(path)])
    for text, why in (("def (:\n", "SyntaxError"), ("", "declares no signal"), ("raise SystemExit('out')\n", "SystemExit: out, line 1")):
        path.write_text(text)
        discovery.reload()
        assert set(discovery.signals()) == known
        assert why in discovery.left_out()[str(path)]
    with pytest.raises(DeclarationError, match=r"broken\.py cannot be imported"):
        new_signal.check(settings=chosen)
    path.write_text(FAILED.format(version=1))
    discovery.reload()
    assert set(discovery.signals()) == known | {"failing_calls"}
    assert discovery.left_out() == {}


@pytest.mark.feature("mining.broken-file")
def test_a_broken_file_in_the_package_is_named_with_its_line_and_takes_nothing_else_with_it(tmp_path, monkeypatch):
    known = set(discovery.signals())
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    path = tmp_path / "half_written.py"
    path.write_text("x = 1\ndef broken(\n")
    discovery.reload()
    assert set(discovery.signals()) == known
    assert discovery.left_out() == {str(path): f"{path} cannot be imported: SyntaxError: '(' was never closed, line 2"}


@pytest.mark.feature("signals.own-files")
def test_a_broken_file_of_ones_own_stops_no_capture(store, chosen, environ):
    own(chosen, "broken", "def (:\n")
    ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session().prompt("hello").answer(claude.text("hi")).save()
    sync(store, chosen)
    (row,) = store.ledger.sessions(host="claude")
    assert (row.session_id, row.rows["prompts"]) == (claude.SESSION, 1)
    discovery.signals()
    assert [Path(place).name for place in discovery.left_out()] == ["broken.py"]


@pytest.mark.feature("signals.own-files")
def test_a_signal_that_raises_names_the_line_and_nothing_of_the_session(store, chosen):
    text = """
    from ctx_pipeline.model.declared import signal

    @signal(group="activity", unit="x")
    def shaky(view):
        raise ValueError(view.prompts[0].text)
    """
    own(chosen, "shaky", text)
    normalized(store, *sessions())
    assert measure(store, chosen, families=["shaky"], cells=[CELL]).totals["errors"] == 2
    assert readings(store, "shaky")["a", "shaky"].reason == "the signal raised ValueError, line 6"


@pytest.mark.feature("signals.own-files")
@pytest.mark.parametrize(
    ("kind", "returned", "label", "reason"),
    [
        ("numeric", "Reading([1, 2])", None, "the signal returned what cannot be kept: TypeError"),
        ("numeric", "Reading(1.0, evidence=7)", None, "the signal returned what cannot be kept: TypeError"),
        ("numeric", "Reading(1.0, confidence=None)", None, "the signal returned what cannot be kept: TypeError"),
        ("numeric", "Reading(1.0, metadata=[1])", None, "the signal returned what cannot be kept: TypeError"),
        ("numeric", "7", None, "the signal returned int"),
        ("text", "Reading('a\\ud800b')", "a?b", None),
        ("text", "Reading('a' * 5000)", "a" * 2000, None),
    ],
)
def test_what_a_signal_returns_by_mistake_takes_no_other_reading_with_it(store, chosen, kind, returned, label, reason):  # noqa: PLR0917
    text = f"""
    from ctx_pipeline.model.declared import Reading, signal

    @signal(group="activity", kind="{kind}", unit="x")
    def odd(view):
        return {returned}
    """
    own(chosen, "odd", text)
    normalized(store, *sessions())
    report = measure(store, chosen, families=["odd", "activity"], cells=[CELL])
    assert not report.failed_partitions
    row = readings(store, "odd")["a", "odd"]
    assert (row.label, row.reason) == (label, reason)
    assert readings(store, "activity")["a", "command_count"].value == 2


@pytest.mark.feature("signals.own-files")
def test_two_files_of_one_name_are_refused(chosen):
    path = own(chosen, "outcomes", FAILED.format(version=1))
    assert "failing_calls" not in {s.name for s in discovery.families()["outcomes"].signals}
    assert "two files of signals are named 'outcomes'" in discovery.left_out()[str(path)]


@pytest.mark.feature("signals.plugin")
def test_an_installed_distribution_brings_signals_by_its_entry_point(tmp_path):
    site = tmp_path / "site"
    info = site / "acme_signals-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-signals\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ctx_pipeline.signals]\nacme = acme_signals\n")
    (site / "acme_signals.py").write_text(FAILED.format(version=3))
    environ = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{Path(discovery.__file__).parents[1]}", "CTX_HOME": str(tmp_path / "store")}
    command = [sys.executable, "-m", "ctx_pipeline", "signal", "list", "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=250)
    found = {s["signal"]: s for s in json.loads(done.stdout)["signals"]}["failing_calls"]
    assert (found["family"], found["version"], found["unit"]) == ("acme_signals", 3, "calls")


@pytest.mark.feature("signals.columns")
def test_a_backfill_of_one_family_reads_only_the_columns_it_needs(store, chosen, monkeypatch):
    asked: list[tuple[str, tuple[str, ...]]] = []
    real = reading.read_part

    def watched(path, part, names, wanted=None):
        asked.append((part.table, tuple(sorted(names))))
        return real(path, part, names, wanted)

    normalized(store, *(s.model(100, 1) for s in sessions()))
    monkeypatch.setattr(reading, "read_part", watched)
    measure(store, chosen, families=["context_window"], cells=[CELL])
    columns = dict(asked)
    # the text of a compaction says how large the window was
    assert set(columns["events"]) == {"event_id", "session_id", "thread_id", "seq", "ts", "kind", "call_key", "call_id", "text"}
    assert {"paths", "argv", "ranges", "before_sha"}.isdisjoint(columns["tool_calls"])
    assert {"stream", "rule", "price", "tier"}.isdisjoint(columns["model_calls"])
    assert {"title", "branch", "version"}.isdisjoint(columns.get("threads", ()))


@pytest.mark.feature("signals.columns")
def test_families_measured_together_see_the_same_as_each_alone(store, chosen):
    normalized(store, *(s.model(100, 1, said="so").model(150, 2, said="and so") for s in sessions()))
    measure(store, chosen, cells=[CELL])
    together = {f: readings(store, f) for f in discovery.families()}
    for family in discovery.families():
        store.ledger.forget_asset(f"signals/{family}")
        store.lake.drop(f"signals/{family}", CELL)
        measure(store, chosen, families=[family], cells=[CELL])
        assert readings(store, family) == together[family], family
