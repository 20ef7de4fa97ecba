"""What sessions of a project did alike: the commands with which they check, and the order that they keep."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.lessons.commands import SHELL_WORDS, checks_format, formats
from ctx_pipeline.mining.lessons.session_checks import BUILT, OF_PACKAGE, ORDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.memories import StoredCandidate

HOW = {
    "tests": "run the tests with",
    "lint and format": "lint with",
    "format": "format with",
    "format check": "check the formatting with",
    "type check": "check the types with",
    "checks": "check the work with",
    "build": "build with",
}

LAUNCHED = re.compile(r"^(?:(?:uv|poetry|pipenv|rye|hatch|pdm|pixi|bundle)\s+(?:run|exec)|npx|bunx|pnpx|uvx|python3?\s+-m)\s+")
"""What starts a program in the project's environment: the same check with and without it."""

ANYBODY = re.compile(
    r"(?:npm|pnpm|yarn|bun)(?: run)? (?:test|build|lint|start)|cargo (?:test|build|check|clippy|fmt)(?: --all)?(?: --check)?"
    r"|go (?:test|build|vet) \./\.\.\.|gofmt -[lw] \.|(?:python3? -m )?pytest|make(?: (?:test|build|all))?"
    r"|(?:mvn|gradle|\./gradlew|\./mvnw) (?:test|build|package)|dotnet (?:test|build)|mix test|rake(?: test)?|swift (?:test|build)"
)
"""What anybody tries first in a project of its kind: a lesson that says no more than this says nothing."""

ANYBODYS_PART = re.compile(
    r"(?:python3? -m )?pytest(?: FILE(?:::NAME)?)*(?: -k NAME)?|cargo test NAME|go test (?:-run NAME )?\./path/(?:\.\.\.)?(?: -run NAME)?"
)
"""How anybody runs some of the tests."""

LEAST, _ORDERED, _CLEAR = 2, 3, 0.75
"""Sessions that make a habit, sessions that make an order, and the share of sessions with the same checks that keep it."""

_TIED, _FOLLOWS = 0.75, 0.5
"""Share of the most frequent command's sessions from which another one is as much the habit, and from which it has taken its place."""

MOST_OTHERS = 2


class Habit(NamedTuple):
    """What sessions of a repository did alike."""

    kind: str
    text: str
    commands: list[str]
    narrowed: str
    share: float
    kept: list[StoredCandidate]
    known: int
    """sessions that bear it out, those with the command that it took the place of among them"""
    counts: dict[str, int] = {}  # noqa: RUF012 - a named tuple's default, never changed
    """sessions by command"""
    parts: list[str] = []  # noqa: RUF012 - a named tuple's default, never changed
    """how some of the tests are run, where that is all that is known"""


def is_anybodys(habit: Habit) -> bool:
    """Tell whether a habit is what anybody would try, of all tests and of some."""
    narrowed = habit.parts or ([habit.narrowed] if habit.narrowed else [])
    return all(map(ANYBODYS_PART.fullmatch, narrowed)) and all(map(ANYBODY.fullmatch, habit.commands))


class _Used(NamedTuple):
    """A command with the sessions that ran it, oldest first."""

    text: str
    by: list[StoredCandidate]

    @property
    def does(self) -> str:
        """What its runner last said that it runs, which is compared and never told; empty where none did."""
        return next((str(c.body["does"][self.text]) for c in reversed(self.by) if self.text in c.body.get("does", ())), "")


def _used(members: Sequence[StoredCandidate], name: str, wanted: Callable[[str], bool], least: int) -> list[_Used]:
    """Return the commands that enough sessions ran, the most frequent first, as most of them spelled them.

    One that passed somewhere is borne out, too, by a session in which it failed with findings.
    """
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    newest: dict[str, int] = {}
    by: dict[str, dict[str, StoredCandidate]] = defaultdict(dict)
    for c in members:
        for text in c.body.get(name, ()):
            if wanted(text):
                key = LAUNCHED.sub("", text)
                spelled[key][text] += 1
                newest[text] = c.ts or 0
                by[key][c.candidate_id] = c
    for c in members:
        for key in {LAUNCHED.sub("", text) for text in c.body.get("reported", ())} & by.keys():
            by[key][c.candidate_id] = c
    found = [
        _Used(max(spelled[key], key=lambda text: (spelled[key][text], newest[text])), sorted(who.values(), key=lambda c: c.ts or 0))
        for key, who in by.items()
        if len(who) >= least
    ]
    return sorted(found, key=lambda u: -len(u.by))


def _kind_of(subject: str, text: str) -> str:
    """Return what a command is told as: of linters apart those that format, and those that only look whether it is formatted."""
    if subject != "lint and format" or not (formats(text) or checks_format(text)):
        return subject
    return "format check" if checks_format(text) else "format"


