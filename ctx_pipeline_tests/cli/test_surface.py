"""The command line as a whole: which commands answer with JSON of which shape, and which take which options."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery
from ctx_pipeline.cli import cli
from ctx_pipeline.model.raw import Parsed, SessionInput
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"
SESSION = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
NO_TABLE = {
    "ctx completion",
    "ctx hub dev",
    "ctx hub worker",
    "ctx help",
    "ctx render",
    "ctx usage statusline",
    "ctx mcp",
    "ctx rot dashboard",
    "ctx rot export",
    "ctx rot reset",
    "ctx rot tail",
    "ctx run-command",
}
"""They print a document, one line, or what a program reads; no table."""


@cache
def commands() -> dict[str, click.Command]:
    """Return name -> command of everything that can be called."""
    found = {}

    def walk(command: click.Command, path: str) -> None:
        context = click.Context(command, info_name=path)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                found[path] = command
            for name in command.list_commands(context):
                walk(command.get_command(context, name), f"{path} {name}")
        else:
            found[path] = command

    walk(cli, "ctx")
    return found


def options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


@cache
def documented() -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """Return command -> (keys of its object, key -> keys of the objects in that list) as the page says."""
    found = {}
    (block,) = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines():
        name, shape = re.fullmatch(r"(ctx(?: [a-zA-Z-]+)*?) {2,}(.+)", line.rstrip()).groups()
        inner = {key: keys.split() for key, keys in re.findall(r"(\w+)\[([^\]]*)\]", shape)}
        found[name] = (re.sub(r"\[[^\]]*\]", "", shape).split(), inner)
    keys, inner = found.pop("ctx usage GROUPING")
    for by, grouping in GROUPINGS.items():
        more = [grouping.column, *["repository"] * grouping.with_repository, *["uses"] * (grouping.names is not None)]
        found[f"ctx usage {by}"] = (keys, {"rows": [*inner["rows"], *more]})
    return found


@pytest.mark.feature("cli.json-everywhere")
def test_every_command_that_prints_a_table_takes_json_and_its_shape_is_documented():
    takes = {name for name, command in commands().items() if "--json" in options(command)}

    assert set(commands()) - takes == NO_TABLE
    assert set(documented()) == takes


REPORTS = sorted(GROUPINGS)

READING = [
    "ctx",
    "ctx run",
    "ctx sync",
    "ctx status",
    "ctx list",
    f"ctx show claude {SESSION}",
    *(f"ctx usage {by}" for by in ["blocks", "limits", "outcomes", *REPORTS]),
    f"ctx files claude {SESSION}",
    "ctx explain 2026-10-03",
    f"ctx history claude {SESSION}",
    "ctx prices list",
    "ctx prices show claude-sonnet-4-5",
    "ctx search freezegun",
    "ctx signal list",
    f"ctx signal show claude {SESSION}",
    "ctx signal summary",
    f"ctx mine claude {SESSION}",
    "ctx methods",
    "ctx memory doctor",
    "ctx memory list",
    "ctx memory retrieve --query freezegun",
    "ctx memory weave --query freezegun",
    "ctx hooks preview",
    "ctx hooks status",
    "ctx config path",
    "ctx config show",
    "ctx doctor",
    "ctx schedule install --dry-run",
    "ctx schedule status",
    "ctx setup --dry-run",
    "ctx work",
    "ctx hints",
]


@pytest.fixture
def invoke(ran: Ctx, monkeypatch: pytest.MonkeyPatch):
    """Run a command in this process over the store of the sample homes."""
    for name, value in ran.environ.items():
        monkeypatch.setenv(name, value)
    return lambda *words: CliRunner().invoke(cli, list(words))


@pytest.mark.feature("cli.json-everywhere")
@pytest.mark.parametrize("line", READING)
def test_the_printed_object_has_the_documented_keys(invoke, line: str):
    words = line.split()[1:]
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)

    name = max((n for n in documented() if f"{line} ".startswith(f"{n} ")), key=len)
    keys, inner = documented()[name]
    assert [key for key in keys if key not in told] == []
    for key, wanted in inner.items():
        for row in told[key]:
            assert [k for k in wanted if k not in row] == [], key


@pytest.mark.feature("cli.methods")
def test_mining_methods_are_listed_with_what_each_draws(invoke):
    rows = {row["method"]: row for row in json.loads(invoke("methods", "--json").stdout)["methods"]}
    printed = invoke("methods").stdout

    assert set(rows) >= {"error_resolutions", "repeated_corrections", "reme", "memp_procedural", "skill_pro", "project_conventions"}
    assert all(len(row["what"]) > 20 for row in rows.values())
    assert all(name in printed and row["what"][:30] in printed for name, row in rows.items())


APART = {"ctx usage statusline", "ctx usage limits", "ctx usage outcomes"}
"""They are no tables of model calls: one line, limits that were reached, and figures over whole sessions."""

EVERY = {"--host", "--project", "--model", "--since", "--until", "--timezone", "--breakdown", "--json", "--csv", "--cost-mode", "--stored"}


@pytest.mark.feature("cli.usage-all")
def test_usage_commands_take_the_same_options():
    reports = {name: command for name, command in commands().items() if name.startswith("ctx usage ") and name not in APART}

    assert len(reports) >= 14
    assert {name: EVERY - options(command) for name, command in reports.items() if EVERY - options(command)} == {}


@pytest.mark.feature("cli.usage-all")
@pytest.mark.parametrize("by", REPORTS)
def test_host_project_model_bounds_and_zone_narrow_every_report_alike_in_json_and_csv(invoke, by: str):
    chosen = ["--host", "claude", "--project", "bookshop-api", "--since", "2026-09-20", "--until", "2026-10-31", "--timezone", "Asia/Tokyo"]
    everything, report = (json.loads(invoke("usage", by, *words, "--json").stdout) for words in ([], chosen))
    project = json.loads(invoke("usage", "model", *chosen, "--json").stdout)["totals"]

    assert 0 < report["totals"]["calls"] < everything["totals"]["calls"]
    assert (report["totals"]["calls"], report["totals"]["output_tokens"]) == (project["calls"], project["output_tokens"])
    assert {row["host"] for row in report["rows"]} == {"claude"}
    (model, *_) = sorted({row["model"] for row in report["rows"]})
    of_model = json.loads(invoke("usage", by, *chosen, "--model", model, "--json").stdout)
    assert {row["model"] for row in of_model["rows"]} == {model}

    lines = invoke("usage", by, *chosen, "--csv").stdout.splitlines()
    assert lines[0].split(",") == list(report["rows"][0])
    assert len(lines) == len(report["rows"]) + 1
    assert "days in Asia/Tokyo" in invoke("usage", by, *chosen, "--breakdown").stdout


@pytest.mark.feature("cli.list-titles")
def test_lists_carry_title_age_size_project_host_and_days_until_deletion(invoke, ran: Ctx, tmp_path, monkeypatch):
    home = shutil.copytree(ran.folder / "claude", tmp_path / "claude")
    (home / "settings.json").write_text('{"cleanupPeriodDays": 40}')
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    listing = json.loads(invoke("list", "--json").stdout)
    printed = invoke("list").stdout
    one = next(s for s in listing["sessions"] if s["session_id"] == SESSION)

    assert (one["host"], one["title"], one["project"]) == ("claude", "Fix rounding in discount codes", "bookshop-api")
    assert one["bytes"] > 1_000
    assert one["modified"] > 0
    assert one["days_left"] in {39, 40}
    assert {s["days_left"] for s in listing["sessions"] if s["host"] == "codex"} == {None}
    assert listing["hosts"]["claude"] == "Claude Code"
    (line,) = [line for line in printed.splitlines() if SESSION in line]
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d +bookshop-api +Fix rounding in discount codes +\$[\d.]+ +claude +grown +(39|40) d", line)
    assert re.search(r"last active +project +title +cost +host +state +deleted in", printed)
    assert "4 claude, 2 codex; times in UTC" in printed


@pytest.mark.feature("cli.bare")
def test_bare_ctx_answers_with_last_week_and_findings(ran: Ctx):
    printed = ran().stdout

    assert 1 <= sum(line.startswith("- ") for line in printed.splitlines()) <= 3
    assert "last week with calls, Tue 2026-10-13" in printed
    assert ran.json()["findings"]


@pytest.mark.feature("cli.dashboard", "dashboard.serve")
def test_the_page_is_built_opened_and_served_by_one_command_each(ran: Ctx, tmp_path: Path):
    built = ran.json("dashboard", "build")
    assert Path(built["site"]).is_file()
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    opener.chmod(0o755)
    opened = Ctx(ran.folder, {**ran.environ, "BROWSER": str(opener)}).json("dashboard", "open")
    assert Ctx(ran.folder, {**ran.environ, "BROWSER": str(opener)}).json("open") == opened
    assert opened == {"site": built["site"], "opened": True, "address": Path(built["site"]).as_uri()}
    assert (tmp_path / "opened").read_text().strip() == Path(built["site"]).as_uri()

    command = [sys.executable, "-m", "ctx_pipeline", "dashboard", "serve", "--port", "0", "--json"]
    served = processes.start(command, env=ran.environ, stdout=subprocess.PIPE, text=True)
    address = urlsplit(json.loads(served.stdout.readline())["url"])

    def get(path: str, cookie: str = "") -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=250)
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        found = answer.status, answer.getheader("set-cookie", "").partition(";")[0], answer.read()
        connection.close()
        return found

    status, cookie, _ = get(f"{address.path}?{address.query}")
    assert (address.hostname, status) == ("127.0.0.1", 303)
    status, again, text = get(address.path, cookie)
    own = text.replace(b" connect-src &#39;self&#39;;", b"").replace(b'<script src="served.js" defer></script>\n', b"")
    assert (status, again, own) == (200, "", Path(built["site"]).read_bytes()), "the served page may ask its server, by one script more"
    data = next(p for p in Path(built["site"]).parent.rglob("*.js"))
    assert get(f"/{data.relative_to(Path(built['site']).parent).as_posix()}", cookie) == (200, "", data.read_bytes())
    assert get(address.path)[0] == 401
    processes.end(served)


@pytest.mark.feature("cli.signal-new")
def test_a_new_signals_file_has_an_example_that_fails_until_it_is_filled_in(ctx: Ctx):
    made = ctx.json("signal", "new", "odd_hours")
    failed = ctx("signal", "check", "odd_hours", ok=False)

    assert Path(made["path"]) == ctx.store / "config" / "signals" / "odd_hours.py"
    assert failed.returncode == 1
    assert "odd_hours" in failed.stdout + failed.stderr
    assert ctx("signal", "new", "odd_hours", ok=False).returncode != 0


@pytest.mark.feature("cli.import-all-hosts")
def test_one_command_imports_everything_and_a_broken_session_leaves_the_others_alone(ctx: Ctx, monkeypatch: pytest.MonkeyPatch):
    for name, value in ctx.environ.items():
        monkeypatch.setenv(name, value)
    hosts = discovery.hosts()

    def broken(session: SessionInput) -> Parsed:
        if session.session_id in path.name:
            raise RuntimeError("a defect of the parser")
        return hosts["codex"].records.parse(session)

    path = min((ctx.folder / "codex" / "sessions").rglob("*.jsonl"))
    monkeypatch.setattr(
        discovery, "hosts", lambda: {**hosts, "codex": replace(hosts["codex"], records=replace(hosts["codex"].records, parse=broken))}
    )
    done = CliRunner().invoke(cli, ["import", "all", "--all", "--no-render", "--json"])
    report = json.loads(done.stdout)

    assert (report["imported"], report["failed"]) == (5, 1)
    (failed,) = [s for s in report["sessions"] if s["status"] == "failed"]
    assert failed["session_id"] in path.name
    assert {s["host"] for s in report["sessions"] if s["events"] > 0} == {"claude", "codex"}

    monkeypatch.setattr(discovery, "hosts", lambda: hosts)
    again = json.loads(CliRunner().invoke(cli, ["import", "all", "--all", "--no-render", "--json"]).stdout)
    assert again["failed"] == 0


@pytest.mark.feature("cli.exit-status")
@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["show", "no-such-session"], 1), (["lisst"], 2)])
def test_a_process_ends_without_taking_its_modules_apart_and_nothing_of_its_end_is_lost(environ, words: list[str], status: int):
    ended = f"""
import atexit, sys
class Module:
    def __del__(self):
        sys.__stdout__.write("taken apart")
held = Module()
atexit.register(print, "at the end", end="")
sys.argv[1:] = {words!r}
from ctx_pipeline.cli import process
process()
"""
    done = subprocess.run([sys.executable, "-c", ended], env=environ, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == status
    assert done.stdout.endswith("at the end")  # also what stood in the buffer of a pipe, and nothing after it
    assert bool(done.stderr) == bool(status)


@pytest.mark.feature("cli.interrupt")
@pytest.mark.parametrize("module", ["ctx_pipeline.cli.root", "click", "ctx_pipeline.cli.sessions", "ctx_pipeline.sessions"])
def test_an_interrupt_while_a_module_is_imported_is_one_word_and_130(environ, module: str):
    interrupted = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from ctx_pipeline.cli import main
main(["list"])
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests in the background has it ignored
    )

    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")
