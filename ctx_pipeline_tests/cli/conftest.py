"""Runs the real command as a process, with homes and a store of the test's own."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.shipped import copied, environment
from ctx_pipeline_tests.waiting import remove

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@dataclass
class Ctx:
    """``ctx`` with an environment of its own."""

    folder: Path
    environ: dict[str, str]

    @property
    def store(self) -> Path:
        return Path(self.environ["CTX_HOME"])

    def __call__(self, *words: str, ok: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        done = preloaded.run(words, env=self.environ, cwd=self.folder, stdin=stdin, seconds=250)
        if ok:
            assert done.returncode == 0, f"ctx {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)


@pytest.fixture
def bare(tmp_path: Path) -> Ctx:
    """No home anywhere, no store yet."""
    (tmp_path / "nobody").mkdir(exist_ok=True)
    env = {k: v for k, v in environment(tmp_path).items() if k not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
    return Ctx(tmp_path, env)


@pytest.fixture
def ctx(tmp_path: Path) -> Ctx:
    """Homes of this test's own (the sample ones), no store yet."""
    return Ctx(tmp_path, copied(tmp_path))


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Ctx:
    """A store of the sample homes after one run, and a copy of it beside."""
    folder = tmp_path_factory.mktemp("ran")
    ctx = Ctx(folder, copied(folder))
    ctx("run", "--json")
    shutil.copytree(ctx.store, folder / "as-it-was", symlinks=True)
    return ctx


@pytest.fixture(scope="module")
def ran(first_run: Ctx) -> Ctx:
    """The store after one run, as it was, for tests that only read."""
    return _as_it_was(first_run)


@pytest.fixture
def after_run(first_run: Ctx) -> Iterator[Ctx]:
    """The store after one run, as it was, for a test that changes the store and leaves the homes as they are."""
    yield _as_it_was(first_run)
    _as_it_was(first_run)


def _as_it_was(ctx: Ctx) -> Ctx:
    remove(ctx.store)
    shutil.copytree(ctx.folder / "as-it-was", ctx.store, symlinks=True)
    return ctx
