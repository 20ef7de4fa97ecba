"""Code and output through a real client: parts of files, what is unchanged, hits, a tree, and what was shortened before."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import ctx_pipeline
from ctx_pipeline_tests.mcp_server.conftest import SECONDS, run
from ctx_pipeline_tests.mcp_server.test_answer_text import BUDGET, tokens, told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CART = '''"""A cart."""


class Cart:
    """Items and their sum."""

    def total(self, items):
        """Add the prices."""
        result = 0
        for item in items:
            result += item.price * item.count
        return result
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / ".git").mkdir()
    (folder / "src" / "cart.py").write_text(CART * 6)
    (folder / "src" / "pay.py").write_bytes(b"from cart import total\r\n\r\nfee = total\r\n")
    (folder / "tests" / "test_cart.py").write_text("def test_total():\n    assert total\n")
    (folder / "logo.bin").write_bytes(b"\0\1\2")
    (tmp_path / "secret.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@asynccontextmanager
async def reading(project: Path, environ, *words: str) -> AsyncIterator[Client]:
    args = ["-m", "ctx_pipeline", "mcp", "--tools", "read", *words]
    env = {**environ, "PYTHONPATH": str(Path(ctx_pipeline.__file__).parents[1])}
    with anyio.fail_after(SECONDS):
        async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=args, env=env, cwd=project))) as client:
            yield client


async def said(client: Client, tool: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is None
    return result.content[0].text


@pytest.mark.feature("mcp.read")
def test_a_file_is_given_exactly_and_the_second_time_in_a_line_or_a_diff(project, environ):
    path = project / "src" / "cart.py"

    async def conversation():
        async with reading(project, environ) as client:
            shown = (await client.list_tools()).tools
            assert sum(tokens(told(t)) for t in shown) <= BUDGET
            first = await said(client, "ctx_read", path="src/cart.py")
            assert first == f"src/cart.py 1-72 of 72\n{CART * 6}".rstrip("\n")
            again = await said(client, "ctx_read", path="src/cart.py")
            assert again.startswith("src/cart.py: unchanged since you read it: 72 lines, sha ")
            assert "\n" not in again
            assert await said(client, "ctx_read", path="src/cart.py", mode="full") == first
            path.write_text((CART * 6).replace("result = 0", "result = 1", 1))
            changed = await said(client, "ctx_read", path="src/cart.py")
            assert changed.startswith("src/cart.py diff\n")
            assert "-        result = 0\n+        result = 1" in changed
            lines = await said(client, "ctx_read", path="src/cart.py", first=9, last=10)
            assert lines == "src/cart.py 9-10 of 72\n        result = 1\n        for item in items:"
            drawn = await said(client, "ctx_read", path="src/cart.py", mode="signatures")
            assert "class pub Cart @L4-12" in drawn
            assert tokens(drawn) < 0.5 * tokens(CART * 6)
            assert "from cart import total\n\nfee" in await said(client, "ctx_read", path="src/pay.py")

    run(conversation)


@pytest.mark.feature("mcp.read")
def test_what_lies_outside_is_refused_unless_a_person_allowed_its_folder(project, environ):
    async def conversation():
        async with reading(project, environ) as client:
            for path in ("../secret.txt", str(project.parent / "secret.txt"), "link.txt", "logo.bin", "none.py", "src"):
                for tool, more in (
                    ("ctx_read", {"path": path}),
                    ("ctx_search", {"path": path, "pattern": "x"}),
                    ("ctx_tree", {"path": path}),
                ):
                    if (tool, path) in {("ctx_tree", "src"), ("ctx_search", "src"), ("ctx_search", "logo.bin"), ("ctx_search", "none.py")}:
                        continue
                    result = await client.call_tool(tool, more)
                    assert result.is_error, (tool, path)
                    assert "outside\n" not in result.content[0].text
        async with reading(project, environ, "--allow", str(project.parent)) as client:
            assert (await said(client, "ctx_read", path=str(project.parent / "secret.txt"))).endswith("outside")

    run(conversation)


@pytest.mark.feature("mcp.read")
def test_hits_stand_once_declarations_first_and_the_tree_counts_what_is_deep(project, environ):
    for n in range(60):
        (project / "src" / f"m{n}.py").write_text(f"needle_{n} = {n}\n")

    async def conversation():
        async with reading(project, environ) as client:
            hits = (await said(client, "ctx_search", pattern="total")).splitlines()
            assert hits[0] == "10 hits in 3 files"
            assert hits[1:3] == ["src/cart.py", " 7: def total(self, items):  (also in 5 more: src/cart.py:19)"]
            assert hits.index("tests/test_cart.py") > hits.index("src/pay.py")
            page = await said(client, "ctx_search", pattern=r"needle_\d+", regex=True)
            cursor = page.rsplit("more: cursor=", 1)[1]
            rest = await said(client, "ctx_search", pattern=r"needle_\d+", regex=True, cursor=cursor)
            both = page + rest
            assert sum(both.count(f"needle_{n} = {n}") > 0 for n in range(60)) == 60
            assert (await client.call_tool("ctx_search", {"pattern": "(", "regex": True})).is_error
            tree = await said(client, "ctx_tree", depth=1)
            assert " src/ (62 files)" in tree
            assert " test_cart.py" in await said(client, "ctx_tree", path="tests")

    run(conversation)


@pytest.mark.feature("mcp.read", "compression.shell-output")
def test_an_output_is_shortened_and_a_part_of_it_read_again(project, environ):
    output = "".join(f"tests/test_{n}.py::test_it PASSED\n" for n in range(80)) + "1 failed, 80 passed in 1s\n"

    async def conversation():
        async with reading(project, environ) as client:
            short = await said(client, "ctx_shell", command="pytest -v", output=output, exit_status=1)
            assert tokens(short) < 0.2 * tokens(output)
            assert "1 failed, 80 passed" in short
            handle = short.rsplit("ctx_recall ", 1)[1].partition(":")[0]
            assert "test_7.py::test_it PASSED" in await said(client, "ctx_recall", handle=handle, first=8, last=8)
            assert "test_70.py" in await said(client, "ctx_recall", handle=handle, pattern="test_70")
            refused = await client.call_tool("ctx_recall", {"handle": "../../x"})
            assert refused.is_error
            assert json.dumps(refused.model_dump(mode="json"))

    run(conversation)
