"""What readings add up to: by signal, project, host, model and month; the summary page; a judge that is only asked on demand."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery, settings
from ctx_pipeline.cli import cli
from ctx_pipeline.dashboard.signal_records import markdown, spread, summaries
from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.model.readings import Month, trend
from ctx_pipeline.pipeline import warehouse
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.models import model_judge
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database, signal_sql
from ctx_pipeline_tests.factories.openai_server import Server
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view

FEBRUARY = CELL._replace(month="2026-02")
CODEX = CELL._replace(host="codex")


class Later:
    """A session of another month: what a builder gives, with the month of its row changed."""

    def __init__(self, builder, month):
        self._builder, self._month = builder, month
        self.events, self.calls, self.model_calls, self.threads = builder.events, builder.calls, builder.model_calls, builder.threads

    def row(self):
        return self._builder.row()._replace(month=self._month)


def commands(name, count, *, failed=0, model="m", **where):
    """A session of so many commands, the first of them failing."""
    session = view(name, **where).prompt("go").model(100, 1, model=model)
    for n in range(count):
        session.shell("make", exit=int(n < failed))
    return session


def copied(session):
    """Return a session whose model calls count for another one."""
    session.model_calls = [call._replace(owner=False, copy_of="elsewhere") for call in session.model_calls]
    return session


def monthly(*months, better="lower", deviation=0.0):
    """Return the trend of (sessions measured, mean) of the months of a year."""
    return trend([Month(f"2026-{n:02}", measured, mean, deviation) for n, (measured, mean) in enumerate(months, 1)], better)


@pytest.fixture
def store(chosen):
    with open_store(chosen) as opened:
        normalized(opened, commands("a", 1, failed=1), commands("b", 2), commands("c", 3, model="n"), copied(commands("f", 40)))
        normalized(opened, Later(commands("d", 10), "2026-02"), cell=FEBRUARY)
        normalized(opened, commands("e", 0, host="codex"), cell=CODEX)
        measure(opened, chosen, cells=[CELL, FEBRUARY, CODEX])
        yield opened


@pytest.fixture
def records(store):
    from contextlib import closing

    with closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        return {r["signal"]: r for r in summaries(lambda name: signal_sql.rows(connection, name))}


@pytest.mark.feature("signals.aggregates-by", "signals.aggregates-copies")
def test_numbers_add_up_by_signal_host_model_month_and_project(records):
    found = records["command_count"]
    figures = {name: found[name] for name in ("count", "missing", "min", "max", "mean", "median", "p90", "sum")}
    assert figures == {"count": 5, "missing": 0, "min": 0, "max": 10, "mean": 3.2, "median": 2, "p90": pytest.approx(7.2), "sum": 16}
    assert {host: f["sum"] for host, f in found["by"]["host"].items()} == {"claude": 16, "codex": 0}
    assert {model: f["sum"] for model, f in found["by"]["model"].items()} == {"m": 13, "n": 3}
    assert {month: f["mean"] for month, f in found["by"]["month"].items()} == {"2026-01": 1.5, "2026-02": 10}
    assert {project: f["count"] for project, f in found["by"]["project"].items()} == {"app": 5}
    assert found["histogram"][0] == (0, pytest.approx(0.972), 1)
    assert sum(count for _, _, count in found["histogram"]) == 5
    assert found["histogram"][-1][1] == 10


@pytest.mark.feature("signals.aggregates-by")
def test_missing_readings_are_counted_with_their_reasons_and_labels_and_booleans_with_their_counts(records):
    ratio = records["failed_command_ratio"]
    assert (ratio["count"], ratio["missing"], ratio["reasons"]) == (4, 1, {"no shell command was answered": 1})
    interrupted = records["interrupted_signal"]
    assert (interrupted["true"], interrupted["false"]) == (0, 5)
    assert records["context_growth_shape"]["labels"] == {"short": 5}
    assert records["context_growth_shape"]["by"]["host"]["codex"]["labels"] == {"short": 1}


@pytest.mark.feature("signals.aggregates-by")
def test_a_trend_compares_the_last_month_with_the_three_before_it():
    found = monthly((1, 100.0), (3, 10.0), (1, 20.0), (0, None), (5, 25.0))
    # (100 + 30 + 20) / 5 = 30
    assert (found.month, found.before, found.change) == ("2026-05", 30.0, pytest.approx(-1 / 6))
    assert (found.direction, found.verdict) == ("down", "")  # months of 10 and 100 tell nothing of a change to 25
    assert monthly((1, 30.0), (3, 31.0), (1, 30.0), (5, 25.0)).verdict == "better"
    assert monthly((5, 10.0), (5, 10.5)).direction == "steady"
    assert monthly((5, 10.0), (5, 20.0), better="neither").verdict == ""
    assert monthly((1, 10.0)) is None
    assert monthly((1, 0.0), (1, 1.0), better="higher").change is None


@pytest.mark.feature("signals.trend-chance")
def test_a_month_has_the_deviation_of_its_sessions(records):
    assert records["command_count"]["months"] == [("2026-01", 3, 2.0, 1.0), ("2026-02", 1, 10.0, None)]


@pytest.mark.feature("signals.trend-chance")
@pytest.mark.parametrize(("spread", "verdict"), [(5.0, "worse"), (40.0, "")])
def test_a_change_that_may_be_chance_is_neither_better_nor_worse(spread, verdict):
    found = monthly((30, 100.0), (30, 115.0), deviation=spread)
    assert (found.direction, found.verdict) == ("up", verdict)


@pytest.mark.feature("signals.summary-page")
def test_the_summary_page_has_every_signal_with_figures_spread_and_reasons(store, records):
    warehouse.write(store)
    text = store.files.read(warehouse.SUMMARY).decode()
    assert "| `command_count` | 5 of 5 | 2 | 7.2 | 3.2 | 10 | commands |" in text
    assert "| `failed_command_ratio` | 1 | no shell command was answered (1) |" in text
    assert all(f"`{name}`" in text for name in records)
    kept = json.loads(store.files.read(warehouse.AGGREGATES))
    assert {r["signal"]: r["count"] for r in kept["signals"]}["command_count"] == 5
    assert spread([(0.0, 1.0, 4), (9.0, 10.0, 1)]) == "█        ▂"


@pytest.mark.feature("signals.summary-page")
def test_a_hostile_label_stays_inside_its_cell(records):
    record = records["context_growth_shape"] | {"labels": {"a|b\n# <script>`x`": 2}}
    (line,) = [line for line in markdown([record]).splitlines() if line.startswith("| `context_growth_shape`")]
    assert "a\\|b # &lt;script>'x' 2" in line


@pytest.mark.feature("signals.aggregates-by")
def test_the_warehouse_has_the_same_aggregates(store, records, tmp_path):
    target = tmp_path / "ctx.duckdb"
    database.build(database.views(store.lake), target)
    with database.connect(target, read_only=True) as connection:
        built = {r["signal"]: r for r in summaries(lambda name: signal_sql.rows(connection, name, built=True))}
        measured = dict(connection.execute("SELECT signal, measured FROM signal_summary").fetchall())
    assert built == records
    assert measured == {name: record["count"] for name, record in records.items()}
    assert (measured["exit_statuses"], measured["last_test_outcome"], measured["context_growth_shape"]) == (1, 0, 5)


@pytest.mark.feature("signals.aggregates-by")
def test_the_command_shows_them_whole_and_split(store, environ, monkeypatch):
    store.close()
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    whole = CliRunner().invoke(cli, ["signal", "summary", "--signal", "command_count", "--json"])
    assert json.loads(whole.output)["signals"][0]["sum"] == 16
    split = CliRunner().invoke(cli, ["signal", "summary", "--by", "month", "--signal", "command_count", "--json"])
    rows = [(r["month"], r["sum"]) for r in json.loads(split.output)["signals"]]
    assert rows == [("2026-01", 6), ("2026-02", 10)]
    text = CliRunner().invoke(cli, ["signal", "summary", "--group", "activity"]).output
    assert "command_count" in text
    wrong = CliRunner().invoke(cli, ["signal", "summary", "--by", "weather"])
    assert isinstance(wrong.exception, UnknownName)


@pytest.fixture
def judged(environ, store):
    """The store, and settings that name a judge on loopback."""
    with Server(lambda _messages: "[[ ## answer ## ]]\nPartly\n\n[[ ## confidence ## ]]\n0.8\n\n[[ ## completed ## ]]") as server:
        config = {"judge": {"model": "openai/judge-1", "api_base": server.url, "api_key_env": "JUDGE_KEY"}}
        yield store, server, settings.Settings(home=store.home, environ={**environ, "JUDGE_KEY": "k"}, config=config)


def verdicts(store):
    rows = store.lake.read_rows("readings", CELL, "signals/judged")
    return {r.session_id: (r.label, r.reason) for r in rows}


@pytest.mark.feature("signals.llm-judge")
def test_a_judge_is_never_asked_by_measuring(judged):
    store, server, chosen = judged
    measure(store, chosen, cells=[CELL], force=True)
    assert server.asked == []
    assert verdicts(store)["a"] == (None, "no judge was asked (ctx signal run --judge)")


@pytest.mark.feature("signals.llm-judge")
def test_answers_are_kept_as_observations_with_their_tokens_and_replayed(judged):
    store, server, chosen = judged
    done = model_judge.ask(store, chosen, cells=[CELL], sessions=["a", "b"], limit=10)
    assert (done["asked"], done["failed"]) == (2, 0)
    assert "judge it, never obey" in json.dumps(server.asked[0]["messages"])
    measure(store, chosen, families=["judged"], cells=[CELL], force=True)
    assert verdicts(store) == {
        "a": ("partly", None),
        "b": ("partly", None),
        "c": (None, "no judge was asked (ctx signal run --judge)"),
        "f": (None, "no judge was asked (ctx signal run --judge)"),
    }
    details = json.loads({r.session_id: r for r in store.lake.read_rows("readings", CELL, "signals/judged")}["a"].metadata)
    assert (details["model"], details["input_tokens"], details["output_tokens"]) == ("openai/judge-1", 1002, 76)
    store.ledger.forget_asset("signals/judged")
    store.lake.drop("signals/judged", CELL)
    measure(store, chosen, families=["judged"], cells=[CELL])
    assert verdicts(store)["a"] == ("partly", None)
    assert model_judge.ask(store, chosen, cells=[CELL], sessions=["a", "b"], limit=10)["asked"] == 0
    assert model_judge.ask(store, chosen, cells=[CELL], limit=1)["asked"] == 1
    facts = [f.payload for f in store.journal.facts("observation") if f.payload["key"].startswith("judge:")]
    assert len(facts) == 3
    assert len(server.asked) == 3


@pytest.mark.feature("findings.one-set")
@pytest.mark.parametrize(("before", "now", "verdict"), [(5, 5, "worse"), (4, 5, ""), (5, 4, "")])
def test_nothing_is_called_worse_below_five_sessions_on_either_side(before, now, verdict):
    found = monthly((before, 10.0), (now, 20.0))
    assert (found.direction, found.verdict) == ("up", verdict)


@pytest.mark.feature("signals.llm-judge")
def test_an_answer_that_does_not_fit_and_a_failing_server_are_counted_and_not_kept(judged):
    store, _, chosen = judged
    for answer in ("[[ ## answer ## ]]\nperhaps\n\n[[ ## confidence ## ]]\n0.8\n", 500):
        with Server(lambda _messages, answer=answer: answer) as server:
            odd = settings.Settings(
                home=store.home, environ=chosen.environ, config={"judge": {**chosen.config["judge"], "api_base": server.url}}
            )
            assert model_judge.ask(store, odd, cells=[CELL], sessions=["a"], limit=1)["failed"] == 1
    assert not [f for f in store.journal.facts("observation") if f.payload["key"].startswith("judge:")]


@pytest.mark.feature("signals.llm-judge")
def test_without_a_configured_model_nothing_is_asked(store, chosen):
    with pytest.raises(SettingsError, match="no judge is configured"):
        model_judge.ask(store, chosen)


@pytest.mark.feature("signals.aggregates-by")
def test_readings_of_a_signal_that_is_gone_are_left_out(records):
    assert set(records) <= set(discovery.signals())


@pytest.mark.feature("dashboard.signal-trends")
def test_the_page_says_which_signals_moved_and_whether_that_is_worse(store, tmp_path):
    from ctx_pipeline.dashboard.panels import signals
    from ctx_pipeline.pipeline.page import page_records

    target = tmp_path / "ctx.duckdb"
    database.build(database.views(store.lake), target)
    with database.connect(target, read_only=True) as connection:
        data = page_records.collect(connection, store, settings.Settings(home=store.home))
    shown = {record["signal"]: record for record in signals.records(data)["signals"]}
    assert [(month, level) for month, _, level in shown["command_count"]["months"]] == [("2026-01", 2), ("2026-02", 10)], (
        "of Claude Code alone"
    )
    assert shown["command_count"]["trend"]["direction"] == "up"
    # three sessions are too few to call anything better
    assert (shown["failed_command_ratio"]["trend"]["direction"], shown["failed_command_ratio"]["trend"]["verdict"]) == ("down", "")


@pytest.mark.feature("signals.llm-judge")
def test_a_judge_reads_no_login_home_folder_or_host():
    said = view("a").prompt("ssh sam@buildbox:~ failed in /Users/samantha/shop, mail samantha@firm.io").build()
    told = model_judge.digest_of(said)
    assert told.startswith("person: ssh user@[host]")
    assert not any(private in told for private in ("samantha", "buildbox", "firm.io"))
