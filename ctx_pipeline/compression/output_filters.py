"""How each kind of command's output is shortened: what is dropped and counted, and what is written in fewer words."""

from __future__ import annotations

import json
import re
from posixpath import commonpath, normpath
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.failure_lines import cut, failures, wrong
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable


class Filtered(NamedTuple):
    """Lines that stay, each a line of the output or a note of what stood there; ``exact`` says that nothing was left out."""

    lines: list[str]
    exact: bool = False


def without(lines: list[str], routine: Callable[[str], object], what: str, named: Callable[[list[str]], str] = lambda _: "") -> Filtered:
    """Return the lines without routine ones, which are counted where they stood; one that tells of a failure is none.

    ``named`` says what a count names of the lines that it stands for.
    """
    kept: list[str] = []
    dropped: list[str] = []
    left_out = False

    def note() -> None:
        nonlocal left_out
        if dropped:
            said = f"[{len(dropped)} {what if len(dropped) > 1 else what.replace('lines', 'line', 1)}{named(dropped)}]"
            alone = len(dropped) == 1 and len(dropped[0]) <= len(said)
            kept.append(dropped[0] if alone else said)
            left_out |= not alone
        dropped.clear()

    passed = bytearray(map(bool, map(routine, lines)))
    for place in failures(lines, (place for place, passes in enumerate(passed) if passes)):
        passed[place] = False
    for line, passes in zip(lines, passed, strict=True):
        if passes:
            dropped.append(line)
        elif line.strip() or not dropped:
            note()
            kept.append(line)
    note()
    return Filtered(kept, exact=not left_out)


_PASSED = lazy_pattern(r"\bPASSED\b(?:\s*\[\s*\d+%\])?\s*$")
_NO_TESTS = "[no tests to run]"
_STARTS = lazy_pattern(r"^=== (?:RUN|PAUSE|CONT|NAME)|^\s*\[ RUN")
_WITHOUT_TESTS = lazy_pattern(r"\[?no test(?: file)?s(?: to run)?\]?$")
"""Lines among passes that tell of none: a test that starts, a package without tests."""

_PASSES = lazy_pattern(
    r"(?x)^\s*(?:✓|✔|√|ok\ \d+\b|===\ (?:RUN|PAUSE|CONT|NAME))|^\s*---\ PASS:|^PASS$"
    r"|^(?:test\ )?[\w:<>,\ /.-]+\ \.\.\.\ ok$|^[\w./-]+\.py\ [.sxX]+\s*(?:\[\s*\d+%\])?$|^[.sxX]+\s*\[\s*\d+%\]$|^\s*PASS\s+\S+"
    r"|^ok\s+\S+\s+(?:\(cached\)|[\d.]+m?s)(?!.*coverage:)|^\?\s+\S+\s+\[no\ test\ files\]"
    r"|^testing:\ warning:\ no\ tests\ to\ run$"
    r"|^\s*\d+/\d+\ Test\s+\#\d+:\ .*\ Passed\s+[\d.]+\ sec$"
    r"|^\s*\[\s*(?:RUN|OK|-{6,}|={6,})\s*\]|^test\ \S+\ \.\.\.\ ok"
)
_BUILD = lazy_pattern(
    r"^\s*(?:Compiling|Checking|Downloaded|Downloading|Fresh|Building|Updating|Locking|Adding|Blocking|Unpacking|Fetching|Linking)\s+\S"
    r"|^\[\d+/\d+\] |^\[\s*\d+%\] (?:Building|Linking|Built)|^(?:CC|CXX|LD|AR)\s+\S"
    r"|^> Task :\S+( UP-TO-DATE| NO-SOURCE)?$|^go: downloading "
    r"|^\[INFO\] (?:-{5,}|Download(?:ing|ed) |$)|^Download(?:ing|ed)(?: from)? "
)
_ANY = lazy_pattern(
    r"^(?:\[[\w:./-]+\]|\s*[\w.-]+ [\u2013|-])?\s*(?:Compiling|Checking|Downloaded|Downloading|Fresh|Unpacking|Fetching|Locking|Adding) "
    r"(?:[\w.-]+ )?v?\d|^\s*[\u2800-\u28ff] |^\s*[✔✓\u276f] |^[\w .@\u2013-]+\[[=> ]+\]\s+\d+/\d+"
    r"|^\s*[\w\u2013.-][\w\u2013. -]* \u2013 \d+ files? \u2013 |^ (?:create|delete) mode \d+ |^ [+*=] \[new (?:branch|tag|ref)\]"
    r"|^##\[(?:group|endgroup|debug)\]|^Generated an empty chunk"
    r"|^\s*(?:remote: )?(?:Enumerating|Counting|Compressing|Receiving|Resolving|Writing|Unpacking|Updating files)[ \w]*:\s"
    r"|^\s*\d{1,3}%(?:\|\d?[ #\u2588-\u258f]+\d? *\| | ?\[?[█#=>.-]{2,})|^\s*\d{1,3}(?:\.\d)?% \S* ?\[[#=> -]*\]"
)
"""Progress that any command may print: of what it starts, of hooks, of steps of a runner."""

