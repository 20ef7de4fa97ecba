"""Two workers below a hub: PostgreSQL, Redis, Dagster's daemon and Celery, all real, and one worker that is killed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import root
from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.team_tables.bucket import Bucket
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team import deployment
from ctx_pipeline.team.hub import URL, Hub
from ctx_pipeline.team.hub_signals import READINGS_TABLE
from ctx_pipeline.team.membership import IDENTITY
from ctx_pipeline.team.published_tables import PUBLISHED
from ctx_pipeline_tests.factories.services import postgres, redis
from ctx_pipeline_tests.factories.team_machines import TeamMachine
from ctx_pipeline_tests.waiting import eventually

dg = pytest.importorskip("dagster")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEMBERS = ("ann", "bob", "cyd", "dan")


@pytest.fixture
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture
def broker() -> Iterator[str]:
    with redis() as address:
        yield address


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process and what it started."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def published(tmp_path: Path, folder_bucket: str) -> str:
    """A bucket in which four members published."""
    for number, name in enumerate(MEMBERS, 1):
        who = TeamMachine(tmp_path / name, name).join(folder_bucket, share=("facts",))
        who.works(number)
        who.publish()
    return folder_bucket


def rows(url: str) -> dict[str, list[str]]:
    """Return the rows of the team's tables, in one order."""
    found = {name: TeamTable(Bucket(url), f"team/{name}").rows() for name in (*(t.name for t in PUBLISHED), READINGS_TABLE)}
    return {name: sorted(map(repr, table.to_pylist())) for name, table in found.items() if table is not None}


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("team.workers")
def test_two_workers_bring_in_what_four_members_published_though_one_is_killed(
    tmp_path: Path, published: str, server: str, broker: str, monkeypatch: pytest.MonkeyPatch
):
    alone = shutil.copytree(published, tmp_path / "alone")
    folder = tmp_path / "deployed"
    deployment.deploy(folder, published)
    workspace = str(folder / "workspace.yaml")
    for name, value in {"HOME": tmp_path, "DAGSTER_HOME": folder, deployment.DATABASE: server, deployment.BROKER: broker}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv(deployment.BUCKET, published)

    def begin(*words: str, store: str) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "CTX_HOME": str(tmp_path / store)}
        with (tmp_path / f"{store}.log").open("wb") as log:
            return subprocess.Popen([sys.executable, "-m", *words], env=environ, cwd=folder, stdout=log, stderr=log, start_new_session=True)

    with ExitStack() as stack:
        workers = {name: begin("ctx_pipeline", "hub", "worker", "--name", name, store=name) for name in ("one", "two")}
        for process in workers.values():
            stack.enter_context(ended(process))
        assert begin("dagster", "sensor", "start", "-w", workspace, "team_heads", store="hub").wait(120) == 0
        instance = stack.enter_context(dg.DagsterInstance.get())
        stack.enter_context(ended(begin("dagster._daemon", "run", "-w", workspace, store="daemon")))

        def taken() -> tuple[str, str] | None:
            """A run that goes on, and the name of its worker."""
            for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
                told = instance.run_launcher.celery.AsyncResult(run.tags[TASK]).info
                if isinstance(told, dict) and "hostname" in told:
                    return run.run_id, told["hostname"].partition("@")[0]
            return None

        struck, name = eventually(taken)
        os.killpg(workers[name].pid, signal.SIGKILL)

        def finished() -> bool:
            runs = instance.get_runs()
            return len(runs) > len(MEMBERS) and all(run.is_finished for run in runs)

        assert eventually(finished, seconds=200), [(run.run_id, run.status) for run in instance.get_runs()]
        runs = {run.run_id: run for run in instance.get_runs()}
        assert {run_id: run.status.value for run_id, run in runs.items() if run.status.value != "SUCCESS"} == {struck: "FAILURE"}
        assert [run.status.value for run in runs.values() if run.parent_run_id == struck] == ["SUCCESS"]
        said = [record.message for record in instance.all_logs(struck)]
        assert any("does not answer any more" in line for line in said), said[-5:]

    hub = Hub(replace(settings_module.load(), home=tmp_path / "embedded"), str(alone))
    assert hub.refresh().members == len(MEMBERS)
    assert rows(published) == rows(str(alone))
    assert rows(published)["sessions"]


