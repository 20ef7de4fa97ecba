"""Every example of the five systems' documents, listed in ``seed_examples.tsv`` with what became of it under our name.

An example that is a command or a call of a tool runs here, over the sample sessions; one that is a piece of
Python names the test that runs it. Where the documents lie beside the checkout the list is compared with them.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner

import ctx_pipeline
from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.cli.session.writing import act
from ctx_pipeline.mcp_server.server import build
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.context.test_seed_texts import bare

if TYPE_CHECKING:
    from collections.abc import Mapping

TESTS = Path(__file__).resolve().parent
SEEDS = TESTS.parents[1] / "shared" / "seeds"
CLAUDE = "c823d9cd-f224-448f-a457-16b4882b2710"
CODEX = "019a258d-2f4b-41ad-a3ec-8757026226bd"
LONG = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
NOTE = """---
id: pytest-policy
kind: tool_lesson
scope: global
status: accepted
risk: low
when_to_use: Use when editing tests.
---
Run pytest after changing retrieval. Link to [[debugging-policy]] when relevant.
"""
SHOP = {
    "auth.ts": "export function createUser(email: string, password: string): string {\n  return email;\n}\n",
    "middleware.ts": "export const JWT_SECRET = 'x';\nexport function auth(req: Request) {\n  return req;\n}\n",
    "db.py": "class Database:\n    def query(self, sql: str) -> list[str]:\n        return [sql]\n",
}


class Example(NamedTuple):
    """A line of the list."""

    id: str
    example: str
    ours: str
    outcome: str
    why: str


def listed(kind: str = "", seed: str = "") -> list[Example]:
    """Return the examples of a document whose way begins with a word."""
    lines = (TESTS / "seed_examples.tsv").read_text("utf-8").splitlines()[1:]
    rows = [Example(*line.split("\t")) for line in lines]
    return [row for row in rows if row.ours.startswith(kind) and row.id.startswith(seed)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample sessions and a small project, in a folder of their own."""
    folder = tmp_path_factory.mktemp("seeds")
    samples = Path(ctx_pipeline.__file__).parent / "samples"
    for host in ("claude", "codex"):
        shutil.copytree(samples / host, folder / host, copy_function=shutil.copy)
    for name, text in (
        ("nobody/.keep", ""),
        ("notes/policy.md", NOTE),
        ("shop/.git/HEAD", ""),
        *((f"shop/{n}", t) for n, t in SHOP.items()),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    for name in (".config/claude", "backup", "codex-exec-logs"):
        (folder / "nobody" / name).mkdir(parents=True)
    return folder


@pytest.fixture
def environ(home: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The environment of a person who works in the folder, with the sample sessions captured."""
    made = {
        "HOME": str(home / "nobody"),
        "CTX_HOME": str(home / "store"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "TZ": "UTC",
    }
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    if not (home / "store").exists():
        settings = settings_module.load(made)
        with open_store(settings) as store:
            ingest(store, settings)
    return made


def typed(words: str, home: Path) -> tuple[dict[str, str], list[str]]:
    """Return the variables and the words of a command as the list writes it."""
    said = words.format(claude=CLAUDE, codex=CODEX, long=LONG, home=home / "nobody", claude_home=home / "claude", codex_home=home / "codex")
    variables = {}
    parts = shlex.split(said)
    if parts[0] == "env":
        count = parts.index("ctx")
        variables = dict(part.split("=", 1) for part in parts[1:count])
        parts = parts[count:]
    return variables, parts[1:]


@pytest.mark.slow
@pytest.mark.feature("docs.seed-examples", "cli.retro-commands")
def test_every_command_of_the_documents_does_its_work_under_our_name(home: Path, environ, monkeypatch: pytest.MonkeyPatch):
    failed, silent, printed = {}, set(), {}
    commands = [e for e in listed() if e.ours.startswith(("ctx ", "env "))]
    for example in commands:
        with monkeypatch.context() as patch:
            variables, words = typed(example.ours, home)
            for name, value in variables.items():
                patch.setenv(name, value)
            done = CliRunner().invoke(cli, words)
        printed[example.example] = done.stdout
        if done.exit_code:
            failed[example.id] = (words, done.output[-300:], repr(done.exception))
        if not done.stdout.strip():
            silent.add(example.id)

    assert failed == {}
    assert silent == set()
    assert len(commands) > 50
    assert "pytest-policy" in printed['retro memory retrieve --query "pytest retrieval" --cwd /path/to/repo']
    assert "Run pytest after changing retrieval." in printed['retro memory weave --query "pytest retrieval" --cwd /path/to/repo']
    assert "no checkpoint" in printed["LEAN_CTX_CHECKPOINT_INTERVAL=0"] or "interval" not in printed["LEAN_CTX_CHECKPOINT_INTERVAL=0"]
    assert "signatures" in printed["lean-ctx benchmark run [path]"]


@pytest.mark.slow
@pytest.mark.feature("docs.seed-examples")
def test_every_call_of_a_tool_of_the_documents_is_answered(home: Path, environ, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", CLAUDE)
    monkeypatch.chdir(home / "shop")
    server = build(settings_module.load(), lambda *_, **__: {}, act)
    answers: dict[str, str] = {}

    async def conversation() -> None:
        for example in listed("tool "):
            _, name, arguments = example.ours.split(" ", 2)
            told: dict[str, Any] = json.loads(arguments.replace("{long}", LONG))
            if name in ("ctx_compress", "ctx_analyze", "ctx_benchmark"):
                told = json.loads(json.dumps(told).replace('"shop/', '"').replace('"shop"', '"."'))
            result = await server.call_tool(name, told)
            assert not getattr(result, "is_error", False), (example, result)
            answers[example.example] = str(result)

    asyncio.run(conversation())
    assert len(answers) > 40
    assert "missing token refresh logic" in answers["ctx_session action=snapshot"]
    assert "Use refresh tokens with 7-day expiry" in answers["ctx_session action=restore"]
    assert "createUser" in answers["ctx_compress"]
    assert "createUser" not in answers["ctx_compress include_signatures=false"]


@pytest.mark.feature("docs.seed-examples")
def test_a_piece_of_python_names_the_test_that_runs_it():
    gone = []
    for example in listed("test "):
        path, name = example.ours.removeprefix("test ").split("::")
        body = ast.parse((TESTS / path).read_text("utf-8")).body
        if name not in {n.name for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}:
            gone.append(example.ours)
    assert gone == []


@pytest.mark.feature("docs.seed-examples")
def test_what_is_other_or_left_out_says_why():
    rows = listed()
    assert len({row.id for row in rows}) == len(rows) > 150
    assert {row.outcome for row in rows} == {"same", "differs", "left out"}
    assert [row.id for row in rows if row.outcome != "same" and not row.why] == []
    assert [row.id for row in rows if (row.outcome == "left out") != (row.ours == "")] == []
    assert {row.id.partition(".")[0] for row in rows} == {"ctxrot", "contextstore", "lean-ctx", "retro", "history"}


def fences(text: str) -> list[tuple[str, str]]:
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def documented(seed: str, text: str) -> list[str]:
    """Return what a document shows to be typed: commands, and the first line of each piece of Python."""
    if seed == "retro":
        shell = [re.sub(r"\s+#.*", "", line).strip() for lang, code in fences(text) if lang == "bash" for line in code.splitlines()]
        found = [" ".join(line.split()) if line.startswith("retro ") else line for line in shell if line and not line.startswith("#")]
        return [*found, *(code.splitlines()[0] for lang, code in fences(text) if lang == "python")]
    if seed == "contextstore":
        return [code.splitlines()[0] for _, code in fences(text)]
    if seed == "history":
        return [code.splitlines()[0] for code in bare(text)]
    if seed == "ctxrot":
        methods = re.findall(r"^(get_\w+|truncate_all|close|analyze_session|run_deep_analysis)$", text, re.MULTILINE)
        return [text[text.index("from ctxrot import (") :].splitlines()[0], *methods]
    words = r"ctx_\w+ (?:[a-z]+ \"[^\"]*\"|\w+=[^\n]*?|[a-z]+\.ts)(?= [A-Z]|\n|$)|lean-ctx benchmark (?:run|report) \[path\](?: --json)?"
    return re.findall(rf"^(?:\$ )?({words}|LEAN_CTX_\w+=\d+)", text, re.MULTILINE)


@pytest.mark.skipif(not SEEDS.is_dir(), reason="../shared/seeds is not beside this checkout")
@pytest.mark.feature("docs.seed-examples")
@pytest.mark.parametrize(
    ("seed", "number", "least"), [("ctxrot", 0, 12), ("contextstore", 1, 15), ("lean-ctx", 2, 18), ("retro", 3, 55), ("history", 4, 25)]
)
def test_nothing_that_a_document_shows_is_missing_from_the_list(seed: str, number: int, least: int):
    (path,) = SEEDS.glob(f"{number:03}_*.txt")
    known = [row.example for row in listed(seed=f"{seed}.")]
    shown = documented(seed, path.read_text("utf-8"))

    assert len(shown) >= least
    assert [line for line in dict.fromkeys(shown) if known.count(line) < shown.count(line)] == [] or seed == "lean-ctx"
    assert set(shown) - set(known) == set()
