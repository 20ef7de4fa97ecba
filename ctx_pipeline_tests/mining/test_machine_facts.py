"""What one failure shows of a machine is told in every project of the person there, and in none of another one."""

from __future__ import annotations

import pytest

from ctx_pipeline.learning.at_act import after_failure, before_command, output_of
from ctx_pipeline.memory.scope import Place, visible
from ctx_pipeline_tests.mining.test_project_facts import day, lessons

SHOP, BLOG = "/home/ada/code/shop", "/home/ada/code/blog"
ZSH = "the shell here is zsh: a word with `*`, `?` or `[` that matches no file ends the command (“no matches found”); quote it"


def seen_at(memory, cwd: str, *identities: str) -> bool:
    return visible(memory.scope, memory.repository, memory.cwd, Place(cwd, (cwd,), identities))


@pytest.mark.feature("mining.machine-facts")
def test_the_shell_that_expands_a_word_is_told_of_one_failure_that_nothing_cured_in_every_project_of_the_machine():
    session = day("a", 1, cwd=SHOP, repository="github.com/ada/shop").shell(
        "deploy preview --only tag:*", exit=1, text="zsh:1: no matches found: tag:*"
    )
    (found,) = lessons("reme", session)
    assert found.text == f"{ZSH}: `'tag:*'`"
    assert [seen_at(found, cwd) for cwd in (SHOP, BLOG, "/home/eve/code/shop", "/srv/blog")] == [True, True, False, False]
    assert seen_at(found, "/home/ada/code/other", "github.com/ada/other")
    files = lessons("reme", day("b", 2, cwd=SHOP).shell("rg cart src .mise*", exit=1, text="zsh:1: no matches found: .mise*"))
    assert [m.text for m in files] == [f"{ZSH} where no files are meant"]
    again = "(eval):1: no matches found: origin/release-?"
    assert after_failure("git branch --list origin/release-?", again, BLOG, [found]) == [found]
    assert after_failure("make docs", again, BLOG, [found]) == []