_INSTALL = lazy_pattern(
    r"^\s*(?:Collecting|Downloading|Downloaded|Using cached|Requirement already satisfied|Obtaining|Preparing metadata|Building wheel"
    r"|Created wheel|Stored in directory|Installing build|Getting requirements|Get:\d+|Hit:\d+|Ign:\d+|Selecting previously"
    r"|Preparing to unpack|Unpacking|Setting up|Processing triggers|Reading (?:package|state)|Building dependency|Fetching"
    r"|Extracting|Attempting uninstall"
    r"|Found existing|Uninstalling|Successfully uninstalled|npm (?:http|timing|sill|verb)|Resolving|Progress: resolved|Packages: \+|\++$"
    r"|Compiling|Building|Updating|Adding|Locking)\b|^\s*[━╸╺\-#=]{6,}|^ [+~] [\w@./-]+(?:==|@)[\w.+-]+$|\b\d+%\|"
)
_GIT = lazy_pattern(
    r"^(?:remote: )?(?:Enumerating|Counting|Compressing|Receiving|Resolving|Writing|Unpacking|Updating files|Filtering content)"
    r"[ \w]*:\s|^Delta compression|^(?:remote: )?Total \d+ \(delta|^index [0-9a-f]{7,40}\.\.[0-9a-f]{7,40}|^similarity index"
    r"|^  \(use \"git |^\s*$"
    r"|^\s*(?:\S+/)?[\w.@+-]+\.\w+\s+[\d.,]+ [kM]?B\b"  # what a build that a hook starts wrote
)
_DOCKER = lazy_pattern(
    r"^#\d+ (?:sha256:|transferring|extracting|resolve |CACHED|\d+\.\d+ (?:Get:|Hit:|Selecting|Preparing|Unpacking|Setting up))|^#\d+ DONE"
    r"|^[0-9a-f]{12}: (?:Pulling|Waiting|Verifying|Download|Extracting|Pull complete|Already exists|Layer already|Preparing|Pushed)"
    r"|^ ?=> (?:CACHED|\[internal\]|=> )"
)


def _passes(line: str) -> bool:
    return bool(("PASSED" in line and _PASSED.search(line)) or _PASSES.match(line) or line.endswith(_NO_TESTS))


_PACKAGE = lazy_pattern(r"^ok\s+([\w.-]+\.\w+/\S+)\s")
_MOST_PACKAGES = 12


def _named(passed: list[str]) -> str:
    """Return what a count of passes says of its lines: how many tell of no pass, and of Go the packages."""
    kinds = ((_STARTS, "of starts"), (_WITHOUT_TESTS, "without tests"))
    counts = [f", {n} {what}" for pattern, what in kinds if (n := sum(1 for line in passed if pattern.search(line)))]
    return "".join([*counts, _packages(passed)])


def _packages(passed: list[str]) -> str:
    """Return the packages of Go among passes, below the folder that they share: their paths are what files import."""
    paths = list(dict.fromkeys(normpath(match[1]) for line in passed if (match := _PACKAGE.match(line))))
    shared = commonpath(paths) if len(paths) > 1 else ""
    if not shared:
        return ""
    names = ["." if path == shared else path.removeprefix(f"{shared}/") for path in paths]
    more = f" and {len(names) - _MOST_PACKAGES} more" if len(names) > _MOST_PACKAGES else ""
    return f", in {shared}/: {' '.join(names[:_MOST_PACKAGES])}{more}"


