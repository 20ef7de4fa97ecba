"""A week of a team on the engines that it runs on: PostgreSQL, Redis, an S3-shaped bucket, two workers, four members, and what dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.memory.consolidation import AUTHORED
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.storage import open_store
from ctx_pipeline.team import deployment
from ctx_pipeline.team.auto import pull_lessons
from ctx_pipeline.team.hub import Hub
from ctx_pipeline.team.hub_page import build_page
from ctx_pipeline.team.membership import RECORD
from ctx_pipeline.team.published_tables import PUBLISHED
from ctx_pipeline_tests.factories.services import postgres, redis
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine, session_id
from ctx_pipeline_tests.team.test_failing_bucket import rows
from ctx_pipeline_tests.team.test_workers import TASK, ended
from ctx_pipeline_tests.waiting import eventually

dg = pytest.importorskip("dagster")

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline_tests.team.conftest import Unpacked

MEMBERS = ("ann", "bob", "cyd", "dan")
SHOP = "github.com/acme/shop"
LESSON = {"memory_id": "m-1", "text": "Run `make schema` before the tests.", "kind": "repo_convention", "scope": "repo", "repository": SHOP}


def said(machine: TeamMachine, *words: str) -> str:
    """Return what a command prints on a machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in machine.settings.environ.items():
            patch.setenv(name, value)
        done = CliRunner().invoke(cli, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def different(url: str, one: str) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """Return table -> rows that the team has more and that one machine with all homes has more, where there are such."""
    found = {}
    for name in (*(t.name for t in PUBLISHED), "readings"):
        team, alone = Counter(rows(url, "team", name)), Counter(rows(one, "team", name))
        if team != alone:
            found[name] = (team - alone, alone - team)
    return found


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("team.week")
def test_a_week_of_four_members_on_two_workers_with_kills_equals_one_machine_that_has_all_homes(  # noqa: PLR0915 - seven days
    tmp_path: Path, s3_bucket: str, unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch
):
    one_bucket = str(tmp_path / "one-bucket")
    machines = {name: TeamMachine(tmp_path / name, name).join(s3_bucket, share=("texts", "lessons")) for name in MEMBERS}
    everyone = TeamMachine(tmp_path / "everyone", "everyone").join(one_bucket, share=("texts", "lessons"))
    hub = Hub(TeamMachine(tmp_path / "page", "page").settings, s3_bucket)

    def day(number: int, *names: str) -> None:
        """Each of these members has a new session, and goes on with that of the day before."""
        for name in names:
            first = 100 * (MEMBERS.index(name) + 1)
            for machine in (machines[name], *([everyone] if name != "dan" else [])):
                for session, turns in ((first + number - 1, 2), (first + number, 1)):
                    if session > first:
                        started = DAY + timedelta(days=session - first)
                        machine.works(session, turns=turns, started=started, words=f"lighthouse{session} of {name}")

    with ExitStack() as stack:
        folder = tmp_path / "deployed"
        deployment.deploy(folder, s3_bucket)
        workspace = str(folder / "workspace.yaml")
        told = {"HOME": tmp_path, "DAGSTER_HOME": folder, deployment.BUCKET: s3_bucket}
        told |= {deployment.DATABASE: stack.enter_context(postgres()), deployment.BROKER: stack.enter_context(redis())}
        for name, value in told.items():
            monkeypatch.setenv(name, str(value))

        def begin(*words: str, store: str) -> subprocess.Popen[bytes]:
            environ = {**os.environ, "CTX_HOME": str(tmp_path / store)}
            with (tmp_path / f"{store}.log").open("wb") as log:
                return subprocess.Popen(
                    [sys.executable, "-m", *words], env=environ, cwd=folder, stdout=log, stderr=log, start_new_session=True
                )

        workers = {
            name: stack.enter_context(ended(begin("ctx_pipeline", "hub", "worker", "--name", name, store=name))) for name in ("one", "two")
        }
        switched_on = begin("dagster", "sensor", "start", "-w", workspace, "team_heads", store="hub")

        # Monday: everybody publishes, two members accept a lesson, and the hub's machine collects
        day(1, *MEMBERS)
        for name in MEMBERS:
            machines[name].publish()
        for name in ("ann", "bob"):
            with open_store(machines[name].settings) as store:
                store.journal.append(AUTHORED, LESSON, actor="person")
                consolidate(store, machines[name].settings)
            machines[name].publish()
        assert hub.refresh([]).lessons == 1

        # Tuesday and Wednesday: one member's publication is killed, and the lesson of the team reaches the third
        day(2, *MEMBERS)
        machines["bob"].capture()
        killed = subprocess.Popen(
            [sys.executable, "-m", "ctx_pipeline", "publish"],
            env={**os.environ, **machines["bob"].settings.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        record = machines["bob"].settings.home / RECORD
        assert eventually(lambda: json.loads(record.read_bytes())["pending"], 60)  # its commits may have begun
        os.killpg(killed.pid, signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        day(3, "bob", "cyd")
        for name in ("ann", "bob", "cyd"):
            machines[name].publish()
        with open_store(machines["cyd"].settings) as store:
            assert pull_lessons(store, machines["cyd"].settings).new == ["team-m-1"]
            assert "team-m-1" in {row[0] for row in store.lake.read_rows("memories", WHOLE, "memory/consolidated")}

        assert switched_on.wait(120) == 0
        instance = stack.enter_context(dg.DagsterInstance.get())
        stack.enter_context(ended(begin("dagster._daemon", "run", "-w", workspace, store="daemon")))

        def worker_of_a_run() -> str:
            for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
                info = instance.run_launcher.celery.AsyncResult(run.tags.get(TASK, "")).info
                if isinstance(info, dict) and "hostname" in info:
                    return str(info["hostname"].partition("@")[0])
            return ""

        # a worker dies in the middle of a run
        struck = eventually(worker_of_a_run)
        with suppress(ProcessLookupError):
            os.killpg(workers[struck].pid, signal.SIGKILL)

        # Thursday: one member forgets a session and goes on, another one leaves and erases
        for machine in (machines["ann"], everyone):
            machine.capture()
            assert "forgotten" in said(machine, "forget", session_id(101), "--yes")
        assert "left the team" in said(machines["dan"], "team", "leave", "--erase", "--yes")
        day(4, "ann")
        machines["ann"].publish()

        everyone.publish()
        one = Hub(TeamMachine(tmp_path / "page-of-one", "page").settings, one_bucket)
        one.refresh()
        wanted = {part.key: made_of for part, made_of in hub.parts().items() if part.month != "all"}
        keys = {f"{key} {made_of}" for key, made_of in wanted.items()}

        def brought_in() -> bool:
            """Tell whether a run for what each member published last has ended well."""
            runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
            # behind part and digest a key has the number of the tick that asked
            return keys <= {run.tags.get("dagster/run_key", "").rpartition(" ")[0] for run in runs}

        assert eventually(brought_in, seconds=170), [(run.tags.get("dagster/run_key"), run.status) for run in instance.get_runs()]

    # what the workers made is what one machine makes, but for the member who left
    for name, (more, fewer) in different(s3_bucket, one_bucket).items():
        assert not fewer, name
        assert all(session_id(401) in row or session_id(402) in row for row in more), name
    done = hub.refresh()
    assert (done.problems, done.not_collected) == ([], [])
    assert different(s3_bucket, one_bucket) == {}
    reports = ("total", "days", "models", "turns")
    assert hub.database.reports(reports) == one.database.reports(reports)
    assert {row["member"] for row in hub.database.reports(("members",))["members"]} == {"ann", "bob", "cyd"}
    assert "ann" in build_page(hub, hub.lessons()).read_text("utf-8")
    gone = [session_id(101), session_id(401), session_id(402), "lighthouse101", "lighthouse401", "members/dan"]
    assert unpacked(s3_bucket, *gone, session_id(102)) == {session_id(102)}