TASK = "dagster-celery/task_id"

_HOLDER = """
import sys, time
from dagster_celery.launcher import CeleryRunLauncher
from ctx_pipeline.defs import hub_workers
from ctx_pipeline.team.deployment import instance_settings
broker, name, folder, seconds = sys.argv[1:]
source = instance_settings()["run_launcher"]["config"]["config_source"]
source["broker_transport_options"] = {**source["broker_transport_options"], "visibility_timeout": 6, "unacked_restore_interval": 1}
app = hub_workers.app_of(CeleryRunLauncher("dagster", broker, broker, config_source=source))

@app.task(name="hold")
def hold(number):
    open(f"{folder}/{number}-{name}", "w").close()
    time.sleep(float(seconds))

if name == "ask":
    for number in range(3):
        hold.apply_async((number,), queue="dagster", routing_key="dagster.execute_job")
else:
    app.worker_main(["worker", "--concurrency", "1", "-Q", "dagster", "--loglevel", "WARNING", "--without-gossip", "-n", f"{name}@%h"])
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.feature("team.held-tasks")
def test_what_a_killed_worker_held_goes_to_another_one_and_what_a_living_one_holds_is_taken_once(tmp_path: Path, broker: str):
    def begin(name: str, seconds: float = 600) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", _HOLDER, broker, name, str(folder), str(seconds)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def begun() -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    folder = tmp_path / "begun"
    folder.mkdir()
    assert begin("ask").wait(60) == 0
    with ExitStack() as stack:
        workers = {}
        for name in ("one", "two"):
            workers[name] = stack.enter_context(ended(begin(name)))
            assert eventually(lambda name=name: any(path.endswith(name) for path in begun()), 60), begun()
        held = begun()
        assert len({path.partition("-")[0] for path in held}) == 2  # each took one, and the third waits
        third = stack.enter_context(ended(begin("three", seconds=0.1)))
        assert eventually(lambda: len(begun()) == 3, 60)
        time.sleep(13)  # twice as long as a task may be held without a word
        assert len(begun()) == 3
        assert third.poll() is None

        os.killpg(workers["one"].pid, signal.SIGKILL)

        (lost,) = (path.partition("-")[0] for path in held if path.endswith("one"))
        assert eventually(lambda: f"{lost}-three" in begun(), 60), begun()
        time.sleep(8)
        assert len(begun()) == 4  # that of the other worker stays with it


@pytest.mark.feature("team.workers")
def test_a_worker_needs_an_instance_that_launches_on_workers(tmp_path: Path, published: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("dagster_celery")
    from ctx_pipeline.defs import hub_workers

    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    before = dict(os.environ)
    with pytest.raises(UsageError, match="launches no runs on workers"):
        hub_workers.work(settings_module.load(), published)
    assert dict(os.environ) == before


@pytest.mark.feature("team.deploy")
def test_what_is_written_for_a_deployment_holds_no_password_and_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "deployed"
    words = ["hub", "deploy", str(folder), "--url", "s3://acme-agents", "--image", "registry.test/hub:7"]
    root.cli.main(words, standalone_mode=False)
    assert sorted(path.name for path in folder.iterdir()) == sorted(deployment.FILES)
    assert "DAGSTER_HOME" in capsys.readouterr().out
    compose, values = (yaml.safe_load((folder / name).read_text()) for name in ("compose.yaml", "values.yaml"))
    services = compose["services"]
    assert set(services) == {"postgres", "redis", "webserver", "daemon", "worker"}
    assert services["worker"]["command"] == ["ctx", "hub", "worker"]
    assert {service["image"] for service in services.values()} == {"postgres:17", "redis:7", "registry.test/hub:7"}
    assert [port for service in services.values() for port in service.get("ports", ())] == ["127.0.0.1:3000:3000"]
    assert "PASSWORD=\n" in (folder / ".env").read_text()
    image = {"repository": "registry.test/hub", "tag": "7", "pullPolicy": "IfNotPresent"}
    assert values["dagster-user-deployments"]["deployments"][0]["image"] == image
    with pytest.raises(UsageError, match="already"):
        deployment.deploy(folder, "s3://acme-agents")
    with pytest.raises(UsageError, match="image"):
        deployment.deploy(tmp_path / "other", "s3://acme-agents", image="a b")


@pytest.mark.feature("team.deploy")
def test_services_of_the_compose_file_agree_with_each_other_and_with_what_the_commands_take(tmp_path: Path):
    from dagster._daemon.cli import create_dagster_daemon_cli
    from dagster_webserver.cli import create_dagster_webserver_cli
    from sqlalchemy.engine import make_url

    deployment.deploy(tmp_path, "s3://acme-agents")
    image = (tmp_path / "Dockerfile").read_text()
    (copied,) = re.findall(r"^COPY (.+) (/\S+)/$", image, re.MULTILINE)
    compose = yaml.safe_load((tmp_path / "compose.yaml").read_text())
    services = compose["services"]
    database = services["postgres"]["environment"]
    assert compose["volumes"].keys() == {services["postgres"]["volumes"][0].partition(":")[0]}
    for name in ("webserver", "daemon", "worker"):
        service = services[name]
        environ = service["environment"]
        assert set(environ) == {"DAGSTER_HOME", deployment.DATABASE, deployment.BROKER, URL, IDENTITY}
        address = make_url(environ[deployment.DATABASE].replace(database["POSTGRES_PASSWORD"], "secret"))
        assert (address.host, address.username, address.database) == ("postgres", database["POSTGRES_USER"], database["POSTGRES_DB"])
        assert environ[deployment.BROKER].split("/")[2].partition(":")[0] in services
        assert service["depends_on"].keys() == {"postgres", "redis"}
        assert [place.count(environ[IDENTITY].removesuffix("}")) for place in service["volumes"]] == [2]
        assert environ["DAGSTER_HOME"] == copied[1]
        assert {"dagster.yaml", "workspace.yaml"} == set(copied[0].split())
        program, *words = service["command"]
        known = {"ctx": lambda: root.cli, "dagster-daemon": create_dagster_daemon_cli, "dagster-webserver": create_dagster_webserver_cli}
        # paths of the container are those of the files that were copied there
        said = taken_by(known[program](), [word.replace(f"{copied[1]}/", f"{tmp_path}/") for word in words])
        if program != "ctx":
            assert said["workspace"] == (str(tmp_path / "workspace.yaml"),)
    assert said["processes"] == 1
    assert "ctx-pipeline[workers]" in image


def taken_by(command: click.Command, words: list[str]) -> dict[str, Any]:
    """Return what a command line takes of some words, without running it."""
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    return command.make_context("program", list(words)).params


@pytest.mark.feature("team.deploy")
def test_the_image_holds_what_the_values_of_the_chart_ask_for(tmp_path: Path):
    from dagster._cli.api import api_cli

    deployment.deploy(tmp_path, "s3://acme-agents")
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    (location,) = values["dagster-user-deployments"]["deployments"]

    said = taken_by(api_cli, ["grpc", "-h", "0.0.0.0", "-p", str(location["port"]), *location["dagsterApiGrpcArgs"]])

    assert importlib.util.find_spec(said["module_name"][0] if isinstance(said["module_name"], tuple) else said["module_name"])
    # the chart's instance names this launcher, and the web server, the daemon and each run load it
    assert values["runLauncher"]["type"] == "K8sRunLauncher"
    assert "dagster-k8s" in (tmp_path / "Dockerfile").read_text()
    images = [part["image"] for part in (values["dagsterWebserver"], values["dagsterDaemon"], location)]
    assert images == [images[0]] * 3
    secrets = [part["envSecrets"] for part in (values["dagsterWebserver"], values["dagsterDaemon"], location)]
    assert secrets == [values["runLauncher"]["config"]["k8sRunLauncher"]["envSecrets"]] * 3


@pytest.mark.feature("team.deploy")
def test_in_a_cluster_nothing_needs_root_and_runs_behave_as_they_do_with_workers(tmp_path: Path):
    deployment.deploy(tmp_path, "s3://acme-agents")
    values, instance = (yaml.safe_load((tmp_path / name).read_text()) for name in ("values.yaml", "dagster.yaml"))
    (user,) = re.findall(r"^USER (.+)$", (tmp_path / "Dockerfile").read_text(), re.MULTILINE)
    server, daemon = values["dagsterWebserver"], values["dagsterDaemon"]

    # Kubernetes compares a number with root's, and refuses a name
    assert int(user) > 0
    # the chart has the server listen on this port in its container, and its own is 80, where only root may
    assert server["service"]["port"] >= 1024
    assert server["readinessProbe"]["httpGet"]["port"] == server["service"]["port"]
    # what fails for its data is not made again at once, what lost its pod is
    assert daemon["runRetries"]["retryOnAssetOrOpFailure"] is instance["run_retries"]["retry_on_asset_or_op_failure"] is False
    assert daemon["runMonitoring"]["startTimeoutSeconds"] == instance["run_monitoring"]["start_timeout_seconds"]
    assert set(values["retention"]["sensor"]["purgeAfterDays"].values()) == {instance["retention"]["sensor"]["purge_after_days"]}
    (location,) = values["dagster-user-deployments"]["deployments"]
    (volume,), (mount,) = location["volumes"], location["volumeMounts"]
    assert (volume["name"], volume["secret"]["optional"], mount["readOnly"]) == (mount["name"], True, True)


@pytest.mark.feature("team.deploy")
@pytest.mark.parametrize(
    ("image", "pulled"), [("ctx-hub:latest", "IfNotPresent"), ("a.test/hub", "Always"), ("a.test/hub:7", "IfNotPresent")]
)
def test_an_image_that_changes_below_its_name_is_pulled_each_time(image: str, pulled: str):
    values = deployment.helm(image)

    assert values["dagsterDaemon"]["image"]["pullPolicy"] == pulled
    assert values["runLauncher"]["config"]["k8sRunLauncher"]["imagePullPolicy"] == pulled


@pytest.mark.feature("team.deploy")
@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("hub", "hub", "latest"),
        ("registry.test:5000/hub", "registry.test:5000/hub", "latest"),
        ("a.test:5000/hub:7", "a.test:5000/hub", "7"),
    ],
)
def test_an_image_of_a_registry_with_a_port_keeps_its_name(image: str, repository: str, tag: str):
    found = deployment.helm(image)["dagsterDaemon"]["image"]

    assert (found["repository"], found["tag"]) == (repository, tag)


@pytest.mark.feature("team.deploy")
def test_docker_reads_the_compose_file(tmp_path: Path):
    words = next((found for found in (["docker", "compose"], ["docker-compose"]) if answers([*found, "version"])), None)
    if words is None:
        assert not os.environ.get("CI"), "CI installs docker-compose"
        pytest.skip("needs docker with its compose command, or docker-compose")
    deployment.deploy(tmp_path / "deployed", "s3://acme-agents")

    def rendered(**environ: str) -> subprocess.CompletedProcess[str]:
        told = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environ}
        return subprocess.run([*words, "config"], cwd=tmp_path / "deployed", env=told, capture_output=True, text=True, check=False)

    without = rendered()
    assert without.returncode != 0
    assert "HUB_PASSWORD" in without.stderr
    assert "set it in .env" in without.stderr
    done = rendered(HUB_PASSWORD="x", **{IDENTITY: "/keys/team.txt"})
    assert done.returncode == 0, done.stderr
    worker = yaml.safe_load(done.stdout)["services"]["worker"]
    assert (worker["environment"][URL], worker["environment"][IDENTITY]) == ("s3://acme-agents", "/keys/team.txt")
    assert "/keys/team.txt" in str(worker["volumes"])


def answers(command: list[str]) -> bool:
    """Tell whether a program is there and runs."""
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
