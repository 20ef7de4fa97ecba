"""What is published: the sdist and the wheel, and the wheel at work with no checkout beside it."""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.environments import link, required

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def run(*command: str, **more: object) -> str:
    done = processes.run(command, **more)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from nothing but it."""
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel alone, beside the libraries of this one."""
    (wheel,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={python}")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    packages = next(folder.glob("lib/python*/site-packages"))
    paths = sysconfig.get_paths()
    # a folder on the path is not searched for .pth files, so an editable install there stays unseen
    (packages / "libraries.pth").write_text("\n".join(dict.fromkeys((paths["purelib"], paths["platlib"]))) + "\n")
    return folder / "bin"


def bare(installed: Path, folder: Path) -> dict[str, object]:
    """Return how to run a program as in a clean shell, in an empty folder."""
    (folder / "empty").mkdir(exist_ok=True)
    environ = {"PATH": f"{installed}:{os.defpath}", "HOME": str(folder), "CTX_HOME": str(folder / "ctx"), "TZ": "UTC"}
    return {"cwd": folder / "empty", "env": environ}


@pytest.mark.slow
@pytest.mark.feature("package.wheel")
def test_the_wheel_alone_runs_a_demo_twice_and_its_dagster_configuration_loads(installed: Path, tmp_path: Path):
    shell = bare(installed, tmp_path)

    where = run("python", "-c", "import ctx_pipeline; print(ctx_pipeline.__file__)", **shell)
    first = json.loads(run("ctx", "run", "--json", **shell))
    again = json.loads(run("ctx", "run", "--demo", "--json", **shell))
    checked = run("ctx", "ui", "--check", **shell)

    assert Path(where.strip()).is_relative_to(installed.parent.resolve())
    assert (first["sessions"], first["threads"], first["model_calls"], first["quarantined"]) == (6, 7, 46, 0)
    assert Path(first["site"]).is_relative_to(tmp_path / "ctx" / "demo")
    assert "<html" in Path(first["site"]).read_text("utf-8")
    assert (again["cells_materialized"], again["sessions_parsed"]) == (0, 0)
    assert {"raw/segments", "memory/consolidated", "dashboard/site"} <= set(checked.split())
    assert "enabled: false" in next((tmp_path / "ctx").rglob("dagster.yaml")).read_text("utf-8")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.fixture(scope="module")
def slim(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it requires without an extra."""
    (wheel,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("slim") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={folder / 'bin' / 'python'}")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    packages = next(folder.glob("lib/python*/site-packages"))
    (own,) = packages.glob("ctx_pipeline-*.dist-info")
    link(required(PathDistribution(own)), packages)
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.feature("package.slim")
def test_the_command_line_works_without_the_graph_dspy_and_the_server_and_names_the_extra_of_the_rest(slim: Path, tmp_path: Path):
    shell = bare(slim, tmp_path)

    def ctx(*words: str) -> Any:
        return processes.run((str(slim / "ctx"), *words), **shell)

    assert "ModuleNotFoundError" in processes.run((str(slim / "python"), "-c", "import dagster"), **shell).stderr
    first = json.loads(run("ctx", "run", "--json", **shell))
    assert (first["sessions"], first["model_calls"], first["quarantined"]) == (6, 46, 0)
    assert "<html" in Path(first["site"]).read_text("utf-8")
    assert json.loads(run("ctx", "run", "--json", **shell))["sessions_parsed"] == 0
    assert json.loads(run("ctx", "usage", "daily", "--json", **shell))["totals"]["calls"] == 46
    assert len(json.loads(run("ctx", "list", "--json", **shell))["sessions"]) == 6
    assert json.loads(run("ctx", "search", "freezegun", "--json", **shell))["hits"]
    for words in ((), ("cost",), ("show",), ("hints",), ("render", "--share"), ("status",), ("doctor",), ("learn", "--all"), ("sync",)):
        done = ctx(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr)
    needing = {
        ("ui", "--check"): "graph",
        ("mcp",): "serve",
        ("dashboard", "serve", "--port", "0"): "serve",
        ("rot", "dashboard"): "terminal",
    }
    for words, extra in needing.items():
        done = ctx(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), (words, done.stdout, done.stderr)
        assert f"hint: pip install 'ctx-pipeline[{extra}]'" in done.stderr, (words, done.stderr)


@pytest.mark.feature("package.slim", "team.light")
def test_all_extras_together_are_what_the_first_command_of_the_readme_installs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    slim = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}

    assert not slim & {"dagster", "dagster-duckdb", "dagster-webserver", "dspy", "mcp", "starlette", "uvicorn"}
    assert {"pydantic", "tiktoken"} <= slim
    assert extras["all"] == [
        f"ctx-pipeline[{','.join(name for name in extras if name not in {'all', 'dev', 'postgres', 'team', 'workers'})}]"
    ]
    assert "ctx-pipeline[all]" in extras["dev"]
    assert ".[dev]" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.feature("package.wheel")
def test_the_wheel_holds_the_package_its_data_and_nothing_else(dist: Path):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    package = ROOT / "ctx_pipeline"
    ours = {f"ctx_pipeline/{p.relative_to(package).as_posix()}" for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts}

    assert {name for name in ours if not name.endswith((".pyc", ".so"))} <= names
    assert {"ctx_pipeline/defs/config/workspace.yaml", "ctx_pipeline/defs/config/dagster.yaml"} <= names
    assert {name.partition("/")[0] for name in names} == {"ctx_pipeline", f"ctx_pipeline-{VERSION}.dist-info"}
    assert [name for name in names if name.endswith((".pyc", ".db"))] == []


@pytest.mark.slow
@pytest.mark.feature("package.publish")
def test_both_distributions_are_fit_for_the_index_and_the_sdist_holds_its_own_tests(dist: Path):
    files = sorted(dist.iterdir())
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = set(archive.getnames())

    assert [f.name for f in files] == [f"ctx_pipeline-{VERSION}-py3-none-any.whl", f"ctx_pipeline-{VERSION}.tar.gz"]
    assert run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files)).count("PASSED") == 2
    top = f"ctx_pipeline-{VERSION}"
    wanted = ("LICENSE", "README.md", "docs/architecture.md", ".ci/run", "workspace.yaml", "dagster.yaml", "ctx_pipeline_tests/conftest.py")
    assert {f"{top}/{name}" for name in wanted} <= names
