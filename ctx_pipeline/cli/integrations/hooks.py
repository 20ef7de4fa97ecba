"""``ctx hooks``: what runs inside an agent's sessions, installed, uninstalled and shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.integrations.mcp import tell
from ctx_pipeline.cli.output import confirm, emit, json_option, local_time, one_line, plain, say, table, zone_name
from ctx_pipeline.memory import hook_words
from ctx_pipeline.memory.injection_policy import ACCEPTED, NOTHING, PROVEN, STARTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctx_pipeline.integrations.agent_config import HookState
    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.model.agent_config import HookFile
    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings


@click.group()
def hooks() -> None:
    """Memories in an agent's sessions, and capture as soon as something was written."""


_share = click.FloatRange(0, 1)


@hooks.command()
@click.argument("host")
@click.option("--precision", type=_share, help="Inject only what was right this often in your own history (ctx memory backtest), e.g. 0.5.")
@click.option("--threshold", type=_share, help="Share of a prompt's weight that a memory must hold; 0.4 by default.")
@click.option(
    "--start",
    type=click.Choice(STARTS),
    help="What a session gets at its start: accepted by default; proven adds what two sessions taught.",
)
@click.option("--holdout", type=_share, help="Withhold memories from this share of sessions to measure their effect; 0 ends it.")
@click.option("--accepted-only/--candidates-too", default=None, help="Only accepted memories.")
@click.option("--resume/--no-resume", default=None, help="After a compaction, say where the session was; on by default.")
@click.option(
    "--handoff/--no-handoff",
    default=None,
    help="Begin each new chat with where the last session of its repository ended, at most 500 tokens; off by default.",
)
@click.option(
    "--commands/--no-commands", default=None, help="Say what is known about a command before it runs or after it failed; on by default."
)
@click.option(
    "--outputs/--no-outputs",
    default=None,
    help="Shorten what shell commands print before the model reads it; the whole stays in the store for seven days; off by default.",
)
@click.option("--defaults", is_flag=True, help="Reset the options that are not given.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def install(host: str, defaults: bool, yes: bool, as_json: bool, **given: Any) -> None:
    """Install hooks in an agent's settings, after a backup; running it again changes only the options given.

    HOST is claude or codex. Hooks of others are kept; a file that cannot be parsed stays
    as it is. A version without hooks gets a block in its instructions file instead.
    --precision takes the threshold and the start rule from the newest backtest; where that
    reaches no such precision, nothing is injected.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import agent_config

    settings = settings_module.load()
    found = agent_config.host_with_hooks(host)
    supported, version = agent_config.hooks_supported(found)
    homes = agent_config.homes(settings, found)
    recipe = agent_config.hooks_of(found)
    way = "hooks" if supported else "instructions"
    if not supported:
        say(f"{found.title} {version} runs no hooks: a block in {recipe.instructions} tells it where memories are", err=True)
    chosen = {home: _options({} if defaults else agent_config.options_in_force(found, home), given, settings) for home in homes}
    events = agent_config.events_taken(recipe)
    for home in homes:
        if supported:
            replaced = [recipe.replaces.event] if recipe.replaces is not None and "outputs" in chosen[home] else []
            when = ", ".join(dict.fromkeys([*events, *replaced]))
            _announce(f"{found.title} will run ctx at {when} ({home / recipe.file}).", recipe, chosen[home], events)
        else:
            say(f"{home / recipe.instructions}: {_looked_up(chosen[home])}", err=True)
    if not yes:
        named = ", ".join(str(home / (recipe.file if supported else recipe.instructions)) for home in homes)
        confirm(f"Add the {'hooks' if supported else 'block'} to {named}?")
    changes = [
        agent_config.install_hooks(settings, found, home, instructions=not supported, options=hook_words.written(chosen[home]))
        for home in homes
    ]
    _keep_handoffs(settings)
    tell(changes, as_json, way=way, note=recipe.note if supported else "", options=[chosen[home] for home in homes])
    if supported:
        _warn([agent_config.hook_state(found, home) for home in homes])
    if not as_json and supported and recipe.note:
        say(recipe.note)
    if not as_json and supported and not (settings.home / "ledger.db").exists():
        say("Nothing is captured yet, so nothing is told: ctx run captures what is there")


def _keep_handoffs(settings: Settings) -> None:
    """Keep what new chats are told where an agent's hooks tell it; where none does any more, remove what was kept."""
    from ctx_pipeline import discovery
    from ctx_pipeline.integrations import agent_config
    from ctx_pipeline.sessions.states.handoff import begin, end, ready

    hosts = [host for host in discovery.hosts().values() if host.agent.hooks]
    if any("handoff" in agent_config.hook_state(host, home).options for host in hosts for home in agent_config.homes(settings, host)):
        begin(settings)
        ready(settings)
    else:
        end(settings)


def _announce(when: str, recipe: HookFile, options: dict[str, str], events: Collection[str]) -> None:
    """Say what hooks will do before anything is changed."""
    say(when, err=True)
    say("It captures what the session wrote into your store, and tells the agent:", err=True)
    for sentence in _in_words(options, recipe, events):
        say(f"  {sentence}", err=True)
    say("What the agent is told goes to its model with the prompt; ctx itself sends nothing.", err=True)


def _options(held: dict[str, str], given: dict[str, Any], settings: Settings) -> dict[str, str]:
    """Return the options in force with those that were given anew in their place."""
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.integrations.status import calibrated

    precision, threshold = given["precision"], given["threshold"]
    if precision is not None and threshold is not None:
        raise UsageError("--precision and --threshold say the same thing twice", hint="a precision chooses the threshold; give one of them")
    options = dict(held)
    if threshold is not None:
        for name in ("precision", "no-prompts"):
            options.pop(name, None)
        options["threshold"] = f"{threshold:g}"
    if precision is not None:
        for name in ("threshold", "no-prompts"):
            options.pop(name, None)
        options |= calibrated(settings, precision).options()
    if given["start"] is not None:
        options["start"] = given["start"]
    if given["holdout"] is not None:
        options["holdout"] = f"{given['holdout']:g}"
    for name, wanted in (
        ("accepted-only", given["accepted_only"]),
        ("no-resume", None if given["resume"] is None else not given["resume"]),
        ("handoff", given["handoff"]),
        ("outputs", given["outputs"]),
        ("no-commands", None if given["commands"] is None else not given["commands"]),
    ):
        if wanted:
            options[name] = "yes"
        elif wanted is not None:
            options.pop(name, None)
    if options.get("holdout") == "0":
        del options["holdout"]
    return options


def _in_words(options: dict[str, str], recipe: HookFile, events: Collection[str], lacking: Collection[str] = ()) -> list[str]:
    """Return what hooks with these options tell an agent, and when, a sentence each."""
    from ctx_pipeline.memory.injection_policy import parse_options

    choice = parse_options(options)
    edits = "Write" in recipe.matchers.get("PreToolUse", "").split("|") and "PreToolUse" not in lacking
    acts = "a command or a change of a file, and after a command failed" if edits else "a command, and after one failed"
    failing = f"before {acts}" if "PreToolUse" in events else "after a command failed"
    wanted = f"{float(options['precision']):.0%}" if "precision" in options else ""
    unknown = f": no threshold is known to be right in {wanted}" if wanted else ""
    no_rule = f": no rule is known to be right in {wanted}" if wanted else ""
    start = {
        NOTHING: f"nothing{no_rule}",
        ACCEPTED: "the lessons that you accepted",
        PROVEN: "the lessons that you accepted or two sessions taught",
    }
    last = "nothing of the last session (--handoff tells it)"
    if "handoff" in options:
        last = "where the last session of the repository stood, at most 500 tokens"
    told = [
        f"when a session starts: {start[choice.start]}",
        f"at a prompt: lessons that match it by {choice.threshold:g} or more" if choice.prompts else f"at a prompt: nothing{unknown}",
        f"{failing}: {'what earlier sessions know of it' if choice.commands else 'nothing'}",
        f"after a compaction: {'nothing' if 'no-resume' in options else 'where the session stood'}",
        f"in a new chat: {last}",
    ]
    if "outputs" in options and recipe.replaces is not None:
        told.append(f"after a shell command: its output, shortened before the model reads it, {recipe.replaces.note}")
    told += [f"only what was right in {wanted} of your own history"] if wanted else []
    told += ["only lessons that you accepted"] if choice.accepted_only else []
    told += [f"nothing in {choice.holdout:.0%} of sessions, to measure what lessons do"] if choice.holdout else []
    return told


def _looked_up(options: dict[str, str]) -> str:
    """Return how sparing the lookups are that a block in an instructions file asks for."""
    told = [f"lookups from {options['threshold']} on"] if "threshold" in options else []
    told += ["accepted memories alone"] if options.keys() & {"accepted-only", "no-prompts"} else []
    return "; ".join(told) or "lookups as sparing as a search"


def _stale(settings: Settings, options: dict[str, str]) -> str:
    """Return what a newer backtest says of the precision with which hooks were installed; empty where it says the same."""
    from ctx_pipeline.integrations.status import moved

    newest = moved(settings, options)
    if newest is None:
        return ""
    made = f"installed with precision {options['precision']}"
    if newest.at is None:
        return f"{made}, but no backtest is kept that says what is right so often: ctx memory backtest"
    prompts = (
        "nothing is right so often at a prompt" if newest.threshold is None else f"a match of {newest.threshold:g} or more at a prompt"
    )
    start = f"{newest.start} lessons when a session starts"
    return f"{made}, for which the newest backtest says: {prompts}, {start}"


def _warn(states: Iterable[HookState]) -> None:
    """Say what keeps installed hooks from running, and what precision was promised without figures."""
    for s in states:
        if s.off:
            say(f"{s.path} turns all hooks off (disableAllHooks): none of them runs until that is taken out", fg="yellow", err=True)
        if s.way == "hooks" and "no-prompts" in s.options and s.options.get("start") == NOTHING:
            say(
                "nothing is injected by these hooks; what is right often enough `ctx memory backtest` measures:"
                f" then ctx hooks install {s.host} --precision {s.options.get('precision', 'P')}",
                fg="yellow",
                err=True,
            )


@hooks.command()
@click.argument("text", required=False)
@click.option(
    "--at", type=click.Choice(("start", "prompt", "command", "failure")), help="The moment; start, or prompt where TEXT is given."
)
@click.option("--printed", default="", help="What the command of TEXT printed when it failed, for --at failure; - reads standard input.")
@click.option("--host", help="The agent, else the first one with hooks.")
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the agent would work, else here.")
@click.option("--start", type=click.Choice(STARTS), help="As for ctx hooks install.")
@click.option("--handoff/--no-handoff", default=None, help="As for ctx hooks install.")
@json_option
def preview(
    text: str | None,
    at: str | None,
    printed: str,
    host: str | None,
    cwd: str | None,
    start: str | None,
    handoff: bool | None,
    as_json: bool,
) -> None:
    """Preview what hooks would give an agent here; nothing is installed or logged.

    TEXT is the prompt, the command about to run, or the command that failed. The options of
    installed hooks apply, else their defaults.
    """
    from pathlib import Path

    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.integrations import agent_config
    from ctx_pipeline.learning.injection import BEFORE, COMMANDS, PROMPT, START, inject
    from ctx_pipeline.memory.injection_policy import parse_options
    from ctx_pipeline.memory.scope import place_of
    from ctx_pipeline.sessions.states.handoff import resume

    moment = at or ("prompt" if text else "start")
    printed = sys.stdin.read() if printed == "-" else printed
    if moment != "start" and not text:
        raise UsageError(
            f"--at {moment} needs TEXT", hint=f'ctx hooks preview --at {moment} "{"a prompt" if moment == "prompt" else "a command"}"'
        )
    if moment == "failure" and not printed:
        raise UsageError("--at failure needs what the command printed", hint='ctx hooks preview --at failure "COMMAND" --printed "ERROR"')
    settings = settings_module.load()
    with_hooks = [agent_config.host_with_hooks(host)] if host else [h for h in discovery.hosts().values() if h.agent.hooks]
    states = [agent_config.hook_state(h, home) for h in with_hooks for home in agent_config.homes(settings, h)]
    state = next((s for s in states if s.way == "hooks"), states[0])
    recipe = agent_config.hooks_of(discovery.host(state.host))
    events = agent_config.events_taken(recipe)
    options = {name: value for name, value in state.options.items() if name != "holdout"}
    options |= ({"start": start} if start else {}) | ({"handoff": "yes"} if handoff else {})
    if handoff is False:
        options.pop("handoff", None)
    event = {"start": START, "prompt": PROMPT, "command": BEFORE}.get(moment) or next(e for e in COMMANDS[1:] if e in events)
    command: dict[str, Any] = {"tool_input": {"command": text}, "error": printed}
    about = {"source": "startup"} if moment == "start" else {"prompt": text} if moment == "prompt" else command
    payload = {"hook_event_name": event, "session_id": "preview", "cwd": str(Path(cwd or ".").absolute()), **about}
    told = resume(payload, host=state.host, settings=settings, preview=True) if "handoff" in options else ""
    if event in events:
        told += inject(payload, host=state.host, choice=parse_options(options), settings=settings, preview=True)
    place = place_of(payload["cwd"])
    if as_json:
        about = {"cwd": payload["cwd"], "repository": _repository(place), "installed": state.way == "hooks", "options": options}
        emit({"host": state.host, "at": moment, **about, "told": told})
        return
    where = _repository(place) or f"{place.cwd}, which is in no repository"
    if event in events:
        runs = "runs" if state.way == "hooks" else "has no hooks yet; with them it would run"
        say(f"{state.host} {runs} ctx at {event}; previewed for {plain(where)}", err=True)
    place_named = (_repository(place) or place.cwd) if event in events else where
    say(told.rstrip() or f"nothing is told {_WHEN[moment]} {plain(place_named)}", whole=bool(told))
    if moment == "start":
        _say_of_start(state.host, options)
    elif not told:
        say("no lesson of this repository speaks of it: ctx learn lists them" if event in events else f"{state.host} asks no hook then")


_WHEN = {
    "start": "when a session starts in",
    "prompt": "at this prompt in",
    "command": "before this command in",
    "failure": "after this failure in",
}


def _repository(place: Place) -> str | None:
    """Return the name of the repository of a place: that of its remote, else its folder; None outside of one."""
    return next(iter((*place.identities, *place.roots)), None)


def _say_of_start(host: str, options: dict[str, str]) -> None:
    """Say what decides on what is told at a start, and what changes it."""
    say()
    told = options.get("start", ACCEPTED)
    if told == ACCEPTED:
        say("At a start only lessons that you accepted are told; without any, nothing. Judge them: ctx learn --ask")
        say(
            f"Also those that two sessions taught: ctx hooks install {host} --start proven (see it first: ctx hooks preview --start proven)"
        )
    elif told == PROVEN:
        say("At a start lessons that you accepted, or that two sessions taught, are told (--start proven)")
    else:
        say(f"At a start no lesson is told (--start nothing); change it: ctx hooks install {host} --start accepted")
    if "handoff" not in options:
        say(
            "Where the last session here ended is not told (off by default);"
            f" begin chats with it: ctx hooks install {host} --handoff (see it first: ctx hooks preview --handoff)"
        )
    say('Other moments: ctx hooks preview "PROMPT", or --at command "COMMAND", or --at failure "COMMAND" --printed "ERROR"')


@hooks.command()
@click.argument("host")
@click.option("--yes", "-y", is_flag=True, help="Accepted as by install; nothing is asked.")
@json_option
def uninstall(host: str, yes: bool, as_json: bool) -> None:  # noqa: ARG001 - nothing is asked
    """Remove the hooks: byte for byte as it was where nobody changed the file since."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import agent_config

    settings = settings_module.load()
    found = agent_config.host_with_hooks(host)
    changes = [c for home in agent_config.homes(settings, found) for c in agent_config.uninstall_hooks(settings, found, home)]
    _keep_handoffs(settings)
    tell(changes, as_json)


@hooks.command()
@click.argument("host", required=False)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="At most N lines; with --json at most N injections."
)
@json_option
def status(host: str | None, limit: int, as_json: bool) -> None:
    """Show where hooks are installed, which memories reached which session, and whether they were used.

    Use is judged by every run, from what the session shows afterwards: each outcome
    names the events that show it (--json has them all).
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import agent_config
    from ctx_pipeline.learning.injection import HOOKED, injections, shares

    settings = settings_module.load()
    chosen: list[Host] = [agent_config.host_with_hooks(host)] if host else [h for h in discovery.hosts().values() if h.agent.hooks]
    states = [agent_config.hook_state(h, home) for h in chosen for home in agent_config.homes(settings, h)]
    keys = {h.key for h in chosen}
    told = [i for i in injections(limit=limit if not host else 1000, settings=settings) if i.get("host") in keys][:limit]
    if as_json:
        hosts = [{**_state(s), "stale": _stale(settings, s.options) or None} for s in states]
        emit({"hosts": hosts, "injections": told, "in_all": shares(settings=settings)})
        return
    rows = [{**_state(s), "events": ", ".join(s.events), "way": s.way or "not installed"} for s in states]
    table(rows, {"host": "host", "way": "way", "path": "file", "events": "events"})
    for s in states:
        if s.problem:
            say(one_line(s.problem, 300), fg="yellow")
        elif s.missing:
            say(f"not installed: {', '.join(s.missing)}; install them: ctx hooks install {s.host}", fg="yellow")
        if older := agent_config.older_hooks(s):
            say(one_line(older, 400), fg="yellow")
        if s.way == "hooks":
            say(f"{s.host} is told: {'; '.join(_in_words(s.options, agent_config.hooks_of(discovery.host(s.host)), s.events, s.lacking))}")
        elif s.way:
            say(f"{s.host}: {_looked_up(s.options)}")
        if stale := _stale(settings, s.options):
            say(f"{s.host}: {stale}; install what it says: ctx hooks install {s.host} --precision {s.options['precision']}", fg="yellow")
    _warn(states)
    if quiet := [s.host for s in states if s.way != "hooks" or not s.options.get("handoff")]:
        say(f"each new chat begins with where the last session here ended: ctx hooks install {quiet[0]} --handoff")
    say()
    rows = [
        {
            **i,
            "at": local_time(i["at"], settings.timezone),
            "told": "withheld" if i["withheld"] else "told" if i["event"] in HOOKED else "asked",
            "memory": m["memory_id"],
            "used": _used(i, m),
        }
        for i in told
        for m in i["memories"]
    ][:limit]
    if rows:
        columns = {
            "at": "when",
            "host": "host",
            "session_id": "session",
            "event": "at",
            "told": "what",
            "memory": "memory",
            "used": "used",
        }
        table(rows, columns)
        say(f"times in {zone_name(settings.timezone)}")
        _tell_shares(shares(settings=settings))
    else:
        say("no memory was injected yet")


def _used(injection: dict[str, Any], memory: dict[str, Any]) -> str:
    """Return what became of a memory, with the first event that shows it."""
    if injection["withheld"]:
        return ""
    outcome = memory["outcome"]
    shown = (memory["evidence"] or {}).get(outcome) or [""]
    return f"{outcome} {shown[0]}".rstrip() if outcome else "not judged yet"


def _tell_shares(found: dict[str, Any]) -> None:
    share = found["withheld_share"]
    if share is not None:
        sessions = f"{found['sessions_told']:,} session{'s' * (found['sessions_told'] != 1)}"
        say(f"hooks told {sessions} and withheld from {found['sessions_withheld']:,} ({100 * share:.0f}%)")
    outcomes = ", ".join(f"{name} {count:,}" for name, count in found["outcomes"].items())
    say(f"of {found['memories_told']:,} memories told, {found['memories_judged']:,} judged" + (f": {outcomes}" if outcomes else ""))


def _state(state: Any) -> dict[str, Any]:
    return {
        "host": state.host,
        "path": str(state.path),
        "way": state.way,
        "events": state.events,
        "missing": state.missing,
        "lacking": state.lacking,
        "problem": state.problem,
        "options": state.options,
        "off": state.off,
    }
