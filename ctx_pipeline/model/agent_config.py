"""What a host declares of its settings: how a server and hooks are installed there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ServerFile:
    """Where a host reads its MCP servers: one table that maps names to servers."""

    file: str
    """relative to the home"""
    form: str
    """json or toml"""
    table: str
    project_file: str = ""
    """the same for one project, relative to its folder"""
    beside_home: bool = False
    """The file lies beside a home at its default place, and inside one that the environment names."""
    typed: bool = False
    """A server says its transport in ``type``."""


class ReplacedOutput(NamedTuple):
    """The event after a shell command at which a host lets a hook replace what the model reads of its output."""

    event: str
    matcher: str
    output: Callable[[Any], str]
    """the response in the payload -> what the model would read of it; empty where it must stay as it is"""
    answer: Callable[[Any, str], dict[str, Any]]
    """the response and its shortened text -> what the hook prints"""
    note: str
    """What of this host's output is replaced, for the person who is asked."""
    read: Callable[[Any], tuple[str, int, str] | None] = lambda _: None
    """the response of a tool that reads a file -> its path, the number of its first line and its text; None for another"""
    unchanged: Callable[[Any, str], dict[str, Any]] = lambda _, __: {}
    """that response and a notice -> what the hook prints so that the notice stands in place of the text"""
    successes: bool = True
    """The event follows commands that succeeded. Where it follows every one and a payload holds no exit status, what may
    tell of a failure stays: the line that names the status goes with the output."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HookFile:
    """Where a host reads its hooks: a JSON file with ``hooks``: event -> groups -> commands.

    A command gets the payload as JSON on its standard input (``session_id``, ``cwd``,
    ``hook_event_name``, ``prompt``) and may print ``hookSpecificOutput`` with
    ``additionalContext``, which the model then sees.
    """

    file: str
    """relative to the home"""
    events: Mapping[str, str]
    """name of the event -> :data:`WEAVE` or :data:`CAPTURE`"""
    matchers: Mapping[str, str] = field(default_factory=dict)
    """name of the event -> which of its kinds are meant, where the event has kinds"""
    timeout_seconds: int = 10
    program: str = ""
    """Command that prints the host's version, as its first word with ``--version``."""
    since: tuple[int, ...] = ()
    """First version that runs these hooks; empty: every one that is in use."""
    events_since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Name of an event -> first version that takes what its hook says; an older or unknown version does not get it."""
    instructions: str = ""
    """File in the home whose text every session reads; a block in it stands in for hooks before ``since``."""
    note: str = ""
    """What the person must do in the host for the hooks to run."""
    replaces: ReplacedOutput | None = None
    """Where output of commands can be replaced; None where the host takes no replacement."""
    off_switch: str = ""
    """Key of the file that, where it is true, keeps all hooks from running."""


class HeadlessAnswer(NamedTuple):
    """What an agent that was asked without a person said, as its stream tells."""

    text: str
    """its last message; empty when it gave none"""
    model: str | None = None
    input_tokens: int = 0
    """fresh, cached and written to the cache together"""
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int | None = None
    """nano-dollars as the agent counts them; None where it does not say"""
    error: str = ""
    """why there is no answer, in the agent's words"""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Headless:
    """How a host's agent is asked one question without a person: the question on standard input, JSON lines on standard output.

    It runs in an empty folder, may use no tool or only read, and leaves no session behind.
    """

    command: tuple[str, ...]
    """program and arguments; ``{schema}`` stands for a file with the JSON schema of the answer"""
    read: Callable[[Iterable[Mapping[str, Any]]], HeadlessAnswer]
    """the records of its stream -> what it said"""
    method: str
    """the mining method that asks this agent"""
    model: tuple[str, ...] = ()
    """arguments that choose a model, ``{model}``; left out where the person chose none"""
    without: tuple[str, ...] = ()
    """variables that it must not see, since they make it take itself for a part of a running session"""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Agent:
    """How the program of a host is reached; what is not declared cannot be done with it."""

    called: tuple[str, ...] = ()
    """how a person addresses it at the beginning of a prompt, in small letters"""
    resume: str = ""
    """command that resumes a session, with ``{session_id}``"""
    unarchive: str = ""
    """command that makes an archived session one that can be resumed again; {session_id} stands for its id"""
    resume_in_folder: bool = False
    """it finds a session only from the folder in which it began, or goes on working where it is started"""
    rules_file: str = ""
    """File of a repository whose text every session in it reads."""
    session_env: tuple[str, ...] = ()
    """variables that it sets for programs it starts: the id of the session, or thread, that is going on"""
    server: ServerFile | None = None
    """where it reads which MCP servers to start"""
    hooks: HookFile | None = None
    """where it reads which commands to run at which moments of a session"""
    headless: Headless | None = None
    """how it is asked one question without a person"""
