"""``--share``: a session written for others holds no private path, name, address or host."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

PRIVATE = re.compile(r"/Users/|/home/|marlowe|@acme\.io|buildbox")


@pytest.fixture
def told(ctx: Ctx) -> Ctx:
    folder = ctx.folder / "claude" / "projects" / "-home-marlowe-shop"
    folder.mkdir()
    said = "look at /home/marlowe/shop/app.py and /home/marlowe/clients/acme/plan.md; I am marlowe@acme.io on marlowe@buildbox ~ %"
    more = {"sessionId": "11111111-2222-4333-8444-555555555555", "cwd": "/home/marlowe/shop", "version": "2.1.0"}
    lines = [
        {"type": "user", "uuid": "u1", "timestamp": "2026-09-01T10:00:00Z", "message": {"role": "user", "content": said}},
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "timestamp": "2026-09-01T10:00:05Z",
            "message": {
                "id": "m1",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "Done, marlowe."}],
            },
        },
    ]
    (folder / "11111111-2222-4333-8444-555555555555.jsonl").write_text("".join(f"{json.dumps({**line, **more})}\n" for line in lines))
    ctx("sync")
    return ctx


@pytest.mark.feature("cli.share")
def test_a_session_is_shared_without_what_is_private_and_says_what_was_replaced(told: Ctx):
    whole = told("render", "11111111")
    shared = told("render", "11111111", "--share")
    many = told.json("export", "markdown", "out", "--share")
    told("export", "opentraces", "out.jsonl", "--share")
    plain = told("export", "markdown", "plain")

    said = told("render", "11111111", "--share", "-o", "shared.md")
    file = told.folder / "shared.md"

    assert file.read_text() == shared.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"\S+ \w+ in shared\.md\n", said.stdout)
    assert said.stderr == shared.stderr
    assert PRIVATE.search(whole.stdout)
    assert not PRIVATE.search(shared.stdout)
    assert "look at app.py and ~/…/plan.md; I am [email] on user@[host] ~ %" in shared.stdout
    assert re.search(r"replaced: .*home folders?.*mail address.*host name.*user name.*; look it over", shared.stderr)
    assert "\n- times in UTC\n" in shared.stdout, "which zone somebody lives in is not given away"
    assert re.search(r"^kept: addresses of repositories and organizations", shared.stderr, re.MULTILINE)
    written = list((told.folder / "out").rglob("*.md"))
    assert len(written) == len(many["files"]) == 7
    assert not any(PRIVATE.search(path.read_text()) for path in [*written, told.folder / "out.jsonl"])
    assert not any(PRIVATE.search(name) for name in many["files"])
    assert many["replaced"]["mail addresses"] == 2
    assert all(json.loads(line) for line in (told.folder / "out.jsonl").read_text().splitlines())
    assert "--share takes out private paths" in plain.stdout


@pytest.mark.feature("cli.written-out")
def test_a_session_is_written_into_a_pipe_or_the_standard_output_and_nothing_takes_their_place(told: Ctx):
    whole = told("render", "11111111").stdout
    before = Path("/dev/stdout").readlink()
    pipe, link, folder = told.folder / "pipe", told.folder / "link.md", told.folder / "kept.md"
    os.mkfifo(pipe)
    folder.write_text("kept")
    link.symlink_to(folder)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    told("render", "11111111", "-o", "pipe")
    reader.join(30)
    told("render", "11111111", "-o", "link.md")

    assert got == [whole]
    assert pipe.is_fifo()
    assert told("render", "11111111", "-o", "-").stdout == whole
    assert told("render", "11111111", "-o", "/dev/stdout").stdout == whole
    assert Path("/dev/stdout").readlink() == before
    assert folder.read_text() == "kept"
    assert (link.is_symlink(), link.read_text()) == (False, whole)
    assert told("render", "11111111", "-o", "new/", ok=False).returncode == 2
    assert not (told.folder / "new").exists()
    assert list(told.folder.glob("-")) == []
