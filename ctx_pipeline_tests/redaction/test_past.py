"""What an older version stored in clear is gone from the whole store after the next run; raw alone is exact."""

import re
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.defs import launch
from ctx_pipeline.redaction import redactor, views
from ctx_pipeline.storage import open_store, session_notes
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories.stored_text import files_with

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MARKS = (SECRET[8:36], SECRET[8:36].lower())
"""what an index of words keeps of it: small letters, and beginnings once"""
COLORED = f"\x1b[01;31m\x1b[K{SECRET}\x1b[m\x1b[K"
NAMES = ("CTX_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "HOME")


def as_an_older_version(patch):
    """Make the detectors read text as it stands, as they did before views."""
    patch.setattr(views, "readings", lambda data, **_: iter(()))
    patch.setattr(views, "veiled", lambda data, starts: set())
    patch.setattr(redactor, "_ESCAPE", re.compile(rb"\\[nrtbf]\Z"))
    patch.setattr(redactor, "_VERSION", 1)


def write(home, number):
    session = home.session(f"{number:08d}-0000-4000-8000-000000000001", mark=f"m{number}")
    session.prompt(f"always open the door with a%3D{SECRET}")
    session.prompt(f"Fix the parser; from now on always call deploy with x{COLORED} before the tests, and never use npm here")
    session.call(f"toolu_{number}", "Bash", f"Error: token x{COLORED} was refused", command=f"printf 'x{COLORED}' | deploy", is_error=True)
    session.call(f"tooln_{number}", "Bash", "ok", command="npx deploy --dry")
    session.call(f"toole_{number}", "Edit", "ok", file_path=f"/home/dev/shop/x{COLORED}.py", old_string="a", new_string="b")
    check = f"pytest -q tests --door=a%3D{SECRET}"
    session.call(f"toolf_{number}", "Bash", "ModuleNotFoundError: No module named 'hinges'", command=check, is_error=True)
    session.call(f"tooli_{number}", "Bash", "Successfully installed hinges-1.0", command=f"pip install hinges --door=a%3D{SECRET}")
    session.call(f"toolp_{number}", "Bash", "3 passed in 0.1s", command=check)
    session.answer(build.text(f"I saw x{COLORED}"))
    session.prompt(f"No, that is wrong: use x{COLORED} instead, always")
    session.answer(build.text("Done."))
    session.plain("custom-title", customTitle=f"deploy x{COLORED}", sessionId=f"{number:08d}-0000-4000-8000-000000000001")
    session.save()


@pytest.mark.feature("redaction.past")
def test_the_next_run_takes_a_secret_out_of_every_file_that_an_older_version_wrote(environ, monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, environ[name])
    settings = settings_module.load(environ)
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    for number in range(3):
        write(home, number)
    with monkeypatch.context() as patch:
        as_an_older_version(patch)
        assert launch.run(settings).failed == []
    words = {
        "host": "claude",
        "session_id": "00000000-0000-4000-8000-000000000001",
        "kind": "report",
        "name": "r",
        "content": f"x{COLORED}",
    }
    with open_store(settings) as store:
        session_notes.write(store, session_notes.MADE, words, "person")
    before = files_with(settings.home, *MARKS, skip=("raw",))
    assert {name.split("/")[0] for name in before} >= {"lake", "serving", "site", "search.db", "session"}
    assert {name.split("/")[1] for name in before if name.startswith("lake/")} >= {"events", "readings", "candidates"}
    assert redactor.suspects([f"x{COLORED}"]) == [0]

    assert launch.run(settings).failed == []

    assert files_with(settings.home, *MARKS, skip=("raw",)) == []
    assert files_with(settings.home / "raw", SECRET)
    with open_store(settings) as store:
        assert [made.content for made in session_notes.made_of(store)] == ["x\x1b[01;31m\x1b[K[REDACTED:github-token]\x1b[m\x1b[K"]
    assert files_with(settings.home / "lake", "[REDACTED:github-token]")
