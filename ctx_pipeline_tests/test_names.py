"""Names of the package and sentences of the documentation: banned ones are refused, and the list of those that remain only shrinks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def check(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(root / ".ci" / "names.py"), *options], capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout with the real rules, in which one definition of a banned name is allowed."""
    (tmp_path / ".ci").mkdir()
    for name in ("names.py", "names.toml"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci" / name)
    (tmp_path / ".ci" / "names_left.tsv").write_text("function\t_told\t1\n")
    (tmp_path / "ctx_pipeline").mkdir()
    (tmp_path / "ctx_pipeline" / "prices.py").write_text("def _told(): ...\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Title\n\nA sentence that has at least eight words in it.\n")
    return tmp_path


@pytest.mark.feature("package.words", "docs.repeated")
def test_the_package_and_the_documentation_keep_the_rules():
    done = check(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.feature("package.words")
@pytest.mark.parametrize(
    ("module", "code", "refused"),
    [
        ("prices", "def _told(): ...\ndef _told(): ...\n", "function _told: 2 there, 1 allowed"),
        ("prices", "def _told(): ...\nclass DeedList: ...\n", "class DeedList: 1 there, 0 allowed; use: session fact"),
        ("prices", "class A:\n    async def kept(self): ...\ndef _told(): ...\n", "function kept: 1 there, 0 allowed"),
        ("tally", "def _told(): ...\n", "module tally: 1 there, 0 allowed; use: usage_rollup"),
    ],
)
def test_a_new_definition_with_a_banned_name_is_refused(module: str, code: str, refused: str, checkout: Path):
    (checkout / "ctx_pipeline" / "prices.py").rename(checkout / "ctx_pipeline" / f"{module}.py").write_text(code)

    done = check(checkout)

    assert done.returncode == 1
    assert refused in done.stdout


@pytest.mark.feature("package.words")
def test_an_entry_that_is_no_longer_needed_fails_until_the_list_is_shrunk_and_shrinking_allows_nothing_new(checkout: Path):
    (checkout / "ctx_pipeline" / "prices.py").write_text("def price(): ...\ndef bury(): ...\n")

    before, shrunk = check(checkout), check(checkout, "--shrink")

    assert before.returncode == 1
    assert "function _told: 1 allowed, 0 there" in before.stdout
    assert shrunk.stdout.splitlines() == ["function bury: 1 there, 0 allowed; use: tombstone"]
    assert (checkout / ".ci" / "names_left.tsv").read_text() == ""


@pytest.mark.feature("hosts.own-room")
@pytest.mark.parametrize(
    ("path", "code", "refused"),
    [
        ("prices.py", 'HOME = "~/.claude"\n', ["~/.claude"]),
        ("prices.py", 'def show(host):\n    """Codex has none."""\n    return host == f"Codex {host}"\n', ["Codex "]),
        ("prices.py", 'STOP = "[Request interrupted by user"\n', ["[Request interrupted by user"]),
        ("hosts/parrot.py", 'HOME = "~/.claude"\n', []),
        ("prices.py", "claude = codex = 1\n", []),
    ],
)
def test_a_text_of_code_that_names_a_host_or_holds_its_phrase_is_refused_outside_of_the_room_of_hosts(
    path: str, code: str, refused: list[str], checkout: Path
):
    there = checkout / "ctx_pipeline" / path
    there.parent.mkdir(exist_ok=True)
    there.write_text(code + "def _told(): ...\n")
    if path != "prices.py":
        (checkout / "ctx_pipeline" / "prices.py").unlink()

    done = check(checkout)

    wanted = [f"text {text!r}: 1 there, 0 allowed; let the host declare it" for text in refused]
    assert [line for line in done.stdout.splitlines() if line.startswith("text ")] == wanted
    assert done.returncode == bool(wanted)


@pytest.mark.feature("docs.repeated")
@pytest.mark.parametrize(
    ("page", "times"),
    [
        ("# Other\n\nFirst. a sentence that has at least eight words in it!\n", 1),
        ("| a | A sentence that has at least eight words in it. |\n", 1),
        ("```\nA sentence that has at least eight words in it.\n```\n", 0),
        ("A sentence that has eight words.\n", 0),
    ],
)
def test_a_sentence_of_eight_words_that_stands_on_two_pages_is_refused(page: str, times: int, checkout: Path):
    (checkout / "docs" / "page.md").write_text(page)

    done = check(checkout)

    assert done.stdout.count("said more than once, in README.md, docs/page.md") == times
    assert done.returncode == times
