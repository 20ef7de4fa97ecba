"""A machine of a team publishes without being asked, where a policy stands, and what goes wrong stops nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.auto import publish_quietly
from ctx_pipeline.team.membership import demand, join
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.team_machines import TeamMachine, session_id
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable


def machine(tmp_path: Path, url: str, share: Iterable[str] = ("counts",)) -> TeamMachine:
    return TeamMachine(tmp_path / "ann", "ann").join(url, share=tuple(share))


def there(url: str) -> list[str]:
    """Return the sessions that the team has of the member."""
    rows = TeamTable(Bucket(url), "members/ann/sessions").rows()
    return [] if rows is None else sorted(rows["session_id"].to_pylist())


def ran(ann: TeamMachine, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    own = {**environment(ann.folder), **ann.settings.environ, **environ}
    said = '{"hook_event_name": "SessionEnd", "session_id": "x"}' if words[0] == "hook" else None
    return preloaded.run(words, env=own, cwd=ann.folder, stdin=said, seconds=250)


@pytest.mark.feature("team.auto")
def test_a_run_publishes_what_a_policy_shares_and_says_so_in_one_line(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)

    first, again = ran(ann, "run"), ran(ann, "run")

    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert [line for line in first.stderr.splitlines() if line.startswith("team:")] == ["team: 1 session sent"]
    assert "team:" not in again.stdout + again.stderr
    assert there(folder_bucket) == [session_id(1)]


@pytest.mark.feature("team.auto")
def test_a_bucket_that_cannot_be_reached_is_one_line_and_the_run_has_done_its_work(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    Path(folder_bucket, "team.json").write_text('{"protocol": 99}')

    done = ran(ann, "run")

    assert done.returncode == 0
    assert "1 session" in done.stdout
    assert [line for line in done.stderr.splitlines() if line.startswith("not published:")] == [
        f"not published: {folder_bucket} was set up by a newer version of ctx; again: ctx publish"
    ]
    Path(folder_bucket, "team.json").write_text('{"protocol": 1}')
    assert publish_quietly(ann.settings) == "team: 1 session sent"


@pytest.mark.feature("team.auto", "team.policy")
@pytest.mark.parametrize("how", ["no policy", "--no-auto", "setting", "no team"])
def test_nothing_leaves_by_itself_without_a_policy_or_where_a_person_said_no(tmp_path: Path, folder_bucket: str, how: str):
    ann = TeamMachine(tmp_path / "ann", "ann")
    if how != "no team":
        ann.join(folder_bucket, share=() if how == "no policy" else ("texts",))
    if how == "--no-auto":
        join(ann.settings, folder_bucket, auto=False)
        join(ann.settings, folder_bucket)  # it stays
    if how == "setting":
        (ann.settings.home / "config.toml").write_text("[team]\npublish = false\n")
    ann.works(1)
    ann.capture()

    assert publish_quietly(ann.settings) == ""
    assert ran(ann, "publish", "--auto").stderr == ""
    assert there(folder_bucket) == []


@pytest.mark.feature("team.auto")
def test_a_machine_with_nothing_new_asks_nothing_of_the_network(tmp_path: Path, folder_bucket: str, monkeypatch: pytest.MonkeyPatch):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    ann.capture()
    assert publish_quietly(ann.settings) == "team: 1 session sent"
    asked: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "read", lambda _self, path: asked.append(path))

        assert publish_quietly(ann.settings) == ""

    assert asked == []


@pytest.mark.feature("team.auto")
def test_the_hook_at_the_end_of_a_session_publishes_beside_the_agent(tmp_path: Path, folder_bucket: str):
    ann = machine(tmp_path, folder_bucket)
    ann.works(1)

    done = ran(ann, "hook", "capture", "claude")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert eventually(lambda: there(folder_bucket) == [session_id(1)], 60)
    log = ann.settings.home / "hooks.log"
    assert eventually(lambda: "team: 1 session sent" in log.read_text(), 20)


@pytest.mark.feature("team.auto")
def test_the_sensor_publishes_once_the_runs_of_the_schedule_have_ended(tmp_path: Path, folder_bucket: str):
    dg = pytest.importorskip("dagster")
    from ctx_pipeline.defs import run_records, sensors
    from ctx_pipeline.defs.resources import Pipeline

    ann = machine(tmp_path, folder_bucket)
    ann.works(1)
    ann.capture()
    pipeline = Pipeline(ann.settings)

    @dg.op
    def nothing() -> None:
        return None

    @dg.job
    def everything() -> None:
        nothing()

    with dg.DagsterInstance.ephemeral() as instance:
        assert "no run" in str(sensors.published(instance, None, pipeline, ()))
        everything.execute_in_process(instance=instance, tags={run_records.LAUNCHED_BY: "by hand"})
        assert "no run" in str(sensors.published(instance, None, pipeline, ()))
        assert there(folder_bucket) == []
        made = everything.execute_in_process(instance=instance, tags={run_records.LAUNCHED_BY: "nightly"})

        done = sensors.published(instance, None, pipeline, ())

        assert isinstance(done, dg.SensorResult)
        assert (str(done.skip_reason), done.cursor) == (str(dg.SkipReason("team: 1 session sent")), made.run_id)
        assert there(folder_bucket) == [session_id(1)]
        assert "no run" in str(sensors.published(instance, made.run_id, pipeline, ()))
    pipeline.close()


@pytest.mark.feature("team.auto")
def test_joining_says_whether_it_publishes_by_itself(tmp_path: Path, folder_bucket: str):
    ann = TeamMachine(tmp_path / "ann", "ann")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ann.settings.environ.items():
            patch.setenv(name, value)
        words = ["team", "join", folder_bucket, "--as", "ann", "--share", "counts"]
        plain, off = (CliRunner().invoke(cli, [*words, *more]) for more in ((), ("--no-auto",)))
    assert "published by itself: after ctx run, after sessions, nightly" in plain.output
    assert "published when asked: ctx publish" in off.output
    assert demand(ann.settings).auto is False
