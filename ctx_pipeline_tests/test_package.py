"""What the package is to those who import it: light, portable, layered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ctx_pipeline

ROOT = Path(__file__).resolve().parents[1]

_RESOLVE = """
import json, sys
blocked = json.loads(sys.argv[1])
for name in blocked:
    sys.modules[name] = None
import ctx_pipeline
found, broken = {}, {}
for name in sorted(ctx_pipeline._PUBLIC):
    before = "dspy" in sys.modules
    try:
        getattr(ctx_pipeline, name)
    except ImportError as error:
        broken[name] = str(error)
    if "dspy" in sys.modules and sys.modules["dspy"] is not None and not before:
        found[name] = True
print(json.dumps({"dspy": sorted(found), "broken": broken}))
"""

POSIX = ["fcntl", "grp", "posix", "pwd", "resource", "termios", "tty", "pty", "syslog", "_posixsubprocess", "_posixshmem"]


def resolved(*blocked: str) -> dict:
    done = subprocess.run([sys.executable, "-c", _RESOLVE, json.dumps(blocked)], capture_output=True, text=True, check=True, timeout=250)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.feature("package.dspy-lazy")
def test_every_name_but_the_callback_is_there_without_dspy():
    found = resolved("dspy", "litellm")

    assert set(found["broken"]) <= {"CtxRotCallback"}
    assert found["dspy"] == []


@pytest.mark.feature("package.portable")
def test_every_name_is_there_where_no_posix_module_is():
    found = resolved(*(name for name in POSIX if name not in ("posix", "_posixsubprocess")), "dspy")

    assert set(found["broken"]) <= {"CtxRotCallback"}
    assert len(ctx_pipeline._PUBLIC) > 30


@pytest.mark.slow
@pytest.mark.feature("package.layers")
def test_the_import_rules_hold_and_a_broken_one_is_found(tmp_path):
    def lint(folder: Path) -> subprocess.CompletedProcess[str]:
        tool = str(Path(sys.executable).with_name("lint-imports"))
        return subprocess.run([tool, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False, timeout=250)

    assert lint(ROOT).returncode == 0

    shutil.copytree(ROOT / "ctx_pipeline", tmp_path / "ctx_pipeline", ignore=shutil.ignore_patterns("__pycache__", "samples"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "ctx_pipeline" / "pricing" / "wrong.py").write_text("from ctx_pipeline import storage\n")
    broken = lint(tmp_path)
    assert broken.returncode == 1
    assert "ctx_pipeline.pricing.wrong -> ctx_pipeline.storage" in broken.stdout
