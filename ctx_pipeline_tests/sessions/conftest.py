"""A store with sessions of both agents that worked on one repository, and the commands over it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use, usage
from ctx_pipeline_tests.waiting import remove

WORK = "11111111-1111-4111-8111-111111111111"
LATER = "22222222-2222-4222-8222-222222222222"
KEY = "sk-ant-api03-" + "a1B2" * 10
FAILED = "Exit code 1\ntests/test_cart.py::test_sum FAILED\nE   assert 3 == 4\nshop/cart.py:12: AssertionError\n1 failed, 4 passed in 0.2s"


@dataclass(frozen=True)
class Shop:
    """The settings of the store, and the folders that the sessions worked in."""

    settings: Settings
    clone: Path
    other: Path
    """another clone of the same repository"""

    def ctx(self, monkeypatch: pytest.MonkeyPatch, *words: str, cwd: Path | None = None) -> Result:
        """Run a command in this process, in a folder of the repository."""
        for name, value in self.settings.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(cwd or self.clone)
        return CliRunner().invoke(cli, list(words))

    def json(self, monkeypatch: pytest.MonkeyPatch, *words: str, cwd: Path | None = None) -> Any:
        done = self.ctx(monkeypatch, *words, "--json", cwd=cwd)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


def repository(folder: Path, remote: str) -> Path:
    """Make the files by which a clone is known."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return folder


def worked(home: ClaudeHome, cwd: Path) -> None:
    """Write a session: asked, planned, read, changed, failed, was compacted, read again, mended, passed."""
    main = home.session(WORK, cwd=str(cwd), mark="w")
    main.prompt("Fix the sum of the cart in shop/cart.py so that discounts are taken off")
    steps = [("find the sum", "completed"), ("mend the sum", "in_progress"), ("write the changelog", "pending")]
    todos = [{"content": what, "status": how, "activeForm": what} for what, how in steps]
    main.call("t1", "TodoWrite", "ok", todos=todos)
    question = "Round to cents, or to whole euros?"
    main.call("t2", "AskUserQuestion", f'User has answered your questions: "{question}"="To cents".', questions=[{"question": question}])
    read = {
        "type": "text",
        "file": {"filePath": f"{cwd}/shop/cart.py", "content": "x\n" * 30, "numLines": 30, "startLine": 1, "totalLines": 30},
    }
    main.answer(tool_use("t3", "Read", file_path=f"{cwd}/shop/cart.py"), usages=[usage(1000, 20, written=9000)])
    main.result("t3", "x = 1\n" * 30, structured=read)
    main.call("t4", "Read", "y = 2\n" * 10, file_path=f"{cwd}/shop/prices.py")
    main.call("t5", "Edit", "done", file_path=f"{cwd}/shop/cart.py", old_string="a", new_string="b")
    main.call("t6", "Bash", FAILED, command="pytest -q", is_error=True, structured={"stdout": FAILED, "stderr": "", "interrupted": False})
    main.answer(text("shop/prices.py:7 - the rate is read from a string, not a number"), usages=[usage(100, 20, read=10_000, written=500)])
    main.compact(12_000, "The sum of the cart is being mended.")
    main.call("t7", "Read", "x = 1\n" * 30, file_path=f"{cwd}/shop/cart.py")
    main.call("t8", "Bash", "", command="echo 'v2' > CHANGELOG.md")
    main.call(
        "t9", "Bash", "5 passed in 0.1s", command="pytest -q", structured={"stdout": "5 passed in 0.1s", "stderr": "", "interrupted": False}
    )
    main.answer(text("The sum is mended."), usages=[usage(200, 30, written=4000)])
    main.save()


def codex_session(root: Path, cwd: Path) -> None:
    """Write a session of Codex in another clone: a patch and a secret."""
    patch = f"*** Begin Patch\n*** Update File: {cwd}/shop/cart.py\n@@\n-a\n+b\n*** End Patch"
    records = [
        codex.meta(0, cwd=str(cwd)),
        codex.context(1, cwd=str(cwd)),
        codex.event(2, "user_message", message=f"Add the key {KEY} to the settings of the shop and document it"),
        codex.item(3, "function_call", name="exec_command", call_id="c1", arguments=json.dumps({"cmd": "sed -n '1,20p' shop/cart.py"})),
        codex.item(4, "function_call_output", call_id="c1", output="x = 1\n" * 20),
        codex.item(5, "custom_tool_call", name="apply_patch", call_id="c2", input=patch),
        codex.item(6, "custom_tool_call_output", call_id="c2", output="Success. Updated the following files:\nM shop/cart.py\n"),
        codex.event(7, "agent_message", message="done", phase="final_answer"),
        codex.tokens(8, codex.usage(900, 0, 20), codex.usage(900, 0, 20)),
    ]
    codex.write(root, records)


def captured(folder: Path) -> Shop:
    """Return the store into which the homes below a folder were read."""
    environ = {
        "HOME": str(folder / "nobody"),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
        "TZ": "UTC",
    }
    settings = settings_module.load(environ)
    with open_store(settings) as store:
        ingest(store, settings)
    return Shop(settings, folder / "shop", folder / "elsewhere" / "shop")


def made(folder: Path) -> Shop:
    """Return a store with the two sessions and the clones that they ran in."""
    (folder / "nobody").mkdir(parents=True)
    clone = repository(folder / "shop", "git@example.com:acme/shop.git")
    other = repository(folder / "elsewhere" / "shop", "https://example.com/acme/shop")
    (clone / "docs").mkdir()
    worked(ClaudeHome(folder / "claude"), clone)
    codex_session(folder / "codex", other)
    return captured(folder)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The store, for tests that only read it."""
    return made(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, Path]:
    """A store that is read in once, and its copy."""
    folder = tmp_path_factory.mktemp("own")
    shop = made(folder / "now")
    shutil.copytree(folder / "now", folder / "before", symlinks=True)
    return shop, folder


@pytest.fixture
def own(pristine: tuple[Shop, Path]) -> Shop:
    """A store of the test's own, with its homes and clones as they were before any test."""
    shop, folder = pristine
    remove(folder / "now")
    shutil.copytree(folder / "before", folder / "now", symlinks=True)
    return shop
