"""What a recorded command runs."""

from __future__ import annotations

import pytest

from ctx_pipeline.model.commands import command_text, steps


@pytest.mark.feature("signals.commands")
@pytest.mark.parametrize(
    ("command", "subject", "purpose"),
    [
        ("uv run --with x pytest -q tests/", "pytest", "test"),
        ("python -m pytest", "pytest", "test"),
        ("FOO=1 timeout 60 go test ./... 2>&1", "go test", "test"),
        ("npm run build -- --prod", "npm run build", "build"),
        ("npx tsc --noEmit", "tsc", "types"),
        ("mise run lint", "mise lint", "lint"),
        ("cargo clippy --all", "cargo clippy", "lint"),
        ("pip install -r requirements.txt", "pip install", "install"),
        ("python scripts/x.py", "python scripts/x.py", "run"),
        ("git push origin main", "git push", "other"),
        ("/usr/local/bin/ruff check .", "ruff", "lint"),
    ],
)
def test_wrappers_are_taken_off(command, subject, purpose):
    (found,) = steps(command)
    assert (found.subject, found.purpose) == (subject, purpose)


@pytest.mark.feature("signals.commands")
def test_a_line_is_split_outside_quotes():
    assert [s.subject for s in steps("cd /w && pytest -k 'a && b' | tail -3; echo done")] == ["pytest", "tail"]
    assert [s.subject for s in steps("cat > f <<'EOF'\npytest\nEOF")] == ["cat"]


@pytest.mark.feature("signals.commands")
def test_the_shell_around_a_command_is_not_the_command():
    assert command_text(["bash", "-lc", "pytest -q"]) == "pytest -q"
    assert command_text(["/bin/zsh -lc 'pytest -q'"]) == "pytest -q"
    assert command_text(["git", "commit", "-m", "two words"]) == "git commit -m 'two words'"
    assert command_text([]) == ""


@pytest.mark.feature("signals.commands")
def test_hostile_lines_end():
    for text in ("'" * 50_000, '"\\' * 50_000, "&" * 50_000, "a=" * 50_000, "(" * 50_000, "\\" * 50_001):
        assert isinstance(steps(text), tuple)
