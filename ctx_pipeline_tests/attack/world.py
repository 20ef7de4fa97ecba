"""A small store of the sample homes of which every trial gets a copy, and commands run in copies of one imported process."""

from __future__ import annotations

import io
import json
import os
import shutil
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


class Told(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both streams."""
        return self.out + self.err

    @property
    def crashed(self) -> bool:
        """Whether it ended with an error that is no sentence."""
        return self.code not in {0, 1, 2} or "Traceback (most recent call last)" in self.said


class World:
    """Homes and a store below one folder; the store is put back for each trial."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "store"
        self.kept = folder / "kept"
        self.environ = {
            "PYTHONDONTWRITEBYTECODE": "1",  # what is killed at a write would leave halves of compiled modules in the checkout
            "HOME": str(folder / "nobody"),
            "CTX_HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "CODEX_HOME": str(folder / "codex"),
            "TZ": "UTC",
            "DAGSTER_DISABLE_TELEMETRY": "1",
        }

    def make(self) -> None:
        """Copy the sample homes and run every stage twice; nothing is done where that was done before."""
        _import_all()
        if self.kept.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "nobody").mkdir(parents=True)
        for host in ("claude", "codex"):
            shutil.copytree(SAMPLES / host, self.folder / host)
        made = self.apart(lambda: [self.ctx("run"), self.ctx("run")])
        if any(told[0] for told in made):
            raise AssertionError(made)
        shutil.copytree(self.home, self.kept)

    def put_back(self) -> None:
        """Replace the store by the one that was kept, with its times."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.kept, self.home)

    def apart(self, do: Callable[[], Any]) -> Any:
        """Return what a function returns in a copy of this process, as JSON gives it back; a copy that dies is an AssertionError."""
        out, into = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(out)
                os.environ.update(self.environ)
                with os.fdopen(into, "w") as told:
                    json.dump(do(), told)
            except BaseException:  # noqa: BLE001 - a child must end, whatever it met
                traceback.print_exc()
                os._exit(70)
            os._exit(0)
        os.close(into)
        with os.fdopen(out) as told:
            text = told.read()
        _, status = os.waitpid(pid, 0)
        if status:
            raise AssertionError(f"the copy ended with {os.waitstatus_to_exitcode(status)}")
        return json.loads(text)

    def ctx(self, *words: str) -> Told:
        """Run a command in this process and return what it told; meant for what :meth:`apart` calls."""
        from ctx_pipeline.cli import root

        out, err = io.StringIO(), io.StringIO()
        code = 0
        with redirect_stdout(out), redirect_stderr(err):
            try:
                root.run(list(words))
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            except BaseException:  # noqa: BLE001 - a child must end, whatever it met
                code = 70
                traceback.print_exc()
        return Told(code, out.getvalue(), err.getvalue())


def _import_all() -> None:
    """Import what commands import, once; nothing of it starts a thread."""
    import duckdb  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from ctx_pipeline.cli import everyday, maintenance, run, search, sessions  # noqa: F401
    from ctx_pipeline.defs import launch  # noqa: F401
    from ctx_pipeline.pipeline import run as stages  # noqa: F401
