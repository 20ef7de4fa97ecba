"""Files with credentials in a home are opened by nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline_tests.factories.months import write_month

SECRETS = {
    "claude": [".credentials.json", "credentials.json", "auth.json", "projects/.credentials.json", ".env", "secrets/token"],
    "codex": ["auth.json", ".credentials.json", "sessions/auth.json", ".env", "log/codex-tui.log"],
}

WATCHED = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
homes = tuple(sys.argv[2].split(","))

def opened(event, values):
    if event == "open" and isinstance(values[0], (str, bytes)):
        name = os.fsdecode(values[0])
        if name.startswith(homes):
            os.write(log, name.encode() + b"\\n")

sys.addaudithook(opened)
from click.testing import CliRunner
from ctx_pipeline import settings
from ctx_pipeline.cli import cli
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store

for words in (["usage", "daily"], [], ["list"]):
    assert CliRunner().invoke(cli, words).exit_code == 0
chosen = settings.load()
with open_store(chosen) as store:
    run_stages(store, chosen)
for words in (["doctor"], ["list"], ["usage", "home"], ["hooks", "status"], ["doctor", "--formats"]):
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
"""


@pytest.mark.slow
@pytest.mark.feature("settings.secrets-unread")
def test_neither_capture_nor_usage_nor_the_doctor_opens_credentials(environ, tmp_path):
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1)
    planted = []
    for host, names in SECRETS.items():
        root = Path(environ["CLAUDE_CONFIG_DIR" if host == "claude" else "CODEX_HOME"])
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(json.dumps({"token": "hunter2-not-a-real-one"}))
            planted.append(str(root / name))
    homes = f"{environ['CLAUDE_CONFIG_DIR']},{environ['CODEX_HOME']}"
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "log"), homes]
    subprocess.run(command, env={"PATH": os.environ["PATH"], **environ}, check=True, timeout=250)
    opened = set((tmp_path / "log").read_text().splitlines())

    assert any(name.endswith(".jsonl") for name in opened), "the watch saw nothing"
    assert opened & set(planted) == set()
    held = [p for p in (tmp_path / "store").rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert held == []
