"""The words of a command line as the programs get them."""

from __future__ import annotations

import pytest

from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.parsing import pieces


@pytest.mark.feature("facts.command-parts")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ('git log --format=\'%h "x"\' --grep="a b\\|c"', ("git", "log", '--format=%h "x"', "--grep=a b\\|c")),
        ('echo "say \\"hi\\" for \\$5"', ("echo", 'say "hi" for $5')),
        ("find . -name \\*.py \\;", ("find", ".", "-name", "*.py", ";")),
        ("cat my\\ file", ("cat", "my file")),
        ("gh pr create --body $'## A\\n- it\\'s'", ("gh", "pr", "create", "--body", "## A\n- it's")),
        ("type C:\\Users\\me\\a.txt", ("type", "C:\\Users\\me\\a.txt")),
        ("echo ''", ("echo", "")),
    ],
)
def test_quotes_and_escapes_are_taken_off(command, words):
    (piece,) = pieces(command)
    assert piece.words == words


@pytest.mark.feature("facts.command-parts")
def test_the_brackets_of_a_subshell_are_no_part_of_its_programs():
    assert [s.text for s in steps("(source .venv/bin/activate && pytest -x)")] == ["pytest -x"]
    assert [s.text for s in steps("(cd web; npm test) && make")] == ["npm test", "make"]
    assert [s.text for s in steps("echo $(date); ls $(pwd)")] == ["ls $(pwd)"]
