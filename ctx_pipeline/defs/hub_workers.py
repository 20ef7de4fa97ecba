"""Workers of a hub: runs are Celery tasks, taken by processes that share the instance's PostgreSQL, a broker and the team's bucket.

A run is a task, not each of its steps: with Dagster's Celery executor every run keeps a process on the hub that only waits.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from celery import bootsteps
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

from ctx_pipeline.defs.instance_settings import prepare_home
from ctx_pipeline.defs.launch import environment_of_runs
from ctx_pipeline.errors import UsageError
from ctx_pipeline.team.deployment import HELD_SECONDS
from ctx_pipeline.team.hub import URL, bucket_of

if TYPE_CHECKING:
    import dagster as dg

    from ctx_pipeline.settings import Settings

_PING_SECONDS = 3.0
_PINGS = 3
"""Times that a worker is asked whether it is there before its run is given up."""


class WorkerRunLauncher(CeleryRunLauncher):
    """Dagster's launcher of runs as Celery tasks, which also sees that the worker of a run is gone.

    Celery itself goes on calling a task started whose worker was killed, so the run would never end.
    """

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return how the worker of a run is; one that answers no ping in a while has failed."""
        found = super().check_run_worker_health(run)
        if found.status == WorkerStatus.SUCCESS:
            # this is asked of runs that go on: its worker died, and the task was given to another one, which leaves it to a new run
            return CheckRunHealthResult(WorkerStatus.FAILED, "the task of the run has ended, and the run has not")
        if found.status != WorkerStatus.RUNNING:
            return found
        about = self.celery.AsyncResult(run.tags[DAGSTER_CELERY_TASK_ID_TAG]).info
        name = about.get("hostname") if isinstance(about, dict) else None
        if name is None or any(self.celery.control.ping([name], timeout=_PING_SECONDS) for _ in range(_PINGS)):
            return found
        return CheckRunHealthResult(WorkerStatus.FAILED, f"the worker {name} does not answer any more")


class TaskRenewal(bootsteps.StartStopStep):  # type: ignore[misc]
    """Says again and again which tasks this worker holds, so that Redis gives those of a dead one to another soon.

    Celery itself gives a task back after a fixed time, however long the task takes: a day would leave what a dead
    worker held where nobody takes it, a minute would have a long run taken twice.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, parent: Any) -> None:
        """Begin with the consumer of a worker."""
        seconds = parent.app.conf.broker_transport_options.get("visibility_timeout", HELD_SECONDS) / 3
        self.timer = parent.timer.call_repeatedly(seconds, renew, (parent,))

    def stop(self, _parent: Any) -> None:
        """End with it."""
        self.timer.cancel()


def renew(consumer: Any) -> None:
    """Note of the tasks that a worker holds that it holds them now; a broker that is not Redis needs none of it."""
    qos = consumer.task_consumer.channel.qos
    if not hasattr(qos, "unacked_index_key"):
        return
    # tags that were acknowledged meanwhile are not there any more, and are not added again
    held = {tag: time.time() for tag in list(qos._delivered)}  # noqa: SLF001 - what the worker holds is nowhere else
    if held:
        with qos.channel.conn_or_acquire() as client:
            client.zadd(qos.unacked_index_key, held, xx=True)


def app_of(launcher: CeleryRunLauncher) -> Any:
    """Return the Celery application that takes the runs of a launcher."""
    app = launcher.celery
    create_execute_job_task(app)
    create_resume_job_task(app)
    app.steps["consumer"].add(TaskRenewal)
    return app


def work(settings: Settings, url: str | None = None, *, name: str = "", processes: int = 1) -> None:
    """Take runs of the hub's graph until interrupted; each of ``processes`` has one at a time.

    The instance is that of ``DAGSTER_HOME``, whose ``dagster.yaml`` names the broker (``ctx hub deploy`` writes one).
    Raises UsageError where it names another launcher of runs.
    """
    import dagster as dg

    # the bucket is not opened here: threads of its library do not live on in the processes that Celery forks
    bucket = bucket_of(settings, url)
    home = prepare_home(settings)
    with environment_of_runs(home, **{URL: bucket}):
        with dg.DagsterInstance.get() as instance:
            launcher: Any = instance.run_launcher
            if not isinstance(launcher, CeleryRunLauncher):
                raise UsageError(
                    f"the dagster.yaml in {home} launches no runs on workers",
                    hint="ctx hub deploy FOLDER --url URL, then DAGSTER_HOME=FOLDER",
                )
        words = ["worker", "--concurrency", str(processes), "-Q", launcher.default_queue, "--loglevel", "WARNING", "--without-gossip"]
        words += ["-n", f"{name}@%h"] if name else ["-n", f"ctx-{os.getpid()}@%h"]
        sys.stderr.write(f"taking runs of {bucket} from the queue {launcher.default_queue}\n")
        app_of(launcher).worker_main(words)
