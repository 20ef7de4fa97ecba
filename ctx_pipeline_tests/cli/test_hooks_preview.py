"""``ctx hooks preview`` tells what the hooks tell, before they are installed, and leaves no trace."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.mining.lessons.failures import signature
from ctx_pipeline_tests.cli.test_hook import SHOP, TOLD, claude_prompt, hook, logged, memory, note, start, write

DENY = "`cargo deny check` fails with “error: no such command: `deny`”; `mise x cargo:cargo-deny -- cargo deny check` works."


def preview(ctx, *words, cwd=SHOP) -> str:
    return ctx("hooks", "preview", "--cwd", cwd, *words).stdout


@pytest.mark.feature("hooks.preview")
def test_a_preview_says_what_the_hook_says_afterwards_and_logs_nothing(ctx):
    write(ctx.store, memory("m-seed", TOLD), memory("m-ok", "run the checks with `make check`", status="accepted"))
    asked = "why does pytest report a missing fixture?"

    at_prompt, at_start = preview(ctx, asked), preview(ctx)

    assert not (ctx.store / "journal.db").exists()
    assert not (ctx.store / "hooks.log").exists()
    assert logged(ctx.environ) == []
    assert at_prompt.strip() == note(hook(ctx.environ, claude_prompt(asked))).strip()
    assert at_start.startswith(note(hook(ctx.environ, start(session_id="another")), "SessionStart").strip())
    assert ctx.json("hooks", "preview", "--cwd", SHOP, asked)["told"].strip() == at_prompt.strip()


@pytest.mark.feature("hooks.preview")
def test_a_start_without_accepted_lessons_says_which_settings_tell_more(ctx):
    write(ctx.store, memory("m-twice", TOLD, support=2))

    said = preview(ctx)
    assert f"nothing is told when a session starts in {SHOP}\n" in said
    assert "only lessons that you accepted are told" in said
    for command in ("ctx learn --ask", "ctx hooks install claude --start proven", "ctx hooks install claude --handoff"):
        assert command in said
    assert TOLD in preview(ctx, "--start", "proven")
    assert "--start nothing" in preview(ctx, "--start", "nothing")


@pytest.mark.feature("hooks.preview")
def test_a_command_and_its_failure_are_previewed(ctx):
    cure = {"resolution": "command", "failed": "cargo deny check", "did": ["mise x cargo:cargo-deny -- cargo deny check"]}
    cure["signature"] = signature("error: no such command: `deny`")
    write(ctx.store, memory("m-deny", DENY, status="accepted", structured=json.dumps(cure)))

    assert "mise x cargo:cargo-deny" in preview(ctx, "--at", "command", "cargo deny check")
    assert "mise x cargo:cargo-deny" in preview(ctx, "--at", "failure", "cargo deny check", "--printed", "error: no such command: `deny`")
    assert preview(ctx, "--at", "command", "cargo test").splitlines() == [
        f"nothing is told before this command in {SHOP}",
        "no lesson of this repository speaks of it: ctx learn lists them",
    ]
    assert "needs TEXT" in ctx("hooks", "preview", "--at", "command", ok=False).stderr
    assert "needs what the command printed" in ctx("hooks", "preview", "--at", "failure", "make", ok=False).stderr


@pytest.mark.feature("hooks.preview-place")
def test_a_preview_names_the_repository_that_it_speaks_for(ctx, tmp_path):
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "api").mkdir()
    for config, name in (("", str(folder)), ('[remote "origin"]\n\turl = git@github.com:acme/shop.git\n', "github.com/acme/shop")):
        (folder / ".git" / "config").write_text(config)
        shown = ctx("hooks", "preview", "--cwd", str(folder / "api"))

        assert f"nothing is told when a session starts in {name}\n" in shown.stdout
        assert shown.stderr.strip().endswith(f"previewed for {name}")
        assert ctx.json("hooks", "preview", "--cwd", str(folder / "api"))["repository"] == name
    assert ctx.json("hooks", "preview", "--cwd", SHOP)["repository"] is None
    outside = ctx("hooks", "preview", "--cwd", SHOP)
    assert (outside.stderr + outside.stdout).count("which is in no repository") == 1
