"""Versions that follow the source: what counts as an edit, how far it reaches, and what is kept."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline.defs import launch
from ctx_pipeline.model import source_versions
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.model.tables import FACT_MAKERS
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.months import write_month

SHARED = '''"""What two use."""
import re

WORDS = ["no", "not"]
WORDS.append("never")
PATTERN = re.compile("|".join(WORDS))

def short(text: str) -> bool:
    """Tell."""
    return len(text) < 4  # letters

def clean(text):
    return text.strip()
'''
USERS = {
    "one": "from {0}.shared import short\n\ndef one(text):\n    return short(text)\n",
    "two": "from {0} import shared\n\ndef two(text):\n    return shared.clean(text)\n",
    "three": "def three(text):\n    from .shared import PATTERN as found\n    return found.search(text)\n",
    "four": "from functools import partial\nfrom {0}.one import one\n\ndef _inner(text):\n    return one(text)\n\nfour = partial(_inner)\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return what writes a file of a small package and then gives the versions of its four functions."""
    name = f"toy_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, text in {"__init__": "", "shared": SHARED, **{m: t.format(name) for m, t in USERS.items()}}.items():
        (folder / f"{module}.py").write_text(text)
    functions = {module: getattr(importlib.import_module(f"{name}.{module}"), module) for module in USERS}

    def edited(module="", old="", new=""):
        if module:
            path = folder / f"{module}.py"
            assert old in path.read_text()
            path.write_text(path.read_text().replace(old, new))
        source_versions.forget()
        return {module: version_of(function) for module, function in functions.items()}

    yield edited
    source_versions.forget()
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[module]


@pytest.mark.feature("staleness.source")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # letters", ""),
        ('    """Tell."""\n', ""),
        ("len(text) < 4", "(len(\n        text,\n    ) < 4)"),
        ("text: str) -> bool", "text: bytes) -> object"),
        ('"no", "not"', "'no', u'not'"),
        ('"""What two use."""', '"""Two use it."""'),
    ],
)
def test_comments_docstrings_layout_and_annotations_are_no_edit(package, old, new):
    before = package()
    assert package("shared", old, new) == before


@pytest.mark.feature("staleness.source")
@pytest.mark.parametrize(
    ("module", "old", "new", "reached"),
    [
        ("shared", "< 4", "< 5", {"one", "four"}),
        ("shared", ".strip()", ".rstrip()", {"two"}),
        ("shared", '"not"', '"none"', {"three"}),
        ("shared", '.append("never")', '.append("ever")', {"three"}),
        ("one", "short(text)", "not short(text)", {"one", "four"}),
        ("four", "one(text)", "one(text) or None", {"four"}),
    ],
)
def test_an_edit_reaches_those_that_use_the_edited_definition_and_nobody_else(package, module, old, new, reached):
    before = package()
    after = package(module, old, new)
    assert {name for name in before if before[name] != after[name]} == reached