def tests(lines: list[str]) -> Filtered:
    """Leave out passes and what was compiled for them."""
    first = without(lines, _passes, "lines of passes", _named)
    second = without(first.lines, _BUILD.match, "lines of progress")
    return Filtered(second.lines, first.exact and second.exact)


def builds(lines: list[str]) -> Filtered:
    """Leave out progress of compilers, linters and type checkers."""
    return without(lines, _BUILD.match, "lines of progress")


def installs(lines: list[str]) -> Filtered:
    """Leave out progress of package managers."""
    return without(lines, _INSTALL.search, "lines of progress")


_HEADS = lazy_pattern(r"^[A-Z][A-Z0-9()%/-]*(?: [A-Z0-9()%/-]+)*(?: {2,}[A-Z][A-Z0-9()%/-]*(?: [A-Z0-9()%/-]+)*)+\s*$")
"""The first line of a table of containers, pods, images: names of columns in capitals, two blanks and more apart."""

_WELL = lazy_pattern(r"^(?:Running|running|Ready|Up\b(?!.*(?:unhealthy|starting|Paused|Restarting)).*)$")
_WIDE_GAP = lazy_pattern(r"(?<=\S) {3,}(?=\S)")
_MOST_WELL, _FIRST_WELL = 7, 2
"""Rows in a row of which all is well that stay, and those that stay of more."""


def containers(lines: list[str]) -> Filtered:
    """Leave out progress of layers, and count rows of which all is well; columns stand two blanks apart, what is not well as it is."""
    kept = without(lines, _DOCKER.match, "lines of progress")
    found: list[str] = []
    heads: dict[str, slice] = {}
    well: list[str] = []
    counted = False

    def close() -> None:
        nonlocal well, counted
        if len(well) > _MOST_WELL:
            counted = True
            well = [*well[:_FIRST_WELL], f"[{len(well) - _FIRST_WELL} rows that run or are ready, without restarts]"]
        found.extend(well)
        well = []

    for line in kept.lines:
        cells = _cells(line, heads)
        if cells and _is_well(cells) and not wrong(line):
            well.append("  ".join(cell or "-" for cell in cells.values()))
            continue
        close()
        told = not cells or ("STATUS" not in cells and "READY" not in cells)
        if _HEADS.match(line):
            heads = _columns(line)
        found.append(_WIDE_GAP.sub("  ", line) if told and "   " in line else line)
    close()
    return Filtered(found, kept.exact and not counted)


def _columns(line: str) -> dict[str, slice]:
    """Return where each column of a table stands."""
    starts = [(m[0], m.start()) for m in re.finditer(r"\S+(?: \S+)*", line)]
    ends = [start for _, start in starts[1:]]
    return {name: slice(start, end) for (name, start), end in zip(starts, [*ends, None], strict=True)}


def _cells(line: str, heads: dict[str, slice]) -> dict[str, str]:
    """Return the cells of a row that stands below its heads; empty for a line that does not."""
    starts = [place.start for place in heads.values() if place.start]
    if not line.strip() or not heads or any(line[start - 1 : start].strip() for start in starts):
        return {}
    return {name: line[place].strip() for name, place in heads.items()}


def _is_well(cells: dict[str, str]) -> bool:
    """Tell whether a row is of something that runs or is ready, all of it, and was never started again."""
    status, restarts = cells.get("STATUS"), cells.get("RESTARTS", "0")
    ready, _, all_of_it = cells.get("READY", "").partition("/")
    whole = ready == all_of_it != "0" if "READY" in cells and all_of_it else status is not None
    return whole and restarts == "0" and (status is None or _WELL.match(status) is not None)


def progress(lines: list[str]) -> Filtered:
    """Leave out progress that any command may print."""
    return without(lines, _ANY.match, "lines of progress")


_BLOBS = lazy_pattern(r"^index [0-9a-f]{7,40}\.\.[0-9a-f]{7,40}")
_COMMIT = lazy_pattern(r"^commit ([0-9a-f]{7,40})(.*)$")


