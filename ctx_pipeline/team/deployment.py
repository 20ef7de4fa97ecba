"""Files that put a hub on several machines: the instance's settings, a Compose file, and values for Dagster's Helm chart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.team_tables.bucket import team_url
from ctx_pipeline.team.membership import IDENTITY

if TYPE_CHECKING:
    from pathlib import Path

LOCATION = "ctx_pipeline.defs.hub_location"
DATABASE, BROKER, BUCKET = "CTX_HUB_DATABASE", "CTX_HUB_BROKER", "CTX_TEAM_URL"
"""Environment of every process of a hub: PostgreSQL (``postgresql+psycopg2://...``), Redis (``redis://...``), the team's bucket."""

_RUNS = 16
HELD_SECONDS = 60
"""Seconds after which a task goes back to the queue that no living worker says it holds; workers say so three times as often."""

_START_SECONDS = 3_600
"""Seconds that a launched run waits for a free worker; then it is lost, as one that Redis gave to a worker that died at that moment."""

_TICK_DAYS, _SCHEDULE_DAYS = 30, 90

_HOME = "/hub"
_KEY_FOLDER = "/run/team-key"
_NO_KEY = "/run/no-key"
_PASSWORD = "${HUB_PASSWORD:?set it in .env}"  # noqa: S105 - where it stands, not what it is
_PACKAGES = "'ctx-pipeline[workers]' dagster-k8s"
"""What the image holds; the instance that the Helm chart writes loads its launcher of runs from the second, in every process."""
_PORT = 3000

FILES = ("dagster.yaml", "workspace.yaml", "Dockerfile", "compose.yaml", "values.yaml", ".env", "credentials.env")


def instance_settings() -> dict[str, Any]:
    """Return the settings of an instance whose runs are taken by workers; addresses come from the environment."""
    return {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "storage": {"postgres": {"postgres_url": {"env": DATABASE}}},
        "run_launcher": {
            "module": "ctx_pipeline.defs.hub_workers",
            "class": "WorkerRunLauncher",
            "config": {
                "broker": {"env": BROKER},
                "backend": {"env": BROKER},
                "config_source": {
                    # acknowledged at its end a run is never taken ahead of another, where it would wait with a worker that dies
                    "task_acks_late": True,
                    "worker_prefetch_multiplier": 1,
                    # what a dead worker held is given to another one; living ones renew what they hold (hub_workers)
                    "broker_transport_options": {
                        "visibility_timeout": HELD_SECONDS,
                        "unacked_restore_interval": 10,
                        "unacked_restore_throttle": 1,
                    },
                },
            },
        },
        "concurrency": {"pools": {"granularity": "run", "default_limit": _RUNS}, "runs": {"max_concurrent_runs": _RUNS}},
        # a worker that is gone is worth another run; what it had not committed nobody sees
        "run_monitoring": {
            "enabled": True,
            "poll_interval_seconds": 10,
            "start_timeout_seconds": _START_SECONDS,
            "max_resume_run_attempts": 0,
        },
        "run_retries": {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False},
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"},
        "retention": {"sensor": {"purge_after_days": _TICK_DAYS}, "schedule": {"purge_after_days": _SCHEDULE_DAYS}},
    }


def workspace() -> dict[str, Any]:
    """Return the workspace with the hub's code location alone."""
    return {"load_from": [{"python_module": {"module_name": LOCATION, "location_name": "hub"}}]}


def compose(image: str) -> dict[str, Any]:
    """Return a Compose file: PostgreSQL, Redis, Dagster's web server and daemon, and workers (``--scale worker=4``)."""
    environment = {
        "DAGSTER_HOME": _HOME,
        DATABASE: f"postgresql+psycopg2://hub:{_PASSWORD}@postgres/hub",
        BROKER: "redis://redis:6379/0",
        BUCKET: f"${{{BUCKET}:?}}",
        IDENTITY: f"${{{IDENTITY}:-}}",
    }
    ready = {"postgres": {"condition": "service_healthy"}, "redis": {"condition": "service_started"}}

    def process(*words: str, **more: Any) -> dict[str, Any]:
        return {
            "build": ".",
            "image": image,
            "command": list(words),
            "environment": environment,
            "env_file": ["credentials.env"],
            # the file with the team's key has its path of this machine in the container too; nothing where none is named
            "volumes": [f"${{{IDENTITY}:-/dev/null}}:${{{IDENTITY}:-{_NO_KEY}}}:ro"],
            "depends_on": ready,
            "restart": "unless-stopped",
            **more,
        }

    return {
        "services": {
            "postgres": {
                "image": "postgres:17",
                "environment": {"POSTGRES_USER": "hub", "POSTGRES_DB": "hub", "POSTGRES_PASSWORD": _PASSWORD},
                "volumes": ["history:/var/lib/postgresql/data"],
                "healthcheck": {"test": ["CMD-SHELL", "pg_isready -U hub"], "interval": "5s", "timeout": "3s", "retries": 20},
                "restart": "unless-stopped",
            },
            "redis": {"image": "redis:7", "restart": "unless-stopped"},
            "webserver": process(
                *("dagster-webserver", "-h", "0.0.0.0", "-p", str(_PORT), "-w", f"{_HOME}/workspace.yaml"),  # noqa: S104 - inside its container
                # behind whatever asks for a password: Dagster's page has none
                ports=[f"127.0.0.1:{_PORT}:{_PORT}"],
            ),
            "daemon": process("dagster-daemon", "run", "-w", f"{_HOME}/workspace.yaml"),
            "worker": process("ctx", "hub", "worker", stop_grace_period="60s"),
        },
        "volumes": {"history": {}},
    }


def helm(image: str) -> dict[str, Any]:
    """Return values for Dagster's own Helm chart.

    The secret ``ctx-hub`` holds the bucket's address and credentials, ``ctx-hub-key`` the team's private key where members share raw.
    """
    repository, _, tag = image.rpartition(":")
    if not repository or "/" in tag:  # no tag: what follows the colon, if there is one, is the port of a registry
        repository, tag = image, "latest"
    # as Kubernetes does by itself; an image without a registry is one that was loaded into the nodes
    pulled = "Always" if tag == "latest" and "/" in repository else "IfNotPresent"
    picture = {"repository": repository, "tag": tag, "pullPolicy": pulled}
    secrets = [{"name": "ctx-hub"}]
    queue = {"queuedRunCoordinator": {"maxConcurrentRuns": _RUNS}}
    return {
        # the image's user may not listen on 80, the chart's own port; its probe asks where it says, not where the server is
        "dagsterWebserver": {
            "image": picture,
            "envSecrets": secrets,
            "service": {"port": _PORT},
            "readinessProbe": {"httpGet": {"path": "/server_info", "port": _PORT}},
        },
        "dagsterDaemon": {
            "image": picture,
            "envSecrets": secrets,
            "runCoordinator": {"enabled": True, "type": "QueuedRunCoordinator", "config": queue},
            "runMonitoring": {
                "enabled": True,
                "pollIntervalSeconds": 10,
                # a pod that waits for a node is not lost
                "startTimeoutSeconds": _START_SECONDS,
                "maxResumeRunAttempts": 0,
            },
            "runRetries": {"enabled": True, "maxRetries": 2, "retryOnAssetOrOpFailure": False},
        },
        "dagster-user-deployments": {
            "enabled": True,
            "deployments": [
                {
                    "name": "hub",
                    "image": picture,
                    "dagsterApiGrpcArgs": ["-m", LOCATION],
                    "port": 3030,
                    "envSecrets": secrets,
                    # pods of runs get them too
                    "volumes": [{"name": "team-key", "secret": {"secretName": "ctx-hub-key", "optional": True}}],
                    "volumeMounts": [{"name": "team-key", "mountPath": _KEY_FOLDER, "readOnly": True}],
                },
            ],
        },
        # a run is a pod of its own: the cluster is the pool of workers, and no broker is needed
        "runLauncher": {
            "type": "K8sRunLauncher",
            "config": {"k8sRunLauncher": {"imagePullPolicy": pulled, "envSecrets": secrets}},
        },
        "postgresql": {"enabled": True},
        "rabbitmq": {"enabled": False},
        "redis": {"enabled": False, "internal": False},
        "telemetry": {"enabled": False},
        "retention": {
            "enabled": True,
            "sensor": {"purgeAfterDays": dict.fromkeys(("skipped", "success", "failure", "started"), _TICK_DAYS)},
            "schedule": {"purgeAfterDays": _SCHEDULE_DAYS},
        },
    }


_DOCKERFILE = f"""FROM python:3.12-slim
# each build takes the newest; name versions here where two builds must be alike
# hadolint ignore=DL3013
RUN pip install --no-cache-dir {_PACKAGES}
ENV DAGSTER_HOME={_HOME} CTX_HOME=/var/lib/ctx HOME=/var/lib/ctx DAGSTER_DISABLE_TELEMETRY=1
RUN useradd --uid 1000 --create-home --home-dir /var/lib/ctx hub
COPY dagster.yaml workspace.yaml {_HOME}/
RUN chown -R hub {_HOME}
# by number: Kubernetes refuses a name where it must know that this is not root
USER 1000
WORKDIR {_HOME}
"""


def deploy(folder: Path, url: str, *, image: str = "ctx-hub:latest") -> list[Path]:
    """Write the files of a hub with workers into a folder, and return them.

    Raises UsageError for a folder in which one of them is already, an image that is no name, and a URL that is none.
    """
    import yaml

    class Spelled(yaml.SafeDumper):  # type: ignore[misc]
        """Writes what stands at several places at each of them."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as the base has it
            """Tell so of everything."""
            return True

    def written(value: dict[str, Any]) -> str:
        text: str = yaml.dump(value, Dumper=Spelled, sort_keys=False)
        return text

    if not re.fullmatch(r"[a-z0-9]+(?:[._/:-][a-zA-Z0-9]+)*", image):
        raise UsageError(f"{image!r} is no name of an image", hint="--image registry.example/ctx-hub:1")
    if there := [name for name in FILES if (folder / name).exists()]:
        raise UsageError(f"{folder} has a {there[0]} already", hint="name another folder, or move it away")
    files = Files(folder)
    texts = {
        "dagster.yaml": written(instance_settings()),
        "workspace.yaml": written(workspace()),
        "Dockerfile": _DOCKERFILE,
        "compose.yaml": written(compose(image)),
        "values.yaml": written(helm(image)),
        ".env": f"{BUCKET}={team_url(url)}\nHUB_PASSWORD=\n{IDENTITY}=\n",
        "credentials.env": "# of the bucket, where the machine has no role: AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...\n",
    }
    for name, text in texts.items():
        files.write(name, text.encode())
    return [folder / name for name in texts]
