"""Stories of code that is not formatted: what rewrote it before is told, whichever formatter finds it and in whatever words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ctx_pipeline_tests.factories.story import ran, said
from ctx_pipeline_tests.learning.test_stories import GIT, failed, story

__all__ = ["story"]

FOUND = {
    "ruff format --check .": "Would reformat: shop/cart.py\n1 file would be reformatted, 12 files already formatted",
    "black --check src": "would reformat /code/shop/src/cart.py\n\nOh no!\n1 file would be reformatted.",
    "npx prettier --check src": "[warn] src/cart.ts\n[warn] Code style issues found in the above file. Run Prettier with --write to fix.",
    "npx biome check": "src/cart.ts format \n\n  \u00d7 Formatter would have printed the following content:\n\nFound 1 error.",
    "just check": "Diff in /code/shop/src/cart.rs:12:\n-    let a = f( 1 );\n+    let a = f(1);",
    "golangci-lint run": "cart.go:12:1: File is not properly formatted (gofmt)\n\tx := 1\n^\n1 issues:\n* gofmt: 1",
    "mix format --check-formatted": "** (Mix) not formatted\nThe following files are not formatted:\n\n  * lib/cart.ex",
}


@pytest.mark.feature("learn.formatting")
def test_what_formats_a_project_is_told_where_a_check_finds_it_unformatted(story):
    for _ in range(2):
        story.day(said("tidy"), ran("just fmt", "3 files formatted"), ran("just lint", "All checks passed!"))
    story.learn()
    assert [c for c, output in FOUND.items() if "`just fmt`" not in failed(story, c, output)] == []
    others = {
        "ruff check .": "shop/cart.py:4:1: F821 Undefined name `x`\nFound 1 error.",
        "just test": "E   AssertionError: assert 'would reformat' == 'Diff in'\n1 failed in 0.1s",
        "cargo test": "---- formats ----\nDiff in /code/shop/a.rs:3:\n-a\n+b\ntest result: FAILED. 1 passed; 1 failed",
        "pytest -q": "Captured stdout call\nWould reformat: a.py\nFAILED tests/test_fmt.py::test_one - AssertionError\n1 failed in 0.1s",
        "cargo fmt -- --check": "error: unexpected closing delimiter: `}`\nError writing files: failed to resolve mod `cart`",
        "npx prettier --check src": "[error] src/cart.ts: SyntaxError: ';' expected. (4:2)\nAll matched files use Prettier code style!",
    }
    assert [c for c, output in others.items() if failed(story, c, output)] == []


@pytest.mark.feature("learn.formatting")
def test_what_ended_a_failure_on_formatting_is_told_at_the_next_one_of_another_file(story):
    red = "src/a.ts format \n\n  \u00d7 Formatter would have printed the following content:\n\nFound 1 error."
    story.day(
        said("go on"), ran("npm run check", red, 1), ran("npm run format", "Formatted 1 file."), ran("npm run check", "Checked 9 files.")
    )
    story.learn()
    note = failed(story, "npm run check", red.replace("src/a.ts", "src/pay/b.ts"))
    assert "`npm run check` fails on formatting until `npm run format` has run" in note


@pytest.mark.feature("learn.formatting")
@pytest.mark.parametrize("command", ["npm --prefix web run format", "(cd web && npm run format)"])
def test_what_formats_a_part_of_a_project_is_told_for_that_part_alone(story, command):
    for _ in range(2):
        story.day(said("tidy"), ran(command, "1 file formatted"), ran(command.replace("format", "lint"), "ok"))
    story.learn()
    red = FOUND["npx prettier --check src"]
    assert "npm" in failed(story, "npm --prefix web run check", red)
    assert failed(story, "cd server && npx prettier --check src", red) == failed(story, "npx prettier --check src", red) == ""


@pytest.mark.feature("learn.formatting")
def test_what_formats_a_folder_in_which_sessions_began_is_told_there_and_below_alone(story):
    subprocess.run(["git", "init", "-q", story.folder], check=True, env=GIT)
    web = Path(story.folder) / "web"
    (web / "src").mkdir(parents=True)
    for _ in range(2):
        story.day(said("tidy"), ran("npm run format", "1 file formatted"), ran("npm run lint", "ok"), folder=web)
    red = "src/a.ts format \n\n  \u00d7 Formatter would have printed the following content:\n\nFound 1 error."
    formatted = ran("npm run format", "Formatted 1 file.")
    story.day(said("go on"), ran("npm run check", red, 1), formatted, ran("npm run check", "Checked 9 files."), folder=web).learn()
    places = [str(web), str(web / "src"), story.folder]
    assert [failed(story, "npx biome check", red, cwd=place) != "" for place in places] == [True, True, False]
    assert ["fails on formatting until" in failed(story, "npm run check", red, cwd=place) for place in places] == [True, True, False]


@pytest.mark.feature("learn.formatting")
def test_a_formatter_of_other_kinds_of_files_is_not_told(story):
    for _ in range(2):
        story.day(said("tidy"), ran("uv run ruff format .", "1 file reformatted"), ran("uv run ruff check .", "All checks passed!"))
    story.learn()
    assert "`uv run ruff format .`" in failed(story, "ruff format --check .", FOUND["ruff format --check ."])
    assert [c for c in ("npx prettier --check src", "just check", "golangci-lint run") if failed(story, c, FOUND[c])] == []


@pytest.mark.feature("learn.formatting")
def test_what_formatted_one_file_is_not_told_where_another_one_is_not_formatted(story):
    red = "src/a.ts format \n\n  \u00d7 Formatter would have printed the following content:\n\nFound 1 error."
    cure = ran("npx biome format --write src/a.ts", "Formatted 1 file.")
    story.day(said("go on"), ran("npm run check", red, 1), cure, ran("npm run check", "Checked 9 files."))
    story.learn()
    assert "src/a.ts" in failed(story, "npm run check", red)
    assert failed(story, "npm run check", red.replace("src/a.ts", "src/pay/b.ts")) == ""
