"""A week of four members over a bucket that is slow and fails, with publishers and hubs killed: each row is there, once."""

from __future__ import annotations

import os
import random
import re
import signal
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.hub import Hub
from ctx_pipeline.team.published_tables import PUBLISHED
from ctx_pipeline_tests.factories.failing_proxy import failing
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine
from ctx_pipeline_tests.preloaded import killed_after

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MEMBERS = ("ann", "bob", "cyd", "dan")
DAYS, KILLS, SEED = 7, 30, 3
NAMES_OF_FILES = re.compile(r"['\"][0-9a-f]{16}(\.\d+)*['\"]|'[0-9a-f]{64}'")


def hub_of(tmp_path: Path, url: str, name: str) -> Hub:
    return Hub(settings_module.load({"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / name), "TZ": "UTC"}), url)


def rows(url: str, folder: str, name: str) -> list[str]:
    """Return the rows of a table, but for whose they are and for names of files, which each home has its own of."""
    found = TeamTable(Bucket(url), f"{folder}/{name}").rows()
    told = [] if found is None else found.to_pylist()
    kept = [{k: v for k, v in row.items() if k not in {"member", "machine"}} for row in told]
    return sorted(NAMES_OF_FILES.sub("?", str(row)) for row in kept)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.feature("team.once", "team.fenced", "team.counted-once")
def test_a_week_over_a_bucket_that_fails_with_processes_killed_equals_one_machine_that_has_all_homes(
    tmp_path: Path, s3_server: str, s3_bucket: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
):
    drawn = random.Random(SEED)
    machines = {name: TeamMachine(tmp_path / name, name).join(s3_bucket, share=("facts",)) for name in MEMBERS}
    everyone = TeamMachine(tmp_path / "everyone", "everyone").join(str(tmp_path / "one-bucket"), share=("facts",))
    turns: dict[int, int] = {}
    ends: list[int] = []
    errors: list[str] = []

    def killed(words: list[str], environ: Any) -> None:
        """Begin a command, and kill it at a moment that is drawn."""
        of_bucket = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        ends.append(killed_after(drawn.uniform(0.1, 1.5), words, env={**environment(tmp_path), **of_bucket, **environ}, cwd=tmp_path))

    with failing(s3_server, SEED, fails=0.03, slow=0.1) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        points = drawn.sample([(day, name, what) for day in range(DAYS) for name in MEMBERS for what in ("publish", "hub")], KILLS)
        for day in range(DAYS):
            for place, (name, machine) in enumerate(machines.items()):
                number = 10_000 + 100 * place + drawn.choice([1, 10 + day])  # a session that goes on, or a new one
                turns[number] = turns.get(number, 0) + drawn.randint(1, 3)
                for one in (machine, everyone):
                    one.works(number, turns=turns[number], started=DAY + timedelta(days=number % 10))
                machine.capture()
                if (day, name, "publish") in points:
                    killed(["publish"], machine.settings.environ)
                else:
                    try:
                        machine.publish()
                    except StoreError as error:
                        errors.append(error.message)
                if (day, name, "hub") in points:
                    home = str(tmp_path / f"hub-{drawn.randint(1, 2)}")
                    killed(["hub", "refresh", "--url", s3_bucket], {"HOME": home, "CTX_HOME": home, "TZ": "UTC"})
        lost = dict(proxy.done)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    for machine in machines.values():
        machine.publish()
    everyone.publish()
    hubs = [hub_of(tmp_path, s3_bucket, "hub-1"), hub_of(tmp_path, str(tmp_path / "one-bucket"), "hub-of-one")]
    for hub in hubs:
        done = hub.refresh(["activity"])
        assert (done.problems, done.not_collected) == ([], [])

    record_property("failures", f"{lost}, killed {ends.count(-signal.SIGKILL)}, others ended {set(ends)}, errors {len(errors)}")
    assert len(ends) == KILLS
    assert errors
    assert ends.count(-signal.SIGKILL) > KILLS / 3
    assert min(lost["request lost"], lost["answer lost"], lost["answer delayed"]) > 10
    for table in PUBLISHED:
        team, one = (Counter(rows(url, "team", table.name)) for url in (s3_bucket, str(tmp_path / "one-bucket")))
        assert (team - one, one - team) == (Counter(), Counter()), table.name
    assert rows(s3_bucket, "team", "readings") == rows(str(tmp_path / "one-bucket"), "team", "readings")
    assert hubs[0].database.reports(("total", "days", "models", "turns")) == hubs[1].database.reports(("total", "days", "models", "turns"))
    assert rows(s3_bucket, "team", "model_calls")