def git(lines: list[str]) -> Filtered:
    """Leave out progress, hashes of blobs and hints; a commit of a log stands in one line with its words below."""
    if any(line.startswith(("diff --git ", "@@ ")) for line in lines):  # what stands in a hunk is text of files
        return Filtered([line for line in lines if not _BLOBS.match(line)])
    kept = without(lines, _GIT.match, "lines of progress").lines
    kept = [line for line in kept if not line.endswith("lines of progress]")]
    found: list[str] = []
    at = 0
    while at < len(kept):
        head = _COMMIT.match(kept[at])
        about = {}
        at += 1
        if head is None:
            found.append(kept[at - 1])
            continue
        while at < len(kept) and (match := re.match(r"^(Author|Date|AuthorDate|Merge|Commit|CommitDate):\s+(.*)$", kept[at])):
            about[match[1]] = match[2]
            at += 1
        author = re.sub(r"\s*<[^>]*>", "", about.get("Author", ""))
        found.append(f"{head[1][:12]}{head[2]} {author} {about.get('Date', about.get('AuthorDate', ''))}".rstrip())
    return Filtered(found, exact=False)


_STEP = lazy_pattern(r"^(\d{1,7}[:-])?([^\t\n]{1,200})\t([^\t\n]{1,200})\t\ufeff?(?:\d{4}-\d\d-\d\dT[\d:.]+Z ?)?(.*)$")
_STAMP = lazy_pattern(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]+Z ?")
_LEAST_SEEN = 12
"""Characters from which on a line that stood before is not said again."""


def logs(lines: list[str]) -> Filtered:
    """Say job and step of a log once and no times, the number of a line before its text; what stood before is said the first time."""
    found: list[str] = []
    place, seen, again, exact = "", set[str](), 0, True
    for line in lines:
        match = _STEP.match(line)
        if match is not None and f"{match[2]} / {match[3]}" != place:
            place = f"{match[2]} / {match[3]}"
            found.append(f"{place}:")
        number, text = (match[1] or "", match[4]) if match else ("", _STAMP.sub("", line))
        exact = exact and match is None and text == line
        if len(text) >= _LEAST_SEEN and text in seen and not wrong(text):
            again += 1
            continue
        if again:
            found.append(f"[{again} line{'s' * (again > 1)} as above]")
            again, exact = 0, False
        seen.add(text)
        found.append(f"{number}{text}")
    return Filtered([*found, *([f"[{again} line{'s' * (again > 1)} as above]"] if again else [])], exact and not again)


_HIT = lazy_pattern(r"^((?:\.{0,2}/)?[^\s:][^:\n]{0,300}?):(\d{1,7})([:-])(.*)$")
_MANY_HITS, _HITS_A_FILE, _LONGEST_HIT = 60, 6, 200
_WHOLE_HITS = 80
"""Hits with their text from which on of a further file one is told, and where the rest are."""

_DECLARED = lazy_pattern(
    r"\b(?:fn|def|func|function|class|struct|enum|trait|interface)\s+([A-Za-z_]\w{3,60})(?!\w)"
    r"(?=\s*(?:[\[(<:{=;]|$)|\s+(?:extends|implements)\s)"
)
"""The name that a hit declares: it is what such a search asks for. In prose nothing of a declaration follows the word."""


def hits(lines: list[str]) -> Filtered:
    """Say the path of hits once, with line and text of each below it; of very many the first ones in each file, and where the rest are."""
    found: list[str] = []
    path, here, rest = "", 0, list[str]()
    exact, told = True, 0
    many = sum(1 for line in lines if _HIT.match(line)) > _MANY_HITS

    def close() -> None:
        nonlocal here, rest
        if rest:
            found.append(f" [{len(rest)} more: {' '.join(rest)}]")
        here, rest = 0, []

    for line in lines:
        match = _HIT.match(line)
        if match is None:
            close()
            path = ""
            found.append(line)
            continue
        if match[1] != path:
            close()
            path = match[1]
            found.append(path)
        here += 1
        text = match[4].strip() if many else match[4]
        if many and len(text) > _LONGEST_HIT:
            text = f"{text[:_LONGEST_HIT]}…"
        exact = exact and text == match[4]
        if many and here > (_HITS_A_FILE if told < _WHOLE_HITS else 1):
            declared = _DECLARED.search(text)
            rest.append(f"{match[2]} {declared[1]}" if declared else match[2])
            exact = False
        else:
            told += 1
            found.append(f" {match[2]}{match[3]}{text}")
    close()
    return Filtered(found, exact)


