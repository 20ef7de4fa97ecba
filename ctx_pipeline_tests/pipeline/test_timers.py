"""Jobs of the operating system: the files of both platforms, switched on and off by its own service manager."""

from __future__ import annotations

import json
import os
import plistlib
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.integrations.os_scheduler import Job, Timers, cron, last_runs, run_job
from ctx_pipeline.integrations.status import timed
from ctx_pipeline.settings import Settings

SYNC, NIGHT = Job("sync", every_minutes=15), Job("run", at="03:17")


def machine(tmp_path: Path, *, refuses: str = "") -> Settings:
    """Return settings of a person whose service managers are programs that write down what they are asked."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("systemctl", "launchctl"):
        program = tools / name
        refusal = f'case "$*" in *{refuses}*) echo "no bus" >&2; exit 1;; esac\n' if refuses else ""
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/asked"\n{refusal}')
        program.chmod(0o755)
    return settings.load(
        {
            "HOME": str(tmp_path / "nobody"),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "CTX_HOME": str(tmp_path / "st ore"),
            "CODEX_HOME": str(tmp_path / 'co"dex 100%'),
        }
    )


def asked(tmp_path: Path) -> list[str]:
    path = tmp_path / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.feature("cli.schedule")
def test_timers_of_systemd_are_written_switched_on_and_taken_out(tmp_path: Path) -> None:
    chosen = machine(tmp_path)
    timers = Timers(chosen, "linux")

    service, timer = timers.install(SYNC)

    assert service.parent == tmp_path / "nobody" / ".config" / "systemd" / "user"
    assert f'Environment="CTX_HOME={tmp_path}/st ore"' in service.read_text()
    assert f'Environment="CODEX_HOME={tmp_path}/co\\"dex 100%%"' in service.read_text()
    assert service.read_text().count('"schedule" "run-now" "sync"') == 1
    assert "OnUnitActiveSec=15min" in timer.read_text()
    assert "OnCalendar=*-*-* 03:17:00" in timers.units(NIGHT)[1].text
    assert asked(tmp_path) == ["systemctl --user daemon-reload", f"systemctl --user enable --now {timer.name}"]
    assert [(one.name, one.on) for one in timers.installed(("sync", "run"))] == [("sync", True)]
    assert timers.remove("sync") == [service, timer]
    assert not service.exists()
    assert f"systemctl --user disable --now {timer.name}" in asked(tmp_path)
    assert timers.installed(("sync", "run")) == []


@pytest.mark.feature("cli.schedule")
def test_agents_of_launchd_are_written_switched_on_and_taken_out(tmp_path: Path) -> None:
    timers = Timers(machine(tmp_path), "darwin")

    [sync] = timers.install(SYNC)
    [night] = timers.install(NIGHT)

    assert sync.parent == tmp_path / "nobody" / "Library" / "LaunchAgents"
    said = plistlib.loads(sync.read_bytes())
    assert (said["Label"], said["StartInterval"]) == (sync.stem, 900)
    assert said["ProgramArguments"][-3:] == ["schedule", "run-now", "sync"]
    assert said["EnvironmentVariables"]["CTX_HOME"] == f"{tmp_path}/st ore"
    assert plistlib.loads(night.read_bytes())["StartCalendarInterval"] == {"Hour": 3, "Minute": 17}
    assert asked(tmp_path)[0] == f"launchctl bootstrap gui/{os.getuid()} {sync}"
    timers.remove("sync")
    assert (sync.exists(), night.exists()) == (False, True)
    assert f"launchctl bootout gui/{os.getuid()}/{sync.stem}" in asked(tmp_path)


@pytest.mark.feature("cli.schedule")
@pytest.mark.parametrize(("platform", "refuses"), [("linux", "enable"), ("darwin", "bootstrap")])
def test_what_the_service_manager_refuses_leaves_nothing_and_names_the_line_for_cron(tmp_path: Path, platform: str, refuses: str) -> None:
    timers = Timers(machine(tmp_path, refuses=refuses), platform)

    with pytest.raises(SettingsError, match="sync was not scheduled: no bus") as refused:
        timers.install(SYNC)

    assert f"with cron: */15 * * * * env 'CODEX_HOME={tmp_path}/co\"dex 100\\%' 'CTX_HOME={tmp_path}/st ore' " in refused.value.hint
    assert timers.installed(("sync",)) == []
    assert [path for path in (tmp_path / "nobody").rglob("*") if path.is_file()] == []


@pytest.mark.feature("cli.schedule")
def test_a_folder_that_cannot_be_written_is_named_with_the_line_for_cron(tmp_path: Path) -> None:
    timers = Timers(machine(tmp_path), "linux")
    (tmp_path / "nobody").mkdir(exist_ok=True)
    (tmp_path / "nobody" / ".config").write_text("a file where the folder would be")

    with pytest.raises(SettingsError, match=r"sync was not scheduled: .*nobody/.config.*: Not a directory") as refused:
        timers.install(SYNC)

    assert "with cron: " in refused.value.hint


@pytest.mark.feature("cli.schedule")
def test_a_file_that_somebody_else_wrote_under_the_name_stays(tmp_path: Path) -> None:
    timers = Timers(machine(tmp_path), "linux")
    path = timers.units(SYNC)[1].path
    path.parent.mkdir(parents=True)
    path.write_text("[Timer]\n")

    assert timers.remove("sync") == []
    assert path.read_text() == "[Timer]\n"
    assert asked(tmp_path) == []


def test_lines_of_cron_and_platforms_without_timers(tmp_path: Path) -> None:
    assert cron(NIGHT, {}).startswith("17 3 * * * /")
    assert cron(Job("sync", every_minutes=180), {}).startswith("0 */3 * * * /")
    with pytest.raises(SettingsError, match="nothing can be scheduled on win32"):
        Timers(machine(tmp_path), "win32")


@pytest.mark.feature("cli.schedule")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the service manager of this platform is another one")
def test_the_command_shows_enters_tells_and_takes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = machine(tmp_path)
    for name in ("HOME", "PATH", "CTX_HOME", "CODEX_HOME"):
        monkeypatch.setenv(name, chosen.environ[name])
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def ctx(*words: str) -> str:
        done = CliRunner().invoke(cli, ["schedule", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "OnUnitActiveSec=20min" in ctx("install", "--every", "20", "--dry-run")
    assert asked(tmp_path) == []
    written = json.loads(ctx("install", "--yes", "--nightly", "04:30", "--json"))["jobs"]
    assert [(job["job"], job["when"]) for job in written] == [("sync", "every 15 minutes"), ("run", "daily at 04:30")]
    assert [(job["job"], job["on"], job["last"]) for job in json.loads(ctx("status", "--json"))["jobs"]] == [
        ("sync", True, None),
        ("run", True, None),
    ]
    assert [one.kind for one in timed(chosen)] == ["timer", "timer"]
    ctx("install", "--yes", "--no-nightly")
    assert [job["job"] for job in json.loads(ctx("status", "--json"))["jobs"]] == ["sync"]
    assert len(json.loads(ctx("uninstall", "--yes", "--json"))["removed"]) == 2
    assert "nothing is scheduled" in ctx("status")
    assert CliRunner().invoke(cli, ["schedule", "install", "--nightly", "25:00"]).exit_code != 0


@pytest.mark.feature("schedule.hour")
def test_the_hour_of_the_timer_is_the_one_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = machine(tmp_path)
    for name in ("HOME", "PATH", "CTX_HOME", "CODEX_HOME"):
        monkeypatch.setenv(name, chosen.environ[name])
    config = Path(chosen.environ["CTX_HOME"]) / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('nightly = "04:05"\n')

    shown = CliRunner().invoke(cli, ["schedule", "install", "--dry-run"])
    config.write_text('nightly = "25:05"\n')
    refused = CliRunner().invoke(cli, ["schedule", "install", "--dry-run"])

    assert "OnCalendar=*-*-* 04:05:00" in shown.stdout
    assert refused.exit_code == 1
    assert "is not a time of day" in refused.output or "is not a time of day" in str(refused.exception)


@pytest.mark.feature("cli.schedule")
def test_a_job_notes_how_it_ended_and_does_not_start_without_room(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "codex").mkdir()
    chosen = settings.load({**environ, "PATH": os.environ["PATH"]})

    assert run_job(chosen, "sync")["ok"]
    assert last_runs(chosen)["sync"]["ok"] is True
    assert (chosen.home / "ledger.db").exists()

    full = settings.load({**environ, "PATH": os.environ["PATH"]}, config={"least_free_bytes": 1 << 62})
    assert not run_job(full, "sync")["ok"]
    assert "nothing was captured" in last_runs(full)["sync"]["said"]


@pytest.mark.feature("cli.schedule")
def test_a_job_that_ends_badly_is_one_for_the_service_manager_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "config.toml").write_text(f"least_free_bytes = {1 << 62}\n")

    done = CliRunner().invoke(cli, ["schedule", "run-now", "sync", "--json"])

    assert (done.exit_code, json.loads(done.stdout)["ok"]) == (1, False)