def conventions(subject: str, members: Sequence[StoredCandidate], least: int = LEAST) -> Iterator[Habit]:
    """Yield the habits of one kind of check: what enough sessions ran, and how they ran some of it."""
    part = _used(members, "narrowed", lambda _: True, least)
    narrowed = part[0].text if part else ""
    told = False
    for name in (subject, "format", "format check") if subject == "lint and format" else (subject,):
        ranked = _used(members, "commands", lambda text, name=name: _kind_of(subject, text) == name, least)  # type: ignore[misc]
        # how one package is checked takes no place of how the whole is
        ranked = [u for u in ranked if not OF_PACKAGE.search(u.text)] or ranked
        ranked = ranked or _added_up(_used(members, "commands", lambda text, name=name: _kind_of(subject, text) == name, 1), least)  # type: ignore[misc]
        if not ranked:
            continue
        told = True
        total = sum(any(_kind_of(subject, text) == name for text in _ran(c)) for c in members)
        total = len(members) if subject == "tests" else total
        yield _habit(name, HOW[name], ranked, total, narrowed)
    if part and not told:
        habit = _habit(subject, "run some of the tests with", part, len(members), "")
        yield habit._replace(commands=[], narrowed=narrowed, parts=habit.commands)


def _ran(c: StoredCandidate) -> tuple[str, ...]:
    """Return the whole commands that a session ran to their end, with findings or without."""
    return (*c.body.get("commands", ()), *c.body.get("reported", ()))


def _added_up(used: Sequence[_Used], least: int) -> list[_Used]:
    """Return a command whose calls with other options make it a habit, and those that choose tests by a marker, the newest first.

    One session at least ran it without options; the most sessions decide between two.
    """
    found: list[list[_Used]] = []
    for bare in used:
        others = [u for u in used if u is not bare and _only_adds_options(bare.text, u.text)]
        by = {c.candidate_id: c for u in (bare, *others) for c in u.by}
        if others and len(by) >= least:
            marked = sorted((u for u in others if _MARKER in _check(u.text)), key=lambda u: -(u.by[-1].ts or 0))
            found.append([_Used(bare.text, sorted(by.values(), key=lambda c: c.ts or 0)), *marked])
    return max(found, key=lambda group: len(group[0].by), default=[])


def _check(text: str) -> list[str]:
    """Return the words of a command without what launches it."""
    return SHELL_WORDS.findall(LAUNCHED.sub("", text))


def _only_adds_options(bare: str, text: str) -> bool:
    """Tell whether a command is another one with more options, all of which leave it checking the same."""
    rest, words = _check(bare), _check(text)
    known = _OPTIONS | _OPTIONS_OF.get(rest[0].rpartition("/")[2], {})
    while words:
        same = words[:1] == rest[:1]
        length = 1 if same else _option_length(words, known)
        if not length:
            return False
        words, rest = words[length:], rest[same:]
    return not (rest or OF_PACKAGE.search(text) or BUILT.search(text))


def _option_length(words: Sequence[str], known: Mapping[str, re.Pattern[str]]) -> int:
    """Return how many words a known option at the front takes with its value; 0 where there is none."""
    name, equals, value = words[0].partition("=")
    if name not in known:
        return 0
    if equals:
        return int(len(name) > len("-n") and value != "" and bool(known[name].fullmatch(value)))
    after = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    if after and known[name].fullmatch(after):
        return 2
    return int(bool(known[name].fullmatch("")))


def _options(names: str, value: str = "") -> dict[str, re.Pattern[str]]:
    return dict.fromkeys(names.split(), re.compile(value))


_AMOUNT = r"\d+(?:\.\d+)?%?|(?:\d+(?:\.\d+)?(?:ms|[hms]))+|auto|logical"
_OPTIONS = (
    _options(
        "-v -vv -vvv -q -s -x --verbose --quiet --silent --exitfirst --failfast --fail-fast --no-fail-fast -failfast --continue"
        " --no-color --no-colors --pretty --statistics --no-progress --ci --runInBand --release --locked"
        " --frozen --offline --if-present --coverage -race --race -cover -json --no-daemon --show-error-codes --show-error-context"
        " --show-column-numbers --show-source --show-fixes"
    )
    | _options("--color --colors", "|always|never|auto|yes|no")
    | _options("--bail --parallel", f"|{_AMOUNT}")
    | _options("-j --jobs --workers --maxWorkers --max-workers -count -parallel -timeout --timeout", _AMOUNT)
    | _options("--format --output-format --message-format --order --reporter --reporters -shuffle -coverprofile", ".+")
)
"""Options that change what a check prints, how fast, in which order or how far it goes, not what it checks -> the form of their value.

One that matches the empty text stands without a value.
"""

