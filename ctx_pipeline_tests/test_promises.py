"""What holds for the whole package: its types, its errors, its reference pages."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ctx_pipeline
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.tables import TABLES

ROOT = Path(ctx_pipeline.__file__).parent
CHECKOUT = ROOT.parent


@cache
def trees() -> dict[str, ast.Module]:
    """Return module name -> syntax of every module of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(CHECKOUT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def errors() -> dict[str, type[Any]]:
    """Return name -> class of every exception that a module of the package defines."""
    found: dict[str, type[Any]] = {}
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.bases and not node.name.startswith("_"):
                names = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if names & set(found) or any(n == "CtxError" or n.endswith(("Error", "Exception")) for n in names):
                    made = getattr(importlib.import_module(module), node.name)
                    if issubclass(made, BaseException):
                        found[node.name] = made
    return found


@pytest.mark.slow
@pytest.mark.feature("errors.tree")
def test_every_error_of_the_package_is_in_one_tree_and_every_raise_of_one_says_what_to_do():
    found = errors()
    assert len(found) > 30
    assert [name for name, made in found.items() if not issubclass(made, CtxError)] == []

    silent = []
    own = {name for name, made in found.items() if made.__init__ is not CtxError.__init__}
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                name = node.exc.func.id
                told = any(k.arg == "hint" for k in node.exc.keywords)
                if name in found and not told and name not in own and not found[name].advice:
                    silent.append(f"{module}:{node.lineno} {name}")
    assert silent == []
    assert str(CtxError("the till is stuck", hint="open it")) == "the till is stuck\n  hint: open it"


@pytest.mark.feature("errors.tree")
@pytest.mark.parametrize("name", ["StoreFull", "ContractError", "SourceError"])
def test_an_error_without_a_hint_of_its_own_has_that_of_its_kind(name: str):
    made = getattr(importlib.import_module("ctx_pipeline.errors"), name)

    assert made("the disk spins").hint == made.advice != ""
    assert made("the disk spins", hint="stop it").hint == "stop it"


PROGRAM = """
from ctx_pipeline import ContextBuilder, UnknownName, load_settings
reveal_type(load_settings)
reveal_type(ContextBuilder)
days: int = load_settings().first_month
"""


@pytest.mark.slow
@pytest.mark.feature("package.typed")
def test_a_type_checker_sees_the_types_of_the_public_names(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "--config-file", "", "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PATH": "", "MYPYPATH": str(CHECKOUT)}, capture_output=True, text=True, check=False, timeout=250
    )

    assert 'Revealed type is "def () -> ctx_pipeline.settings.Settings"' in done.stdout
    assert "ctx_pipeline.context.window.builder.ContextBuilder" in done.stdout
    assert 'expression has type "str", variable has type "int"' in done.stdout


@pytest.mark.feature("package.typed")
def test_the_stub_names_every_public_name_where_it_lives():
    stub = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    told = {a.asname: n.module for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname == a.name}

    assert told == ctx_pipeline._PUBLIC
    assert (ROOT / "py.typed").is_file()


@pytest.mark.feature("tables.documented")
def test_every_column_stands_on_the_page_with_type_unit_and_meaning_and_every_table_with_its_version():
    page = (CHECKOUT / "docs" / "reference" / "tables.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+ \(version \d+\))\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))

    assert set(sections) == {f"{t.name} (version {t.version})" for t in TABLES.values()}
    for head, body in sections.items():
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (yes)? ?\| ([^|]+) \|$", body, re.MULTILINE)
        table = TABLES[head.split()[0]]
        assert [(n, t) for n, t, *_ in rows] == [(c.name, c.type) for c in table.columns]
        assert [n for n, t, unit, _, _ in rows if t == "time" and unit.strip() != "us"] == []
        assert [n for n, *_, meaning in rows if len(meaning.strip()) < 6] == []


@pytest.mark.feature("tables.documented")
def test_what_counts_bytes_tokens_characters_or_money_says_so():
    units = {(t.name, c.name): c.unit for t in TABLES.values() for c in t.columns}
    wanted = {"start": "byte", "end": "byte", "bytes": "byte", "input": "token", "cache_read": "token", "cost": "nano-dollar"}
    wanted |= {"recorded_cost": "nano-dollar", "in_chars": "char", "tokens": "token", "web_searches": "request"}

    assert {(t, c): u for (t, c), u in units.items() if c in wanted and u != wanted[c] and t != "readings"} == {}