@pytest.mark.feature("staleness.source")
def test_a_version_is_the_same_on_every_machine_and_python(tmp_path, monkeypatch):
    (tmp_path / "everywhere.py").write_text(
        "import re\n\n_WIDE = 7\n_ODD = 'é\\u2028\\ud800'\n\n\n"
        "def shown(rows: list[str], *rest, sep: str = ', ', **more) -> str:\n"
        '    """Say."""\n'
        "    match rows:\n        case [first, *_] if (n := len(first)) > 1e-3:\n            return f'{first!r:>{n}} {_WIDE=} {_ODD}' 'x'\n"
        "    try:\n        return sep.join(x for x in rows if not re.match(rb'\\d', x))\n"
        "    except* ValueError:\n        raise\n"
        "    finally:\n        async_ = lambda a, /, b=2**70, *, c=...: (a, b, c)\n        del async_\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert version_of(importlib.import_module("everywhere").shown) == "76f45b20fcb704bb"
    del sys.modules["everywhere"]


@pytest.mark.feature("staleness.source")
def test_rows_of_a_fact_table_are_input_of_those_that_read_it():
    found = discovery.signals()["command_count"]
    place = f"{found.function.__module__}:command_count"
    assert found.code_version == f"{found.version}.{version_of(found.function, place, given=[FACT_MAKERS['command_runs']])}"
    assert found.code_version != f"{found.version}.{version_of(found.function, place)}"


@pytest.mark.feature("staleness.source")
def test_only_edited_files_are_read_again_in_another_process(tmp_path, copied):
    script = (
        "from ctx_pipeline.model import source_versions as s\n"
        "from ctx_pipeline import discovery\n"
        "[f.code_version for f in discovery.families().values()]\n"
        "print(sorted(s._read_anew)); s.keep()"
    )
    command = [sys.executable, "-c", script]
    first, second = (copied(command).stdout for _ in range(2))
    path = copied.package / "signals" / "risk.py"
    path.write_text(f"{path.read_text()}\n_NEW = 1\n")
    assert "ctx_pipeline.shell.commands" in first
    assert second.strip() == "[]"
    assert copied(command).stdout.strip() == "['ctx_pipeline.signals.risk']"


@pytest.fixture
def copied(tmp_path, environ):
    """Return what runs a command over a copy of the package, which a test may edit."""
    package = tmp_path / "checkout" / "ctx_pipeline"
    shutil.copytree(Path(ctx_pipeline.__file__).parent, package, ignore=shutil.ignore_patterns("*.msgpack"))
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(launch.config_folder() / name, package.parent / name)
    environment = {**os.environ, **environ, "PYTHONPATH": str(package.parent)}

    def run(command):
        done = processes.run(command, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    run.package = package
    return run


@pytest.mark.feature("staleness.source")
def test_an_edited_signal_alone_is_stale_and_a_backfill_takes_its_readings_anew(copied, environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(root, "2026-03", 1)
    write_month(root, "2026-04", 2)
    ctx = [sys.executable, "-m", "ctx_pipeline"]
    values = [*ctx, "sql", "--json", "SELECT DISTINCT value FROM readings WHERE signal = 'user_message_count'"]
    stale = [*ctx, "status", "--json"]
    copied([*ctx, "run"])
    before = copied(values).stdout

    path = copied.package / "signals" / "activity.py"
    text = path.read_text()
    path.write_text("# of another day, and of another length than the edit below\n" + text)
    assert json.loads(copied(stale).stdout)["nothing_to_do"]

    assert "_count(e.event_id for e in view.prompts)" in text
    path.write_text(text.replace("for e in view.prompts)", "for e in view.prompts if e.seq > 1_000)"))
    report = json.loads(copied(stale).stdout)
    dirty = {a["asset"]: {c["reason"] for c in a["cells"]} for a in report["assets"] if a["filled_by"] == "run" and a["cells"]}
    assert dirty == {"signals/activity": {"new code version"}}
    assert "2 partitions filled" in copied([*ctx, "backfill", "--signal", "activity"]).stdout
    assert copied(values).stdout != before


@pytest.mark.feature("staleness.source", "launch.explain")
def test_a_run_after_an_edit_of_what_reports_keep_of_each_session_keeps_it_anew(copied, environ):
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1)
    ctx = [sys.executable, "-m", "ctx_pipeline"]
    count = (
        "from ctx_pipeline import settings\n"
        "from ctx_pipeline.sessions.reports import kept_figures\n"
        "from ctx_pipeline.storage import open_store\n"
        "chosen = settings.load()\n"
        "with open_store(chosen) as store: print(kept_figures.keep(store, chosen))"
    )
    copied([*ctx, "run"])
    assert copied([sys.executable, "-c", count]).stdout.strip() == "0"

    path = copied.package / "usage" / "usage_figures.py"
    text = path.read_text()
    path.write_text(re.sub(r'^(USAGE = Figure\(\s*"usage",\s*)(\d+)', lambda m: f"{m[1]}{int(m[2]) + 1}", text, flags=re.MULTILINE))
    assert path.read_text() != text
    assert not json.loads(copied([*ctx, "status", "--json"]).stdout)["nothing_to_do"]
    made = json.loads(copied([*ctx, "run", "--json"]).stdout)["assets"]

    assert made == [{"asset": "warehouse/duckdb", "partitions": None, "sessions": None, "why": "new code version"}]
    assert copied([sys.executable, "-c", count]).stdout.strip() == "0"
    assert json.loads(copied([*ctx, "status", "--json"]).stdout)["nothing_to_do"]
