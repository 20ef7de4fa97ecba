"""What a DuckDB connection of this package cannot do, however it was opened; and that nothing opens one in another way."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import ctx_pipeline
from ctx_pipeline import settings
from ctx_pipeline.defs import resources
from ctx_pipeline.storage.lake.queries import SharedDatabase
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline_tests.factories.shipped import copied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.storage import Store

PACKAGE = Path(ctx_pipeline.__file__).parent


@pytest.fixture
def foreign() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that nothing may ask, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(1000))

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def opened(how: str, store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    path = store.warehouse_path
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "lake":
        with closing(store.lake.connect()) as connection:
            yield connection
    elif how == "kept":
        kept = SharedDatabase()
        kept.keep()
        kept.connect(store.home).close()
        with closing(kept.connect(store.home)) as connection:
            yield connection
    elif how == "warehouse":
        with database.connect(path) as connection:
            yield connection
    elif how == "read-only warehouse":
        duckdb.connect(str(path)).close()
        with database.connect(path, read_only=True) as connection:
            yield connection
    else:
        with resources.serving(settings.load({"CTX_HOME": str(store.home)})).resource_fn(None).get_connection() as connection:
            yield connection


WAYS = ("lake", "kept", "warehouse", "read-only warehouse", "resource")

STATEMENTS = (
    "INSTALL httpfs FROM '{address}'",
    "FORCE INSTALL httpfs FROM '{address}'",
    "INSTALL '{address}/x.duckdb_extension'",
    "INSTALL avro FROM community",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "ATTACH '{address}/x.duckdb' AS other",
    "ATTACH '{folder}/other.duckdb' AS other",
    "SELECT * FROM '{address}/x.parquet'",
    "SELECT * FROM read_csv('{address}/x.csv')",
    "SELECT * FROM read_text('{folder}/secret.txt')",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "SET enable_external_access = true",
    "SET autoinstall_known_extensions = true",
    "SET custom_extension_repository = '{address}'",
    "SET allowed_directories = ['/']",
    "SET lock_configuration = false",
    "SET s3_region = 'x'",
    "RESET lock_configuration",
)


@pytest.mark.feature("warehouse.confined")
@pytest.mark.parametrize("how", WAYS)
def test_no_statement_reaches_out_or_loads_code(how, store, tmp_path, foreign):
    address, asked = foreign
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.txt").write_text("not a table of the store")
    with opened(how, store) as connection:
        assert connection.execute("SELECT 40 + 2").fetchone() == (42,)
        passed = []
        for statement in STATEMENTS:
            try:
                connection.execute(statement.format(address=address, folder=folder))
            except duckdb.Error:
                continue
            passed.append(statement)
    assert passed == []
    assert asked == []
    assert [path.name for path in folder.iterdir()] == ["secret.txt"]


@pytest.mark.feature("warehouse.confined")
@pytest.mark.parametrize("how", WAYS)
def test_files_below_the_store_are_still_read_and_two_connections_share_a_file(how, store):
    part = store.home / "lake" / "x.parquet"
    part.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql("SELECT 7 AS n").write_parquet(str(part))
    with opened(how, store) as connection:
        assert connection.execute(f"SELECT n FROM read_parquet('{part}')").fetchall() == [(7,)]
        if how == "read-only warehouse":
            with database.connect(store.warehouse_path, read_only=True) as second:
                assert second.execute(f"SELECT n FROM read_parquet('{part}')").fetchall() == [(7,)]


@pytest.mark.feature("mcp.kept-database")
def test_connections_of_a_kept_database_see_nothing_of_each_other_and_a_child_has_its_own(store, tmp_path, monkeypatch):
    kept = SharedDatabase()
    kept.keep()
    with closing(kept.connect(store.home)) as one, closing(kept.connect(store.home)) as other:
        one.execute("CREATE OR REPLACE TEMP VIEW asked AS SELECT 1 AS n")
        other.execute("CREATE OR REPLACE TEMP VIEW asked AS SELECT 2 AS n")
        assert [c.execute("SELECT n FROM asked").fetchall() for c in (one, other)] == [[(1,)], [(2,)]]
        one.execute("CREATE TABLE main.shared AS SELECT 3 AS n")  # tells whether two connections have one database
        assert other.execute("SELECT n FROM main.shared").fetchall() == [(3,)]
        with closing(kept.connect(tmp_path)) as elsewhere, pytest.raises(duckdb.CatalogException):
            elsewhere.execute("SELECT n FROM main.shared")
        assert one.execute("SELECT n FROM main.shared").fetchall() == [(3,)]
    with closing(kept.connect(tmp_path)) as one:
        one.execute("CREATE TABLE main.shared AS SELECT 4 AS n")
        monkeypatch.setattr("os.getpid", lambda: -1)
        with closing(kept.connect(tmp_path)) as child, pytest.raises(duckdb.CatalogException):
            child.execute("SELECT n FROM main.shared")


@pytest.mark.feature("warehouse.confined")
def test_a_persons_own_sql_installs_loads_and_attaches_nothing(tmp_path, foreign):
    address, asked = foreign
    environ = copied(tmp_path)
    ctx = [sys.executable, "-m", "ctx_pipeline"]
    subprocess.run([*ctx, "sync"], env=environ, check=True, capture_output=True, timeout=250)

    def status(text: str) -> int:
        return subprocess.run([*ctx, "sql", text], env=environ, check=False, capture_output=True, timeout=250).returncode

    assert status("SELECT count(*) FROM sessions") == 0
    wanted = [s for s in STATEMENTS if s.partition(" ")[0] in {"INSTALL", "LOAD", "ATTACH", "SELECT"}]
    assert [s for s in wanted if status(s.format(address=address, folder=tmp_path)) == 0] == []
    assert asked == []


def _harmless(name: str) -> bool:
    """Tell whether any file may use a name of the module: a type or an error."""
    return name in {"Error", "StatementType", "DuckDBPyConnection"} or name.endswith("Exception")


@pytest.mark.feature("warehouse.one-opening")
def test_one_function_opens_duckdb():
    opens, inherits = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "duckdb"
                and not _harmless(node.attr)
            ):
                opens.append((name, node.attr))
            elif isinstance(node, ast.Import) and any(a.name.partition(".")[0] == "duckdb" and a.asname for a in node.names):
                opens.append((name, "another name"))
            elif isinstance(node, ast.ImportFrom) and node.module == "duckdb":
                opens += [(name, a.name) for a in node.names if not _harmless(a.name)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "DuckDBResource":
                opens.append((name, "DuckDBResource"))
            elif isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "DuckDBResource" for b in node.bases):
                inherits.append((name, node.name))

    assert opens == [("storage/connections.py", "connect")]
    assert inherits == [("defs/resources.py", "WarehouseResource")]
