"""What is published: the sdist and the wheel, and the wheel at work with no checkout beside it."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from ctx_pipeline_tests import processes

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
