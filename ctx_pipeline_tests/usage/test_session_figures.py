"""What is kept of each session is what its rows give, never older than they are, and only of a changed session worked out anew."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta

import msgspec
import pytest

from ctx_pipeline.dashboard.panels.numbers import figures
from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.maintenance.verify import verify
from ctx_pipeline.pipeline import background
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.page.page_records import current
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.sessions.listing import listed
from ctx_pipeline.sessions.reports import kept_figures
from ctx_pipeline.sessions.reports.gain import gain
from ctx_pipeline.sessions.reports.kept_figures import keep
from ctx_pipeline.sessions.reports.work import work
from ctx_pipeline.sessions.reports.wrapped import wrapped
from ctx_pipeline.sessions.states.state import session_state
from ctx_pipeline.storage import open_store, session_figures
from ctx_pipeline.storage.byte_search import Wanted, search
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.warehouse import usage_sql
from ctx_pipeline.usage import session_figures as made_figures
from ctx_pipeline.usage import usage_figures
from ctx_pipeline.usage.blocks import blocks
from ctx_pipeline.usage.engine import calls_for, stored_sums, usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.rollup import Filters, Rollup
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.usage.conftest import ingested

pytestmark = pytest.mark.feature("usage.session-figures")

NEW = "33333333-3333-4333-8333-333333333333"


def keep_all(settings):
    with open_store(settings) as store:
        return keep(store, settings)


def grown(settings, calls: int = 2):
    """Write a session of some calls, or the same with more of them, and capture it."""
    made = ClaudeHome(settings.demo_roots["claude"][0]).session(NEW, mark="n").prompt("list the files")
    for number in range(calls):
        made.answer(tool_use(f"t{number}", "Bash", command="ls -la"), message_id=f"msg_new{number}").result(f"t{number}", "a b c")
    made.save()
    return ingested(settings)


def answers(settings):
    """Return what every report says that is added up from figures."""
    told = {by: usage(by, stored=True, settings=settings).to_json() for by in GROUPINGS}
    told["gain"] = gain("all", settings=settings).to_json()
    told["wrapped"] = wrapped("all", settings=settings).to_json()
    told["listed"] = listed(settings=settings)
    told["blocks"] = [block.to_json(0) for block in blocks(settings=settings, stored=True)]
    told["work"] = [[one.to_json(1_000) for one in work(since=day, settings=settings)] for day in (None, "2026-09-20")]
    told["verified"] = verify(settings=settings).to_json()
    return json.loads(json.dumps(told, default=str))


def test_reports_are_the_same_whether_figures_are_kept_or_not(homes):
    Journal(ingested(homes).home / "journal.db").close()
    before = answers(homes)

    assert not (homes.home / session_figures.FILE).exists()
    assert keep_all(homes) == before["gain"]["sessions"] + before_without_calls(homes)
    assert answers(homes) == before
    assert before["verified"]["counts"]["fail"] == 0


def before_without_calls(settings) -> int:
    """Return how many sessions have no model call that counts."""
    with open_store(settings) as store:
        return len(store.ledger.sessions()) - len(usage("session", stored=True, settings=settings).by_session())


def test_kept_sums_are_those_of_the_tables_and_kept_shares_those_of_each_call(homes):
    keep_all(ingested(homes))
    read = {by: calls_for(GROUPINGS[by], homes, stored=True) for by in GROUPINGS if GROUPINGS[by].names}
    days = [row["date"] for row in usage("daily", stored=True, settings=homes).rows if row["date"]]
    middle = date.fromisoformat(sorted(days)[len(days) // 2])

    for since, until in ((None, None), (middle, None), (None, middle - timedelta(days=1))):
        chosen = {"since": since and since.isoformat(), "until": until and until.isoformat(), "settings": homes}
        for by, calls in read.items():
            assert usage(by, stored=True, **chosen).rows == usage(by, read=calls, **chosen).rows, (by, since, until)
        filters = Filters(since, until, "UTC")
        for by in ("hour", "session", "thread", "model"):
            rollup = Rollup(GROUPINGS[by], filters)
            with open_store(homes) as store, closing(store.lake.connect()) as connection:
                store.lake.views(connection)
                rollup.add_sums(stored_sums(connection, [GROUPINGS[by]], filters))
            assert usage(by, stored=True, **chosen).rows == rollup.rows(), (by, since, until)


def test_a_session_that_is_captured_is_told_at_once_and_it_alone_is_worked_out_again(homes):
    keep_all(ingested(homes))
    before = answers(homes)
    grown(homes)
    told = answers(homes)

    assert told["session"]["totals"]["calls"] == before["session"]["totals"]["calls"] + 2
    assert told["tool"]["totals"]["cost_usd"] == told["session"]["totals"]["cost_usd"] > before["tool"]["totals"]["cost_usd"]
    assert told["gain"]["calls"] == before["gain"]["calls"] + 2
    assert told["wrapped"]["sessions"] == before["wrapped"]["sessions"] + 1
    assert (keep_all(homes), keep_all(homes)) == (1, 0)
    assert answers(homes) == told
    grown(homes, calls=5)
    assert usage("session", stored=True, settings=homes).by_session()["claude", NEW]["calls"] == 5
    assert keep_all(homes) == 1
    assert usage("command", stored=True, settings=homes).totals["calls"] == told["session"]["totals"]["calls"] + 3


REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT"
    " written to the file). To tell you how to proceed, the user said:\nkeep the old parser and add a second one beside it"
)


@pytest.mark.feature("facts.one-number")
def test_a_figure_of_all_kinds_of_events_is_the_same_beside_one_of_some(homes):
    made = (
        ClaudeHome(homes.demo_roots["claude"][0])
        .session(NEW, mark="n", version="2.1.31")
        .prompt("rewrite the parser so that it streams its input")
    )
    made.call("t0", "Edit", REFUSED, is_error=True, structured=f"Error: {REFUSED}", file_path="/home/dev/shop/parser.py").save()
    keep_all(ingested(homes))
    rows, _ = listed(limit=1_000, settings=homes)
    tasks = {row["session_id"]: row["task"] for row in rows}

    assert tasks[NEW] == "keep the old parser and add a second one beside it"
    for row in rows:
        task = session_state(f"{row['host']}:{row['session_id']}", settings=homes).state.current_task
        assert row["task"] == (task.text if task else None), row["session_id"]


def test_of_more_sessions_than_a_sync_may_do_it_keeps_some_and_the_next_ones_the_rest(homes):
    ingested(homes)
    with open_store(homes) as store:
        missing = [keep(store, homes, most=2) for _ in range(40)]

    assert missing[0] > 4
    assert missing[: missing[0] // 2] == [missing[0] - 2 * n for n in range(missing[0] // 2)]
    assert missing[-1] == 0


def test_after_a_sync_what_is_kept_of_the_other_sessions_is_not_opened_again(homes, monkeypatch):
    grown(homes)
    keep_all(homes)
    before = usage("session", stored=True, settings=homes).by_session()
    grown(homes, calls=5)
    keep_all(homes)
    opened: list[str] = []
    unseal = session_figures._opened
    monkeypatch.setattr(session_figures, "_opened", lambda sealed, *about: opened.append(about[2]) or unseal(sealed, *about))

    after = usage("session", stored=True, settings=homes).by_session()
    assert set(opened) == {NEW}
    assert after["claude", NEW]["calls"] == 5
    assert {key: after[key] for key in before if key != ("claude", NEW)} == {k: v for k, v in before.items() if k != ("claude", NEW)}


@pytest.mark.feature("session.verify")
def test_what_is_billed_is_added_up_once_of_each_part_until_it_is_another(homes, monkeypatch):
    settings = ingested(homes)
    read: list[str] = []
    relation = usage_sql.relation

    def asked(table, parts, **how):
        read.extend(part.path for _, part in parts)
        return relation(table, parts, **how)

    monkeypatch.setattr(usage_sql, "relation", asked)

    def billed(*, anew: bool = False) -> list[int]:
        read.clear()
        with open_store(settings) as store, closing(store.lake.connect()) as connection:
            store.lake.views(connection, ("model_calls",))
            every = connection.execute(f"SELECT {usage_sql.amounts_sql('auto')} FROM model_calls c WHERE c.owner").fetchone()
            found = usage_sql.billed(store.lake, "auto", anew=anew)
        assert found == list(every)
        return found

    first = billed()
    assert read
    assert billed() == first
    assert read == []
    assert billed(anew=True) == first
    assert read, "a recount reads every row"
    grown(settings)
    more = billed()
    assert (more[6], len(read)) == (first[6] + 2, 1)
    grown(settings, calls=3)  # its rows of before are dead in their part now
    assert billed()[6] == first[6] + 3


@pytest.mark.feature("session.verify")
def test_what_is_billed_of_many_parts_is_asked_in_few_queries_and_is_the_same(homes, monkeypatch):
    settings = ingested(homes)
    with open_store(settings) as store, closing(store.lake.connect()) as connection:
        dead = [msgspec.structs.replace(part, dead=(part.live[0],)) for part in store.lake.parts("model_calls")]
        parts = dead[::2] + store.lake.parts("model_calls")[1::2]
        monkeypatch.setattr(type(store.lake), "parts", lambda *_: parts)
        rows = usage_sql.relation(usage_sql.MODEL_CALLS, [(str(store.lake.local(part.path)), part) for part in parts])
        every = connection.execute(f"SELECT {usage_sql.amounts_sql('auto')} FROM ({rows}) c WHERE c.owner").fetchone()
        asked: list[int] = []
        sql = usage_sql._billed_sql
        monkeypatch.setattr(usage_sql, "_billed_sql", lambda places, mode: asked.append(len(places)) or sql(places, mode))
        assert usage_sql.billed(store.lake, "auto", anew=True) == list(every)
        assert asked == [len(parts)]
        monkeypatch.setattr(usage_sql, "_PARTS_AT_ONCE", 2)
        assert usage_sql.billed(store.lake, "auto", anew=True) == list(every)
        assert asked[1:] == [2] * (len(parts) // 2) + [1] * (len(parts) % 2)


@pytest.mark.feature("session.verify")
def test_the_older_half_of_the_sums_that_are_kept_makes_room_for_more(homes, monkeypatch):
    settings = ingested(homes)
    with open_store(settings) as store:
        parts = store.lake.parts("model_calls")
        old = {("elsewhere", str(n), parts[0]): [0] * 10 for n in range(10)}
        monkeypatch.setattr(usage_sql, "_billed", dict(old))
        monkeypatch.setattr(usage_sql, "_MOST_PARTS", 9)
        usage_sql.billed(store.lake, "auto")
        assert list(usage_sql._billed)[:5] == list(old)[5:]
        assert len(usage_sql._billed) == 5 + len(parts)


def test_the_sums_of_a_session_are_drawn_once_for_all_reports_until_its_rows_are_others(homes, monkeypatch):
    settings = grown(homes)
    keep_all(settings)
    drawn = []
    plain = usage_figures._stored_sums

    def noted(key, figure):
        drawn.append(key)
        return plain(key, figure)

    monkeypatch.setattr(usage_figures, "_stored_sums", noted)
    before = {by: usage(by, stored=True, settings=settings).to_json() for by in ("daily", "model", "session", "home")}
    sessions = len(drawn)
    assert sessions == len(set(drawn)) >= 2
    assert {by: usage(by, stored=True, settings=settings).to_json() for by in before} == before
    assert len(drawn) == sessions

    keep_all(grown(homes, calls=3))
    assert usage("daily", stored=True, settings=settings).totals["calls"] == before["daily"]["totals"]["calls"] + 1
    assert [key for _, key in drawn[sessions:]] == [NEW]


def test_what_a_reader_leaves_beside_a_database_is_no_change(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"rows")
    seen = session_figures.stamp_of(tmp_path, "ledger.db", "ledger.db-wal")
    (tmp_path / "ledger.db-wal").touch()
    assert session_figures.stamp_of(tmp_path, "ledger.db", "ledger.db-wal") == seen
    (tmp_path / "ledger.db-wal").write_bytes(b"more")
    assert session_figures.stamp_of(tmp_path, "ledger.db", "ledger.db-wal") != seen


def test_a_bound_inside_a_session_counts_what_lies_on_its_side(homes):
    keep_all(ingested(homes))
    days = sorted(row["date"] for row in usage("daily", stored=True, settings=homes).rows if row["date"])
    whole = gain("all", settings=homes).total

    by_day = [gain("day", today=date.fromisoformat(day), settings=homes).total for day in dict.fromkeys(days)]
    assert sum(one.calls for one in by_day) == whole.calls
    assert sum(one.spent for one in by_day) == whole.spent
    assert sum(one.saved_by_cache for one in by_day) == whole.saved_by_cache


def test_a_file_that_is_no_database_and_one_of_another_version_are_made_again(homes):
    keep_all(ingested(homes))
    before = answers(homes)
    path = homes.home / session_figures.FILE
    path.write_bytes(b"torn" * 4_000)

    assert answers(homes) == before
    assert keep_all(homes) > 1
    assert keep_all(homes) == 0
    assert session_figures.read_figures(homes.home, "usage", "another version") == {}


def test_a_run_keeps_them_and_forgetting_a_session_leaves_nothing_of_it(homes):
    grown(homes)
    with open_store(homes) as store:
        build_warehouse(store, homes)
    path = homes.home / session_figures.FILE
    assert NEW.encode() in path.read_bytes()
    assert keep_all(homes) == 0
    with open_store(homes) as store:
        forget(store, homes, Selection(host="claude", session_id=NEW))
    assert not path.exists() or NEW.encode() not in path.read_bytes()
    assert ("claude", NEW) not in usage("session", stored=True, settings=homes).by_session()


def test_a_branch_that_a_new_detector_hides_is_in_no_kept_figure(homes):
    made = ClaudeHome(homes.demo_roots["claude"][0]).session(NEW, mark="n")
    made.branch = "acme-secret-project"
    made.prompt("list the files").answer(tool_use("t0", "Bash", command="ls"), message_id="msg_b").result("t0", "a").save()
    keep_all(ingested(homes))
    assert "acme-secret-project" in {row["branch"] for row in usage("branch", stored=True, settings=homes).rows}

    hiding = replace(homes, config={**homes.config, "redaction": {"patterns": {"acme": "acme-secret-project"}}})
    keep_all(ingested(hiding))

    assert "acme-secret-project" not in {row["branch"] for row in usage("branch", stored=True, settings=hiding).rows}
    assert b"acme-secret-project" not in (homes.home / session_figures.FILE).read_bytes()


def test_a_file_that_another_process_holds_stays_and_one_that_is_no_database_is_made_anew(homes, monkeypatch):
    path = ingested(homes).home / session_figures.FILE
    sessions = keep_all(homes)
    monkeypatch.setattr(session_figures, "_PATIENCE", 0.1)
    held = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        grown(homes)
        keep_all(homes)
        other.execute("ROLLBACK")
    assert path.read_bytes() == held

    path.write_bytes(b"no database at all" * 100)
    assert keep_all(homes) == sessions + 1
    assert keep_all(homes) == 0


def test_words_are_found_in_what_is_kept_compressed(homes):
    ingested(homes)
    assert keep_all(homes)
    file = homes.home / session_figures.FILE
    lines = {line.encode() for one in work(settings=homes) for line in one.lines if len(line) > 30}
    hidden = sorted(line for line in lines if line not in file.read_bytes())
    assert hidden
    for line in hidden:
        assert session_figures.FILE in search(homes.home, Wanted([line])).found


def copied(settings):
    """Write a session with two calls and one that was copied from it and goes on; return both."""
    folder = ClaudeHome(settings.demo_roots["claude"][0])
    origin = folder.session(NEW, mark="n").prompt("list the files")
    origin.answer(tool_use("n1", "Bash", command="ls"), tool_use("n2", "Bash", command="ls -la"), message_id="msg_new")
    fork = folder.session(NEW.replace("3", "2"), mark="f")
    fork.records = [record | {"sessionId": fork.session_id, "forkedFrom": {"sessionId": NEW}} for record in origin.records]
    fork.prompt("go on").answer(tool_use("f1", "Bash", command="pwd")).save()
    return origin, fork


@pytest.mark.feature("work.copies")
def test_a_call_that_the_origin_never_recorded_counts_in_its_copy_until_the_origin_records_it(homes):
    def total():
        found = work(host="claude", settings=homes)[0]
        return found.tool_calls.times, found.commands.times

    keep_all(ingested(homes))
    before = total()
    origin, fork = copied(homes)
    rest = origin.records.pop()
    origin.save()
    keep_all(ingested(homes))

    assert total() == (before[0] + 3, before[1] + 3)

    origin.records.append(rest)
    origin.save()
    ingested(homes)
    assert total() == (before[0] + 3, before[1] + 3)
    keep_all(homes)
    assert total() == (before[0] + 3, before[1] + 3)

    data = current(homes)
    forked = next(one for one in data.sessions if one.session_id == fork.session_id)
    told = next(figure for name, figure, _ in figures(data) if name == "Tool calls")
    assert (forked.tool_calls, forked.repeated_tool_calls) == (3, 2)
    assert told == f"{sum(one.tool_calls.times for one in work(settings=homes)[:1]):,}"


def kept(settings):
    """Return all that is kept."""
    with closing(sqlite3.connect(settings.home / session_figures.FILE)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in ("figures", "parts")}


def derived(settings):
    """Make facts, readings and candidates of every cell and return the reports."""
    with open_store(settings) as store:
        return background.derive(store, settings)


def gone_back(settings):
    """Write a session of which the person took the second prompt back before going on; return its id and the task that is left."""
    made = ClaudeHome(settings.demo_roots["claude"][0]).session(NEW.replace("3", "4"), mark="b").prompt("write a parser for dates")
    answer = made.answer(text("Written."), message_id="msg_b1").records[-1]["uuid"]
    made.prompt("rewrite the whole shop page in French").answer(text("Rewritten."), message_id="msg_b2").prompt("yes, go on")
    made.records[-1]["parentUuid"] = answer
    made.answer(text("Done."), message_id="msg_b3").save()
    return made.session_id, "write a parser for dates"


@pytest.mark.feature("work.copies")
@pytest.mark.parametrize("bytes_at_once", [1, 1 << 20])
def test_a_read_of_many_sessions_makes_their_figures_too_and_they_are_those_that_are_made_alone(homes, monkeypatch, bytes_at_once):
    monkeypatch.setattr(made_figures, "_AT_ONCE", bytes_at_once)
    copied(homes)[0].save()
    back, task = gone_back(homes)
    keep_all(ingested(homes))
    alone = kept(homes)
    assert next(row for row in listed(limit=1_000, settings=homes)[0] if row["session_id"] == back)["task"] == task
    (homes.home / session_figures.FILE).unlink()
    monkeypatch.setattr(background, "_MANY", 1)

    derived(homes)
    assert kept(homes) == alone
    assert keep_all(homes) == 0


def test_a_read_of_few_sessions_leaves_their_figures_to_the_warehouse(homes, monkeypatch):
    monkeypatch.setattr(background, "_MANY", 1_000)
    derived(ingested(homes))

    assert not (homes.home / session_figures.FILE).exists()


def test_a_figure_that_raises_in_a_read_of_many_sessions_fails_no_cell_and_is_made_by_the_warehouse(homes, monkeypatch):
    raised: list[str] = []

    def once_raising(view, settings):
        if not raised:
            raised.append(view.session_id)
            raise LookupError
        return kept_figures.WORK.make(view, settings)

    monkeypatch.setattr(kept_figures, "KEPT", (kept_figures.WORK._replace(make=once_raising), kept_figures.TIME))
    monkeypatch.setattr(background, "_MANY", 1)
    reports = derived(ingested(homes))

    assert raised
    assert not any(report.failed_partitions for report in reports)
    assert raised[0] not in {row[2] for row in kept(homes)["figures"]}
    assert keep_all(homes) == 1


def test_damage_in_one_month_holds_back_no_other_month_whose_figures_would_be_made(homes, monkeypatch):
    def damaged(store, settings):
        raise StoreDamaged("a manifest of some month")

    monkeypatch.setattr(background, "_figures_ahead", damaged)
    monkeypatch.setattr(background, "_MANY", 1)

    assert not any(report.failed_partitions for report in derived(ingested(homes)))