_LONG_LIST = lazy_pattern(
    r"^([bcdlps-])[rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+([\d.,]+[BKMGT]?)\s+(\w{3}\s+\d+\s+[\d:]+|\d{4}-\d\d-\d\d \d\d:\d\d\S*)\s+(.+)$"
)


def listings(lines: list[str]) -> Filtered:
    """Say names and sizes of long listings, and paths under the folder they share."""
    if any(_LONG_LIST.match(line) for line in lines):
        made = []
        for line in lines:
            match = _LONG_LIST.match(line)
            if match is None:
                made.append(line)
            elif match[4] not in (".", ".."):
                made.append(f"{match[4]}/" if match[1] == "d" else f"{match[4]} {match[2]}")
        return Filtered([line for line in made if not re.fullmatch(r"total \d+\w?", line)], exact=False)
    if len(lines) < 8 or not all(re.fullmatch(r"\.{0,2}/?[^\s:|]+", line) for line in lines if line):
        return Filtered(lines, exact=True)
    folders: dict[str, list[str]] = {}
    for line in filter(None, lines):
        folder, _, name = line.rpartition("/")
        folders.setdefault(folder, []).append(name)
    return Filtered([f"{folder}/: {' '.join(names)}" if folder else " ".join(names) for folder, names in folders.items()], exact=True)


_TREE = lazy_pattern(r"^((?:[│|]?[\s\xa0]{2,4})*)(?:├──|└──|\|--|`--)[\s\xa0](.*)$")


def trees(lines: list[str]) -> Filtered:
    """Draw a tree with one blank a level."""
    return Filtered([f"{' ' * (len(m[1]) // 4)} {m[2]}" if (m := _TREE.match(line)) else line for line in lines], exact=True)


_COUNTING = lazy_pattern(
    r"(?i)^(?:[^\w\[]|\[(?:[\w:./-]+\])?)*+(?:progress|(?:\S+: still )?(?:build|clon|compil|compress|copy|creat|delet|destroy|download"
    r"|export|extract|fetch|generat|import|index|install|link|load|modify|optimi[sz]|process|pull|push|receiv|render|resolv|scann|sync"
    r"|transferr|transform|unpack|updat|upload|wait|writ)ing)\b"
)
_AMOUNT = lazy_pattern(
    r"(?i)\d+(?:\.\d+)?\s?%|\d+(?:\.\d+)?\s?[kMGT]?i?B(?:/s)?\b|\d+\s?(?:/|of)\s?\d+|\[[\dhms ]+ elapsed\]|\bETA:? [\d:hms]+"
    r"|[.#=>\u2588-\u258f]{2,}"
)
"""What a line of progress counts: shares, sizes, parts of a whole, times."""


_DIGITS = lazy_pattern(r"\d+")


def _form(line: str) -> str:
    """Return a pass without its numbers, progress without what it counts; any other, whose numbers may be wanted, as it is."""
    if _passes(line):
        return _DIGITS.sub("0", line)
    return _AMOUNT.sub("", line) if _COUNTING.match(line) else line


def repeated(lines: list[str]) -> Filtered:
    """Say a line that stands several times in a row once with its count, and of passes and progress that counts the first line."""
    found: list[str] = []
    last, count = "", 0
    for line in [*lines, "\0"]:
        form = _form(line)
        if form == last and line.strip() and not wrong(line):
            count += 1
            continue
        if count:
            found.append(f"[{count} more like it]")
        last, count = form, 0
        found.append(line)
    return Filtered(found[:-1], exact=len(found) - 1 == len(lines))


_JSON_LINE = 1_000
"""Characters of JSON that stand in one line; of more each member has its own, so that a long text does not hide what follows it."""