_MARKER = "-m"
_OPTIONS_OF = {
    "pytest": _options("-l --showlocals --no-header --no-summary --no-cov -ra -rA")
    | _options("-n --numprocesses --maxfail --durations --durations-min", _AMOUNT)
    | _options("--tb --dist --show-capture --cov-report", ".+")
    | _options("--cov", ".*")
    | _options(_MARKER, ".+"),
    **dict.fromkeys(("mvn", "mvnw"), _options("-B --batch-mode -ntp --no-transfer-progress")),
}
"""Program -> its own options of that kind; a marker, which chooses tests, is told beside."""


def _habit(name: str, how: str, ranked: Sequence[_Used], total: int, narrowed: str) -> Habit:
    chosen, said = _compared(ranked)
    kept = list({c.candidate_id: c for used in chosen for c in used.by}.values())
    known = {c.candidate_id for used in (*chosen, ranked[0]) for c in used.by}
    text = f"{how} {said}" + (f", only some with `{narrowed}`" if narrowed else "")
    counts = {u.text: len(u.by) for u in ranked}
    return Habit(name, text, [u.text for u in chosen], narrowed, (len(kept) + 1) / (total + 2), kept, len(known), counts)


def _compared(ranked: Sequence[_Used]) -> tuple[list[_Used], str]:
    """Return the commands that are the habit, and how they are told.

    A command that only sessions later than all of the most frequent one's ran has taken its
    place; one that nearly as many sessions ran is told as the other choice, the newer of both
    first unless it only adds to the other; of the rest two are named beside it.
    """
    top, rest = ranked[0], ranked[1:]
    newer = next((u for u in rest if _after(u, top) and len(u.by) >= _FOLLOWS * len(top.by)), None)
    if newer is not None:
        return [newer], f"`{newer.text}` (earlier sessions: `{top.text}`)"
    tied = next((u for u in rest if not _after(top, u) and len(u.by) >= _TIED * len(top.by)), None)
    if tied is not None:
        first, second = sorted((top, tied), key=lambda u: (bool(added_arguments(*_both(top, tied, u))), -(u.by[-1].ts or 0)))
        return [first, second], f"`{first.text}` or `{second.text}`"
    beside = [u for u in rest if not _after(top, u)][:MOST_OTHERS]
    others = ", also " + ", ".join(f"`{u.text}`" for u in beside) if beside else ""
    return [top, *beside], f"`{top.text}`{others}"


def _both(one: _Used, other: _Used, asked: _Used) -> tuple[str, str]:
    """Return what the other of two commands does and what the one that is asked for does."""
    return (one.does if asked is other else other.does), asked.does


def _after(later: _Used, earlier: _Used) -> bool:
    """Tell whether all sessions with a command began after all sessions with another."""
    return min(c.ts or 0 for c in later.by) > max(c.ts or 0 for c in earlier.by)


def kept_order(members: Sequence[StoredCandidate]) -> Habit | None:
    """Return the order of checks that a clear majority of sessions keeps; None where there is none."""
    orders = [tuple(c.body.get("order", ())) for c in members]
    counted = {chosen: sum(_within(chosen, whole) for whole in orders) for chosen in _pieces(orders)}
    clear = [(n, len(chosen), chosen) for chosen, n in counted.items() if n >= _ORDERED and _clear(chosen, counted, orders)]
    if not clear:
        return None
    times, _, chosen = max(clear, key=lambda k: (k[0] * (k[1] - 1), k))
    both = sum(set(chosen) <= set(whole) for whole in orders)
    text = f"in the order {' → '.join(f'`{t}`' for t in chosen)}"
    kept = [c for c, whole in zip(members, orders, strict=True) if _within(chosen, whole)]
    return Habit(ORDER, text, list(chosen), "", (times + 1) / (both + 2), kept, times)


def _clear(chosen: tuple[str, ...], counted: Mapping[tuple[str, ...], int], orders: Sequence[tuple[str, ...]]) -> bool:
    """Tell whether a clear majority keeps an order, in all and of each two."""
    from itertools import combinations

    both = sum(set(chosen) <= set(whole) for whole in orders)
    pairs = ((counted.get(pair, 0), counted.get(pair[::-1], 0)) for pair in combinations(chosen, 2))
    return counted[chosen] >= _CLEAR * both and all(there >= _CLEAR * (there + back) for there, back in pairs)


def _pieces(orders: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    from itertools import combinations

    return {piece for whole in orders for size in range(2, len(whole) + 1) for piece in combinations(whole, size)}


def _within(chosen: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    rest = iter(whole)
    return all(text in rest for text in chosen)


def added_arguments(base: str, other: str) -> list[str]:
    """Return the arguments that a command adds to another one; none where it leaves something out."""
    first, second = base.split(), other.split()
    return [w for w in second if w not in first] if base and set(first) <= set(second) else []
