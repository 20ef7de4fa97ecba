"""``dagster.yaml``: ours where there is none; a person's own as it is, with what it does not name from ours. Dagster is not imported."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError
from ctx_pipeline.pipeline.repair.rebuild import set_aside
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings

NAME = "dagster.yaml"

RUNS_ENVIRONMENT = {"DAGSTER_DISABLE_TELEMETRY": "1", "DAGSTER_EVENT_BATCH_SIZE": "1000"}
"""What Dagster reads from the environment of a process that runs ours: events that come together are written together."""

_LASTING = """
# one SQLite file for all runs: half the time and a quarter of the disk of one file a run
event_log_storage:
  module: ctx_pipeline.defs.event_log
  class: KeptConnectionEventLog
  config:
    base_dir: {history}
run_storage:
  module: ctx_pipeline.defs.event_log
  class: KeptConnectionRuns
  config:
    base_dir: {history}
"""

_SEAL = "# ctx wrote the lines above and writes them again when they change; edit any, and the file is yours and stays: "

_PLACES = ("storage", "run_storage", "event_log_storage", "schedule_storage", "local_artifact_storage")
"""Where history lies: never put beneath a person's own settings, since Dagster's own commands would look elsewhere."""


def config_folder() -> Path:
    """Return the folder with ``dagster.yaml`` and ``workspace.yaml``: in the wheel, else the checkout's top."""
    packaged = Path(__file__).parent / "config"
    return packaged if (packaged / NAME).exists() else Path(__file__).parents[2]


def of_person(settings: Settings) -> Path | None:
    """Return the folder that ``DAGSTER_HOME`` names, where it is another one than the store's own."""
    named = settings.environ.get("DAGSTER_HOME", "").strip()
    found = Path(named).expanduser() if named else None
    return None if found is None or found.resolve() == (settings.home / "dagster").resolve() else found


def prepare_home(settings: Settings) -> Path:
    """Return the folder of the Dagster instance.

    That is the one of ``DAGSTER_HOME``, as it is: nothing in it is written by us. Without
    it, ``$CTX_HOME/dagster`` (0700) with our ``dagster.yaml``, unless a person wrote or edited it.
    """
    if (named := of_person(settings)) is not None:
        if not named.is_dir():
            raise StoreError(f"DAGSTER_HOME names {named}, which is no folder", hint=f"make it: mkdir -p {named}, or unset DAGSTER_HOME")
        return named.resolve()
    home = settings.home / "dagster"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.chmod(0o700)
    text = _ours(home).encode()
    found = _bytes(home / NAME)
    if found != text and (_sealed(found) or text.startswith(found.rstrip())):  # an earlier one of ours, or a part of it
        Files(settings.home).write(f"dagster/{NAME}", text)
    elif found != text and _damaged(found, text):
        sys.stderr.write(f"{home / NAME} cannot be read: it was set aside as {set_aside(home / NAME)} and written anew\n")
        Files(settings.home).write(f"dagster/{NAME}", text)
    return home


def in_force(home: Path) -> dict[str, Any] | None:
    """Return the settings that the processes of ``ctx`` run with, where they are not those of the file: a person's own over ours.

    Raises StoreError for a file that cannot be read; a person's own is never overwritten.
    """
    import yaml

    path = home / NAME
    found = _bytes(path)
    if not found and not path.exists():
        own: Any = None
    else:
        try:
            own = yaml.safe_load(found.decode())
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} cannot be read: {next(iter(str(error).splitlines()), '')}",
                hint="it is not the one that ctx writes, so it stays: fix it, or move it away and run again",
                path=str(path),
            ) from error
        if own is not None and not isinstance(own, dict):
            raise StoreError(f"{path} holds no settings", hint="it is not the one that ctx writes, so it stays: fix it, or move it away")
        if _sealed(found):
            return None
    ours = yaml.safe_load((config_folder() / NAME).read_text("utf-8"))
    return merged(own or {}, ours)


def merged(own: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return a person's settings with what they do not name from ours, but for where history lies and what Dagster refuses beside it."""
    beneath = {key: value for key, value in ours.items() if key not in _PLACES}
    limits = dict(beneath.get("concurrency", {}))
    if "run_queue" in own or "run_coordinator" in own:
        limits.pop("runs", None)
    if "default_op_concurrency_limit" in own.get("concurrency", {}):
        limits.pop("pools", None)
    return _over(own, beneath | {"concurrency": limits})


def _over(own: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(ours)
    for key, value in own.items():
        beneath = found.get(key)
        tables = isinstance(value, dict) and isinstance(beneath, dict) and not {"module", "class"} & (value.keys() | beneath.keys())
        found[key] = _over(value, beneath) if tables and isinstance(beneath, dict) else value
    return found


def _ours(home: Path) -> str:
    text = (config_folder() / NAME).read_text("utf-8") + _LASTING.format(history=json.dumps(str(home / "history")))
    return f"{text}\n{_SEAL}{_digest(text)}\n"


def _sealed(found: bytes) -> bool:
    """Tell whether a file is as some version of ours wrote it: no hand changed it."""
    above, seal, digest = found.decode("utf-8", "replace").rpartition(f"\n{_SEAL}")
    return bool(seal) and digest.strip() == _digest(above)


def _damaged(found: bytes, text: bytes) -> bool:
    """Tell whether a file was ours and can no longer be read."""
    import yaml

    first, last = text.splitlines()[0], text.splitlines()[-1]
    if not (found.startswith(first) or found.rstrip().endswith(last)):
        return False
    try:
        return not isinstance(yaml.safe_load(found.decode()), dict)
    except (yaml.YAMLError, UnicodeDecodeError):
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
