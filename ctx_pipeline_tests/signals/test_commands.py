"""What a recorded command runs."""

from __future__ import annotations

import pytest

from ctx_pipeline.shell.commands import command_text, found_nothing, steps
from ctx_pipeline.shell.files import below, files_changed


@pytest.mark.feature("signals.commands")
@pytest.mark.parametrize(
    ("command", "subject", "purpose"),
    [
        ("mise run lint-fix", "mise lint-fix", "lint"),
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
        ("git -C ../acme commit -m x", "git commit", "other"),
        ("npm --prefix web test", "npm test", "test"),
        ("pnpm --filter app test", "pnpm test", "test"),
        ("yarn workspace web test", "yarn test", "test"),
        ("cargo +nightly test", "cargo test", "test"),
        ("make -C sub -j 4 test", "make test", "test"),
        ("./gradlew :app:test", "gradlew :app:test", "test"),
        ("mvn -q -pl app test", "mvn test", "test"),
        ("python -W error -m pytest", "pytest", "test"),
        ("coverage run -m pytest", "pytest", "test"),
        ("python manage.py test", "manage.py test", "test"),
        ("uv run --directory web pytest", "pytest", "test"),
        ("uvx --from ruff ruff check", "ruff", "lint"),
        ("uv tool run ruff check", "ruff", "lint"),
        ("mise x -- cargo test", "cargo test", "test"),
        ("sudo -u sam nice -n 10 env -u X pytest", "pytest", "test"),
        ("bash -c 'pytest -q'", "pytest", "test"),
        ("bash -n scripts/release", "bash scripts/release", "lint"),
        ("python -m py_compile a.py", "py_compile", "lint"),
        ("(source .venv/bin/activate && pytest)", "pytest", "test"),
        ("for n in 1 2 3; do pytest -q; done", "pytest", "test"),
        ("while ! npm test; do sleep 1; done", "npm test", "test"),
        ("out=$(pytest -q 2>&1); echo $out", "pytest", "test"),
        ("pytest \\\n  -q", "pytest", "test"),
        ("# don't wait\npytest -q # at all; ls", "pytest", "test"),
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
def test_a_here_document_is_no_command_and_what_follows_it_is():
    assert [s.subject for s in steps("cat > f.py <<'EOF'\nmake\nEOF\npython f.py && pytest")] == ["cat", "python f.py", "pytest"]
    assert [s.subject for s in steps("cat <<A <<-B | sort\nmake\nA\nmake\n\tB\npytest")] == ["cat", "sort", "pytest"]
    assert [s.subject for s in steps("""git commit -m "$(cat <<'EOF'\nfix (a; make\nEOF\n)" && git push""")] == ["git commit", "git push"]
    assert [s.subject for s in steps('grep x <<< "$y" && pytest')] == ["grep", "pytest"]
    assert [s.subject for s in steps("python -c 'print(1<<20)' && pytest")] == ["python", "pytest"]
    assert [s.subject for s in steps("cat <<EOF\nmake\nnever closed")] == ["cat"]
    assert files_changed("cat <<'EOF' > src/a.py\nx > y\nEOF\ntouch b.py", "/w") == ("/w/src/a.py", "/w/b.py")


@pytest.mark.feature("signals.commands")
def test_branches_of_a_case_are_commands_and_their_patterns_are_none():
    assert [s.subject for s in steps("case $1 in\n a) pytest;;\n *) (cd x && make);;\nesac")] == ["pytest", "make"]


@pytest.mark.feature("signals.commands")
def test_a_one_behind_a_check_is_not_the_answer_of_a_search():
    assert found_nothing(["pytest -q && git diff"], 1) is False
    assert found_nothing(["cd x && grep -rn foo ."], 1) is True
    assert found_nothing(["pytest -q; grep -c x log"], 1) is True


@pytest.mark.feature("signals.commands")
def test_the_shell_around_a_command_is_not_the_command():
    assert command_text(["bash", "-lc", "pytest -q"]) == "pytest -q"
    assert command_text(["/bin/zsh -lc 'pytest -q'"]) == "pytest -q"
    assert command_text(["git", "commit", "-m", "two words"]) == "git commit -m 'two words'"
    assert command_text([]) == ""


@pytest.mark.feature("signals.commands")
def test_hostile_lines_end():
    for text in (
        "'" * 50_000,
        '"\\' * 50_000,
        "&" * 50_000,
        "a=" * 50_000,
        "(" * 50_000,
        "\\" * 50_001,
        "<<A\n" * 20_000,
        "`)" * 30_000,
        "x=$(" * 20_000,
        "git -C " * 9_000,
    ):
        assert isinstance(steps(text), tuple)


@pytest.mark.feature("signals.commands")
def test_where_a_program_prints_its_errors_makes_no_other_command():
    assert [s.text for s in steps("mise run lint 2>&1")] == [s.text for s in steps("mise run lint")]
    assert [s.text for s in steps("uv run pytest -q 2>&1 | tail -3")] == ["uv run pytest -q", "tail -3"]
    assert steps("pytest -q > out.txt 2>&1")[0].text == "pytest -q > out.txt"


@pytest.mark.feature("signals.commands")
def test_a_name_that_holds_its_folder_already_is_not_put_below_it_again():
    assert below("tree/docs", "tree/docs/a.md") == "tree/docs/a.md"
    assert below("/w", "docs/a.md") == "/w/docs/a.md"
    assert below("/w/", "/w/a.md") == "/w/a.md"
