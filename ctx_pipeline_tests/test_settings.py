"""Settings: environment over file, and every wrong value with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import discovery, settings
from ctx_pipeline.errors import CtxError, SettingsError, UnknownName, nearest


def load(tmp_path: Path, config: str = "", **env: str) -> settings.Settings:
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "config.toml").write_text(config)
    return settings.load({"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), **env})


@pytest.mark.feature("settings.roots")
def test_a_comma_list_replaces_the_default_homes_and_repeats_are_dropped(tmp_path: Path):
    host = discovery.host("claude")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "two")
    chosen = load(tmp_path, **{host.files.roots_env: f"{tmp_path}/one, ~/two,,{tmp_path}/link,{tmp_path}/missing"})

    assert chosen.roots_of(host) == (tmp_path / "one", tmp_path / "two")
    assert chosen.candidate_roots(host)[-1] == tmp_path / "missing"


@pytest.mark.feature("settings.roots")
def test_without_a_variable_the_default_places_are_used(tmp_path: Path):
    (tmp_path / ".config" / "claude").mkdir(parents=True)

    assert load(tmp_path).roots_of(discovery.host("claude")) == (tmp_path / ".config" / "claude",)


@pytest.mark.feature("settings.ignore")
def test_ignore_globs_match_files_and_whole_folders(tmp_path: Path):
    chosen = load(tmp_path, '[ignore]\npaths = ["*/secret/*", "/data/projects/-Users-me-x"]')

    assert chosen.ignored("/home/a/secret/s.jsonl")
    assert chosen.ignored("/data/projects/-Users-me-x/s.jsonl")
    assert not chosen.ignored("/data/projects/-Users-me-y/s.jsonl")


@pytest.mark.feature("settings.errors")
@pytest.mark.parametrize(
    "config",
    ["cost_mode = 'free'", "first_month = '2025'", "ignore = 3", "workers = 0", "workers = true", "debounce_seconds = -1", "not toml"],
)
def test_a_wrong_value_is_an_error_that_says_what_to_write(tmp_path: Path, config: str):
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, config)

    assert raised.value.hint


@pytest.mark.feature("settings.environment")
def test_the_environment_wins_over_the_file(tmp_path: Path):
    chosen = load(tmp_path, "cost_mode = 'display'\ntimezone = 'Asia/Tokyo'", CTX_COST_MODE="calculate", TZ="Europe/Berlin")

    assert (chosen.cost_mode, chosen.timezone) == ("calculate", "Europe/Berlin")
    assert load(tmp_path, "timezone = 'Asia/Tokyo'").timezone == "Asia/Tokyo"
    assert load(tmp_path, TZ=":/usr/share/zoneinfo/Europe/Paris").timezone == "Europe/Paris"


@pytest.mark.feature("settings.announced-stores")
def test_announced_stores_are_roots_of_the_host_that_reads_them(tmp_path: Path):
    announced = tmp_path / "elsewhere" / "ctxrot.db"
    announced.parent.mkdir()
    announced.touch()
    stores = tmp_path / "store" / "stores"
    stores.mkdir(parents=True)
    (stores / "1").write_text(f"{announced}\n")
    (stores / "2").write_text("relative/path.db")
    (stores / "3").write_bytes(b"\xff\xfe")
    hosts = [h for h in discovery.hosts().values() if h.files.announced]

    assert [load(tmp_path).roots_of(h) for h in hosts] == [(announced,)]


@pytest.mark.feature("hosts.variable-places")
def test_a_default_place_below_a_variable_is_looked_for_only_where_that_is_set(tmp_path: Path):
    gemini = discovery.host("gemini")

    assert load(tmp_path, GEMINI_CLI_HOME="/srv/agents").candidate_roots(gemini)[0] == Path("/srv/agents/.gemini")
    assert [root.name for root in load(tmp_path).candidate_roots(gemini)] == [".gemini"]
    assert len(load(tmp_path, GEMINI_CLI_HOME="relative").candidate_roots(gemini)) == 1


@pytest.mark.feature("errors.hints")
def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UnknownName) as raised:
        discovery.host("cladue")

    assert "claude" in raised.value.hint
    assert isinstance(raised.value, CtxError)


@pytest.mark.feature("errors.hints")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("opus", ["claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6"]),
        ("claude-h", ["claude-haiku"]),
        ("haiku", ["claude-haiku"]),
        ("ha", []),
    ],
)
def test_names_that_hold_the_word_come_before_those_that_look_like_it(name: str, near: list[str]):
    assert nearest(name, [*(f"claude-opus-4-{n}" for n in (5, 6, 7, 8)), "claude-haiku", "opsu"]) == near


@pytest.mark.feature("errors.hints")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("man", ["main"]),
        ("mian", ["main"]),
        ("reset", ["ana/adds-reset-command"]),
        ("wing", ["ben/wingman"]),
        ("ngman", ["ben/wingman"]),
    ],
)
def test_a_name_most_like_the_word_comes_before_those_that_hold_it_inside_another_word(name: str, near: list[str]):
    assert nearest(name, ["main", "develop", "ana/adds-reset-command", "ben/wingman"]) == near


@pytest.mark.feature("settings.unknown")
@pytest.mark.parametrize(
    ("config", "name", "near"),
    [
        ('[ignore]\nglobs = ["*/secret/*"]', "ignore.globs", "ignore.paths"),
        ('timezon = "Europe/Berlin"', "timezon", "timezone"),
        ('[ignored]\npaths = ["*/secret/*"]', "ignored", "ignore"),
        ('paths = ["*/secret/*"]', "paths", "ignore.paths"),
        ('[redaction.pattern]\nours = "x{4}"', "redaction.pattern", "redaction.patterns"),
        ('[memory]\nembeder = "a:b"', "memory.embeder", "memory.embedder"),
    ],
)
def test_a_name_that_is_no_setting_is_refused_with_the_nearest(tmp_path: Path, config: str, name: str, near: str):
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, config)
    assert name in raised.value.message
    assert near in raised.value.hint


@pytest.mark.feature("settings.unknown")
@pytest.mark.parametrize("config", ["redaction = 3", "memory = []", "[redaction]\npatterns = 3", "prices = 'free'"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, config: str):
    with pytest.raises(SettingsError):
        load(tmp_path, config)


@pytest.mark.feature("settings.unknown")
def test_every_setting_that_is_documented_is_taken(tmp_path: Path):
    page = Path(__file__).parent.parent / "docs" / "settings.md"
    documented = page.read_text("utf-8").split("```toml\n")[1].split("```")[0]
    chosen = load(tmp_path, documented + '\n[redaction.patterns]\nours = "x{4}"\n[mine]\nmodel = "a/b"\n[mine.claude_code]\nmodel = "c"\n')
    assert chosen.ignore == ("*/client-x/*", "-Users-me-work-secret*")


def test_a_store_below_a_file_has_no_config_and_one_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    assert settings.load({"CTX_HOME": str(tmp_path / "file" / "store")}).config == {}
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(SettingsError, match=r"config\.toml cannot be parsed"):
        settings.load({"CTX_HOME": str(tmp_path)})
