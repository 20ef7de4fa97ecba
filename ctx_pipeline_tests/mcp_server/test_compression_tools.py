"""Agents measure and shorten files of the project in which the server was started, and what they had in their window."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest

from ctx_pipeline_tests.mcp_server.conftest import Home, over_stdio, run
from ctx_pipeline_tests.mcp_server.test_tools import asked, refused

SECRET = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
pytestmark = pytest.mark.feature("mcp.documented-names")


@pytest.fixture(scope="module")
def project(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The store of all tests, and a server that is started in a project."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "cart.py").write_text(
        f'KEY = "{SECRET}"\ndef total(prices: list[int]) -> int:\n    """Add up."""\n    return sum(prices)\n' * 3
    )
    outside = tmp_path_factory.mktemp("outside") / "keys.py"
    outside.write_text("def keys(): pass\n")
    (folder / "link.py").symlink_to(outside)
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=60, env={"PATH": os.environ["PATH"], "HOME": str(folder)})
    return replace(home, folder=folder)


LITTLE = "# what is counted\nx = 1  # one\n"


def test_files_of_the_project_are_measured_shortened_and_benchmarked(project: Home):
    async def conversation():
        async with over_stdio(project) as client:
            made = await asked(client, "ctx_compress", paths=["cart.py"])
            assert made["text"].startswith("CTX CHECKPOINT (1 file)\nF1 cart.py [12L]: ")
            assert "total(prices:list[int])" in made["text"]
            assert made["files"] == [{"path": "cart.py", "tokens": made["raw_tokens"]}]
            whole = await asked(client, "ctx_compress", paths=["cart.py"], form="aggressive")
            assert "[REDACTED:" in whole["text"]
            assert SECRET not in whole["text"]
            found = await asked(client, "ctx_analyze", path="cart.py")
            assert (found["language"], found["lines"]) == ("python", 12)
            assert [row["form"] for row in found["forms"]][-1] == "cache hit"
            told = await asked(client, "ctx_benchmark", format="json")
            assert [one["path"] for one in told["value"]["files"]] == ["cart.py"]
            page = await asked(client, "ctx_benchmark", path="cart.py", action="file")
            assert page["text"].startswith("# Benchmark: cart.py (12 lines, ")
            # timing each form again takes twice as long as all the rest, and a model has no use for it
            assert "| form | tokens | saved | quality |\n" in page["text"]

    run(conversation)


@pytest.mark.feature("mcp.no-longer")
def test_a_text_that_cannot_be_shortened_is_answered_as_it_is_and_a_long_one_in_pages(project: Home):
    words = "".join(f"{n * 7919 % 1_000_003} words of line {n}\n" for n in range(4_000))
    (project.folder / "plain.txt").write_text("One line of words, which nothing makes shorter.\n")
    (project.folder / "long.txt").write_text(words)
    (project.folder / "little.py").write_text(LITTLE)

    async def conversation():
        async with over_stdio(project, "--tools", "all") as client:
            plain = await client.call_tool("ctx_compress", {"paths": ["plain.txt"], "form": "aggressive"})
            assert plain.content[0].text == "One line of words, which nothing makes shorter.\n"
            for form in ("aggressive", "best", "map"):
                little = await client.call_tool("ctx_compress", {"paths": ["little.py"], "form": form})
                assert little.content[0].text == LITTLE, "the form saves a few tokens, and less than its figures cost"
            long = {"paths": ["long.txt"], "form": "aggressive"}
            first = await client.call_tool("ctx_compress", long)
            begun, _, cursor = first.content[0].text.rpartition("\nmore: cursor=")
            rest = await client.call_tool("ctx_compress", {**long, "cursor": cursor})
            assert begun + rest.content[0].text == words

    run(conversation)
    for name in ("plain.txt", "long.txt", "little.py"):
        (project.folder / name).unlink()


def test_a_checkpoint_tells_of_declarations_of_every_kind(project: Home):
    (project.folder / "kinds.py").write_text(
        "class Cart:\n    @property\n    def total(self) -> int:\n        return 1\n\n    def add(self, n: int) -> None:\n        pass\n"
    )
    (project.folder / "page.css").write_text(".cart {\n  color: red;\n}\n")
    (project.folder / "main.tf").write_text('resource "aws_s3_bucket" "logs" {\n  bucket = "logs"\n}\n')

    async def conversation():
        async with over_stdio(project) as client:
            made = await asked(client, "ctx_compress", paths=["kinds.py", "page.css", "main.tf"])
            assert "prop pub Cart.total:int" in made["text"]
            assert ".cart" in made["text"]
            assert "aws_s3_bucket logs" in made["text"]

    run(conversation)
    for name in ("kinds.py", "page.css", "main.tf"):
        (project.folder / name).unlink()


def test_nothing_outside_the_project_is_read(project: Home):
    async def conversation():
        async with over_stdio(project) as client:
            for path in ("../outside0/keys.py", "/etc/passwd", "link.py", "none.py", "\0"):
                code, message = await refused(client, "ctx_analyze", path=path)
                assert code == "UsageError"
                assert "keys()" not in message
            for tool, arguments in [("ctx_compress", {"paths": [".."]}), ("ctx_benchmark", {"path": "..", "action": "project"})]:
                assert (await refused(client, tool, **arguments))[0] == "UsageError"
            whole = await asked(client, "ctx_compress", paths=["."])
            assert "keys" not in json.dumps(whole["text"])

    run(conversation)


def test_without_paths_it_is_the_window_of_the_session_that_asks(project: Home):
    session = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"

    async def conversation():
        async with over_stdio(project, CLAUDE_CODE_SESSION_ID=session) as client:
            made = await asked(client, "ctx_compress")
            named = await asked(client, "ctx_compress", session_id=f"claude:{session[:8]}", at="turn:1")
        assert made["session"]["session_id"] == named["session"]["session_id"] == session
        assert made["text"].startswith("CTX CHECKPOINT (")
        assert named["session"]["reads"] <= made["session"]["reads"]

    run(conversation)


@pytest.mark.feature("mcp.text-answers")
def test_a_folder_without_files_is_said_and_not_measured(project: Home):
    (project.folder / "nothing").mkdir(exist_ok=True)

    async def conversation():
        async with over_stdio(project) as client:
            for action in ({}, {"action": "project", "format": "json"}):
                assert await refused(client, "ctx_benchmark", path="nothing", **action) == (
                    "NothingFound",
                    "NothingFound: nothing: no file to measure\nname a folder with source files",
                )
            assert (await refused(client, "ctx_compress", paths=["nothing"]))[1] == "NothingFound: no text file in nothing\nname files"

    run(conversation)


@pytest.mark.feature("mcp.text-answers")
def test_a_checkpoint_names_its_files_once(project: Home):
    async def conversation():
        async with over_stdio(project, "--tools", "all") as client:
            told = (await client.call_tool("ctx_compress", {"paths": ["cart.py"]})).content[0].text
            assert told.count("cart.py") == 1
            assert "raw_tokens" not in told

    run(conversation)