def as_json(text: str, widest: int = _JSON_LINE, longest: int | None = None) -> str | None:
    """Return JSON without indentation, objects of one shape under one head, lines of at most about ``widest``; None for what is none.

    Texts of more than ``longest`` characters are cut.
    """
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return None
    try:
        value = json.loads(bare)
        return "\n".join(_packed(value if longest is None else _with_short_texts(value, longest), widest))
    except (ValueError, RecursionError):
        return None


def _with_short_texts(value: Any, longest: int) -> Any:
    if isinstance(value, dict):
        return {key: _with_short_texts(one, longest) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_short_texts(one, longest) for one in value]
    return cut(value, longest) if isinstance(value, str) else value


def _packed(value: Any, widest: int) -> list[str]:
    """Return a value in one line, or in one for each of its members where that would be long."""
    if isinstance(value, list) and (rows := _rows(value)):
        return rows
    plain = _one_line(value)
    if len(plain) <= widest or not isinstance(value, dict | list):
        return [plain]
    members = [(f"{_dumped(key)}:", one) for key, one in value.items()] if isinstance(value, dict) else [("", one) for one in value]
    found = []
    for head, member in members:
        first, *rest = _packed(member, widest)
        found += [f"{head}{first}", *rest]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    found[0], found[-1] = f"{opening}{found[0]}", f"{found[-1]}{closing}"
    return found


_LEAST_ROWS, _LEAST_PREFIX = 3, 12


def _rows(value: list[Any]) -> list[str]:
    """Return a list of objects as a head and a row for each, those with the same keys together; empty where few have the same."""
    shapes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in value:
        if not isinstance(one, dict) or not one:
            return []
        shapes.setdefault(tuple(one), []).append(one)
    if len(value) < _LEAST_ROWS or len(value) < _LEAST_ROWS * len(shapes):
        return []
    return [line for members in shapes.values() for line in _table(members)]


def _table(members: list[dict[str, Any]]) -> list[str]:
    """Return objects with the same keys: what they have in common in the head, the rest in a row each."""
    heads, columns = [], []
    for key, values in _columns_of(members):
        cells = [_one_line(value) for value in values]
        ordered, few = sorted(cells), len(cells) // 8
        start = _start(ordered[few], ordered[-1 - few])
        if len(members) > 1 and len(set(cells)) == 1:
            heads.append(f"{key}={cells[0]}")
        elif len(members) > 1 and len(start) >= _LEAST_PREFIX and start.startswith('"') and "\\" not in start:
            heads.append(f"{key}={start}…")
            columns.append([f"…{cell[len(start) : -1]}" if cell.startswith(start) else cell for cell in cells])
        else:
            heads.append(key)
            columns.append(cells)
    return [f"[{len(members)} objects] {','.join(heads)}", *(",".join(row) for row in zip(*columns, strict=True))]


def _columns_of(members: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the values of each key; those of objects with the same keys inside of them as ``key.inner``."""
    found: list[tuple[str, list[Any]]] = []
    for key in members[0]:
        values = [one[key] for one in members]
        if all(isinstance(value, dict) and value for value in values) and len({tuple(value) for value in values}) == 1:
            found += [(f"{key}.{inner}", held) for inner, held in _columns_of(values)]
        else:
            found.append((key, values))
    return found


def _start(first: str, last: str) -> str:
    """Return what two of sorted texts, and so all between them, begin with; a number is in no part of it."""
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same].rstrip("0123456789")


def _one_line(value: Any) -> str:
    """Return a value in one line; a list of objects with the same keys says them once."""
    if isinstance(value, list) and len(value) >= _LEAST_ROWS and all(isinstance(one, dict) and one for one in value):
        shapes = {tuple(one) for one in value}
        if len(shapes) == 1:
            rows = [",".join(_one_line(cell) for cell in one.values()) for one in value]
            return f"[{','.join(shapes.pop())}: {' '.join(f'({row})' for row in rows)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dumped(key)}:{_one_line(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_one_line, value))}]"
    return _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


FILTERS: dict[str, Callable[[list[str]], Filtered]] = {
    "test": tests,
    "lint": builds,
    "types": builds,
    "build": builds,
    "check": tests,
    "install": installs,
    "git": git,
    "search": hits,
    "list": listings,
    "tree": trees,
    "container": containers,
    "log": logs,
}
"""Kind of command -> what shortens its output."""