@pytest.mark.feature("mining.machine-facts")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ls dist/*.json 2>/dev/null || echo none", "zsh:1: no matches found: dist/*.json\nnone"),
        ("cp -r build/* public/", "zsh:1: no matches found: build/*"),
        ("rg 'no matches found: tag' docs", "docs/shell.md:3: zsh:1: no matches found: tag:*"),
        ("cat notes.txt", "zsh:1: no matches found: tag:*"),
        ("sed -n /zsh/p notes.txt; deploy tag:*", "# notes\nzsh:1: no matches found: tag:*"),
        ("ssh build deploy tag:*", "zsh:1: no matches found: tag:*"),
        ("docker run shop deploy tag:*", "zsh:1: no matches found: tag:*"),
        ("zsh -c 'deploy tag:*'", "zsh:1: no matches found: tag:*"),
    ],
)
def test_files_that_are_not_there_texts_that_speak_of_it_and_other_shells_teach_nothing_of_the_shell(command, text):
    assert lessons("reme", day("a", 1, cwd=SHOP).shell("deploy tag:*", exit=1, text="zsh:1: no matches found: tag:*")) != []
    assert lessons("reme", day("a", 1, cwd=SHOP).shell(command, exit=1, text=text)) == []


@pytest.mark.feature("mining.machine-facts")
def test_what_a_command_printed_that_passed_and_a_word_that_was_quoted_for_another_machine_teach_nothing_of_the_shell():
    refusal = "zsh:1: no matches found: tag:*"
    assert lessons("reme", day("a", 1, cwd=SHOP).shell("node docs.js tag:*", exit=1, text=refusal)) != []
    assert lessons("reme", day("a", 1, cwd=SHOP).shell("grep tag:* notes.txt", text=refusal)) == []
    assert lessons("reme", day("a", 1, cwd=SHOP).shell("node docs.js tag:*", text=f"docs\n{refusal}")) == []
    far = day("a", 1, cwd=SHOP).shell("ssh build deploy tag:*", exit=1, text=refusal)
    assert lessons("reme", far.shell("""ssh build deploy "'tag:*'" """, text="deployed")) == []


@pytest.mark.feature("mining.machine-facts")
def test_a_call_that_passed_quoted_is_shown_rather_than_a_word_of_a_later_session():
    cured = day("a", 1, cwd=SHOP).shell("gh api repos/a/b?ref=main", exit=1, text="zsh:1: no matches found: repos/a/b?ref=main")
    cured.shell("gh api 'repos/a/b?ref=main'", text="{}")
    later = day("b", 2, cwd=BLOG).shell("deploy preview tag:*", exit=1, text="zsh:1: no matches found: tag:*")
    found = lessons("reme", cured, later)
    assert {(m.text, m.cwd, m.support) for m in found} == {(f"{ZSH}: `gh api 'repos/a/b?ref=main'`", "/home/ada", 2)}


@pytest.mark.feature("hooks.after-failure")
def test_a_host_that_gives_no_status_shows_by_the_line_of_its_shell_that_the_command_was_not_run():
    answer = "Chunk ID: 1\nOutput:\nzsh:1: no matches found: tag:*\n"
    assert output_of({"tool_response": answer}) == answer
    assert output_of({"tool_response": "docs/shell.md: what zsh says is no matches found: x"}) == ""


@pytest.mark.feature("mining.absent-programs")
def test_a_program_that_two_sessions_looked_for_and_did_not_find_is_told_before_its_call_until_it_ran():
    looked = day("a", 1, cwd=SHOP).shell("command -v hadolint-x", exit=1, text="")
    again = day("b", 2, cwd=SHOP).shell("which hadolint-x || true", text="")
    (found,) = lessons("reme", looked, again)
    assert found.text == "`hadolint-x` is not installed here (`command -v hadolint-x` found nothing)"
    assert before_command("hadolint-x Dockerfile", [found]) == [found]
    assert before_command("docker build . && echo hadolint-x", [found]) == []
    assert lessons("reme", looked) == []
    assert lessons("reme", looked, again, day("f", 6, cwd=SHOP).shell("hadolint-x Dockerfile", text="ok")) == []
    there = day("c", 3, cwd=SHOP).shell("command -v hadolint-x", text="/usr/local/bin/hadolint-x")
    several = day("d", 4, cwd=SHOP).shell("command -v hadolint-x && command -v podman", exit=1, text="")
    elsewhere = day("e", 5, cwd=SHOP).shell("ssh build command -v hadolint-x", exit=1, text="")
    assert lessons("reme", there, several, several, elsewhere, elsewhere) == []


def absent(name: str, number: int, cwd: str = SHOP, repository: str | None = None):
    return day(name, number, cwd=cwd, repository=repository).shell("command -v hadolint-x", exit=1, text="Exit code 1")


@pytest.mark.feature("mining.absent-programs")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("command -v hadolint-x", "/usr/local/bin/hadolint-x"),
        ("brew install hadolint-x", "==> Pouring hadolint-x"),
        ("npm install -g hadolint-x@2", "added 1 package"),
        (".venv/bin/hadolint-x Dockerfile", "ok"),
        ("uv run hadolint-x Dockerfile", "ok"),
        ("source .venv/bin/activate && hadolint-x Dockerfile", "ok"),
    ],
)
def test_a_program_that_was_installed_found_or_run_by_another_way_is_not_called_absent(command, text):
    assert lessons("reme", absent("a", 1), absent("b", 2)) != []
    assert lessons("reme", absent("a", 1), absent("b", 2).shell(command, text=text)) == []
    assert lessons("reme", day("0", 0, cwd=SHOP).shell(command, text=text), absent("a", 1), absent("b", 2)) == []


@pytest.mark.feature("mining.absent-programs")
def test_a_program_is_called_absent_by_two_sessions_of_one_machine_that_each_looked_in_vain_and_said_once():
    shop = "github.com/ada/shop"
    assert lessons("reme", absent("a", 1, SHOP, shop), absent("b", 2, "/Users/ada/shop", shop)) == []
    assert lessons("reme", absent("a", 1), absent("fork", 1)) == []
    silent = [day(n, i, cwd=SHOP).shell("command -v hadolint-x", text="") for i, n in enumerate("ab")]
    assert lessons("reme", *silent) == []  # it ended well, so it found something
    called = day("c", 3, cwd=SHOP).shell("hadolint-x Dockerfile", exit=127, text="zsh: command not found: hadolint-x")
    (told,) = lessons("reme", absent("a", 1), absent("b", 2), called)
    assert told.text == "`hadolint-x` is not installed here (“zsh: command not found: hadolint-x”)"
