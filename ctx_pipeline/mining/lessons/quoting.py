"""What of a tool's output or a file a lesson may quote: judged by the form of its words, whatever language they are in.

Whoever controls an output can print any sentence, in any language. So nothing is looked
for that sounds like an order: quoted is a line whose words are those that tools report
errors with, names of code, paths and numbers, and at most one word beyond them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.model.display import HIDDEN
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ctx_pipeline.model.session_view import SessionView

_ERROR_TEXT = """
    a aborted abstract accept accepted accepts access accessible actual additional address after all allocate allowed already
    ambiguous an and annotation any applied apply are argument arguments array arrays as assert assertion assertionerror
    assign assigned assigning assignment at attempt attempted attempting attribute attributes authentication available await
    awaited bad bash be been before between binary bind block body boolean borrow borrowed bound brace bracket branch broken
    buffer bug build building builtin bus but by byte bytes call callable called calling can can't cannot cargo case cast
    caught caused certificate change changed changes channel char character characters check checked checksum child choice
    choices circular class classes closed closing cluster code collect collected collecting collection column command commands
    commit comparison compatible compile compiled compiler complete condition configuration configured conflict conflicting conflicts
    connect connecting connection const constant constraint constructor contain contained containing contains content context
    convert converting copied core correct corrupt could count crash crashed crates create created creating curl current cycle
    daemon data database dead deadlock debug decimal declaration declare declared decode decoding default define defined
    definition delimiter denied dependencies dependency dereference descriptor destination detected device dial did diff
    differ different differs digit dimension directories directory disk divide division docker does doesn't domain double due
    duplicate duplicated duration during each early edge element elements else empty enable encode encoding end ended ends
    engine enough entries entry enum environment equal equals err err! error errors evaluate evaluating even exceeded exceeds
    except exception exceptions executable exhausted exist existing exists exit exited exits expect expected expecting expects
    export exported expression extension external extra fail failed failing fails failure failures false fatal fault feature
    fetching field fields file filename files final find first fish fixture flag flags float folder following for forbidden
    foreign format formatted found fraction from frozen full func function functions garbage generated generic get given
    global go got graphql greater group had handle handler has hash have head header heap here hint host hostname http https identical
    identifier if ignored illegal implement implementation implemented implements implicit import imported importing imports
    in incompatible incomplete incorrect indent indentation index indices infinite initialize initialized initializer input
    inside instance instances insufficient int integer integration integrity interface internal interrupted into invalid
    invocation io is isn't it item items iterable iterate iterator its job json kept key keys keyword killed kind known ksh label
    large last left length less level lexer libraries library licence license lifetime limit line lines link linked linker
    linking linux list listen listening literal load loading local locale located location lock locked lockfile logs long
    lookup loop lost macro main malformed manifest many map mapped mapping match matched matches matching maximum may member
    memory merge message metadata method methods migration migrations minimum mismatch mismatched missing mode modified module
    modules more most moved multiple mutable mysql name named names namespace native near negative neither nested network new
    newline nil no node nodename non none nonexistent nor not npm null number numbers numeric object objects obligation obsolete of off
    offset ok old on one open opened opening operand operands operation operator option optional options or order original os
    other out output outside over overflow overwritten owned package packages pair panic panicked param parameter parameters
    parent parse parsed parser parsing partial passed password path pathspec pattern peer per permission permissions permitted
    pipe placeholder point pointer points pool port position positional possible possibly postgres precondition predicate
    prefix present previous primary private process produced program progress project properties property protocol provided
    proxy public python quota quote quoted raised range rate reached read reading readonly ready reason received recipe
    recognized record recursion recursive redeclared redefined redis ref reference referenced refs refused regex region
    register registered rejected relation relative repeated replace repository request requested requests required requirement
    requirements reserved reset resolve resolved resolving resource resources response result results return returned
    returning returns root rounding row rows rule run running runtime same satisfies satisfy schema scope script scripts sdk
    section segment segmentation select selected sequence server service servname session set sets setting settings shadow shadowed shape
    shared shell short sig sign signal signature simulator since single size slice socket some source spec specification specified
    specifier spelled sqlite ssh stack stale started state statement static status step still stopped storage stored stream string
    strings struct structure subcommand subset subtype success such suffix suite supported symbol symbols synchronized syntax
    system table tables tag take taken takes target targets task tcp template terminal terminated test tests than that the
    their then there this thread threads throw thrown throws time timed timeout times tls to token tokens too toolchain top
    trace traceback trailing trait traits transaction tree true truncated tuple two type typed types unable unallowed
    unauthorized unavailable unbound uncaught unclosed undeclared undefined under unexpected unformatted unhandled unhashable
    unhealthy unicode unimplemented union unique unit unix unknown unlinked unmatched unquoted unreachable unreadable
    unrecognised unrecognized unreferenced unresolved unsatisfied unset unsupported unterminated until untyped unused unwrap
    unwrapped up usage used uses using val valid validate validation value values variable variables variant verify version
    versions violated violates violation virtual void waiting want warning warnings was wasn't were when where which while
    width will with within without word words workspace worktree wrap written wrong yet zero zip zsh
"""
_WORDS = frozenset(_ERROR_TEXT.split())
"""Words with which compilers, linters, test runners and shells report that something is wrong; none of them tells what to do."""

_KEYWORD_TEXT = """
    abstract and as assert async await bool break case catch char class const continue def default defer del do double elif else
    end enum except export extends extern false final finally float fn for from func function global go if impl implements import
    in inline int interface is isinstance lambda let long match mod module mut namespace new nil none nonlocal not null of or
    override package pass private protected pub public raise range readonly ref require return select self short static str string
    struct super switch then this throw trait true try type typedef typeof union unsafe unsigned use using val var void where
    while with yield
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())

_LONGEST, _LONGEST_NAME, _MOST_PARTS, _MOST_FOLDERS = 2_000, 80, 4, 14
_STRANGE = 1
"""Words beyond all these that a line may have: the name of what is missing, or of the rule."""

_SYMBOLS = frozenset(
    "\u00d7\u2717\u2716\u2718\u2713\u2714\u2502\u2503\u2506\u254e\u256d\u2570\u256e\u256f\u2500\u2501\u2504\u2192\u21d2\u2026\u2022\u00b7\u201c\u201d\u2018\u2019\u00ab\u00bb\u25b2\u25b6\u25cf\u25a0\u26a0\u203a\u2039\u2014\u2013\u2219\u25b8\u2022"
)
_EDGES = "'\"`\u201c\u201d\u2018\u2019\u00ab\u00bb()[]{}<>,;:.!?\u2026|=*~^&+"
_ELEMENT = lazy_pattern(r"(?:^|[\s'\"`(])</?[A-Za-z!?]|-->|\[\[|\]\(|&#|://|\bwww\.")
"""Elements, comments and links, and addresses: none belongs to what went wrong."""

_CLASS = lazy_pattern(r"<class '([A-Za-z_][\w.]{0,39})'>")
"""How Python names a class in an error."""

_BLOB = lazy_pattern(r"(?<![A-Za-z0-9])(?![0-9a-fA-F]+(?![A-Za-z0-9]))[A-Za-z0-9+=]{33,}")
"""So many letters in a row are no word; a hash is."""

_HASH = lazy_pattern(r"(?<![A-Za-z0-9])(?=[a-f]*\d)[0-9a-f]{7,64}(?![A-Za-z0-9])")
_OF_TWO = lazy_pattern(
    r"(?P<q>['`\"])[\w.<>\[\], ]{1,40}(?P=q) (?:object )?has no attribute '\w{1,40}'"
    r"|Formatter would have printed the following content"
    r"|cannot import name '\w{1,40}' from '[\w.]{1,60}'"
    r"|(?:Property|Type|Argument of type) '[\w.<>\[\]|]{1,40}' (?:does not exist on|is not assignable to|is missing in)"
    r" (?:parameter of )?type '[\w.<>\[\]|]{1,40}'"
    r"|requires at least \d{1,3} arg\(s\), only received \d{1,3}$"
    r"|no (?:method|function|field|associated item) (?:named )?`\w{1,40}` (?:found for|on) \w{1,20} `[\w<>:]{1,40}`"
)
"""Messages of compilers that name two things, and one that gives two numbers."""
_CODE = lazy_pattern(
    r"[A-Za-z0-9][./\\:@#$=<>()\[\]{}*_&|-][A-Za-z0-9(]|\w\(\)|^[-_./~@$*&%<]|\d|[a-z][A-Z]|::|^E[A-Z]{3,}$|^[A-Z][A-Za-z]*(?:Error|Exception)$"
)
_NAME = lazy_pattern(r"[\w.@+/-]{1,100}")
_HYPHENS = lazy_pattern(r"[A-Za-z]+(?:-[A-Za-z]+)+")
_HUMPS = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LITERAL = lazy_pattern(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`")
_COMMENT = lazy_pattern(r"\s(?:#\s|//|/\*|--\s|<!--).*$|^\s*(?:#(?![\[!])|//|/\*|\*\s|--\s|<!--).*$")
_PROSE = lazy_pattern(r"(?<![\w.])[A-Za-z']{2,}(?: +[A-Za-z']{2,}){2,}(?![\w(=]|\.\w)")
_MOST_WORDS = 2
"""Words in a row, with keywords between them that do not count, that a line of code may have outside its texts: a type and a name."""

_AROUND = _EDGES + "-#_/\u2013\u2014\u3002\uff0c\u3001\uff1b\uff1a\uff1f\uff01\uff08\uff09\u300c\u300d\u300e\u300f"
_COPIED, _COPIED_SIGNS = 5, 8
"""Words in a row, and signs of a script without blanks, from which on a sentence repeats what it stands in."""


def quotable(line: str) -> bool:
    """Tell whether a line of output has the form of an error: it may be quoted as what a command printed, and as nothing else."""
    line = _CLASS.sub(lambda named: "class" if _few(named[1]) else named[0], line, count=2)
    if len(line) > _LONGEST or HIDDEN.search(line) or _ELEMENT.search(line) or _BLOB.search(line):
        return False
    if not line.isascii() and not all(map(_usual, line)):
        return False
    strange = {word for token in _OF_TWO.sub("error", line).split() if (word := token.strip(_EDGES)) and not _known(word)}
    return len(strange) <= _STRANGE and all(map(_joined, strange))


def _usual(sign: str) -> bool:
    return sign.isascii() or sign in _SYMBOLS


def _known(word: str) -> bool:
    """Tell whether a token is a word of errors, a name of code, a path, a number or a sign."""
    if word.lower() in _WORDS or not any(ch.isalpha() for ch in word) or len(word) == 1:
        return True
    if len(word) > _LONGEST_NAME or _HYPHENS.fullmatch(word) or not _CODE.search(word):
        return False
    folders = re.split(r"[/\\]|::", word)
    return len(folders) <= _MOST_FOLDERS and all(_few(folder) for folder in folders)


def _few(name: str) -> bool:
    """Tell whether a name is made of so few words that it is no sentence."""
    parts = [part for part in _HUMPS.findall(_HASH.sub("", name)) if len(part) > 1 and part.lower() not in ("error", "exception")]
    return len(parts) <= _MOST_PARTS


def _joined(word: str) -> bool:
    return len(word) <= _LONGEST_NAME and len(_HUMPS.findall(word)) < _MOST_PARTS


def a_name(text: str) -> bool:
    """Tell whether a text is a name, as of a folder or a branch, and no sentence: few words, joined by signs."""
    folders = text.split("/")
    return _NAME.fullmatch(text) is not None and len(folders) <= _MOST_FOLDERS and all(len(re.split(r"[-_.+@]", f)) <= 6 for f in folders)


def is_figures(row: str, *, header: bool = False) -> bool:
    """Tell whether a row of a table is one name and its figures: it tells nobody what to do.

    A ``header`` has a name above each of its columns. A name is one word; units are none.
    """
    if HIDDEN.search(row) or _ELEMENT.search(row) or _BLOB.search(row) or "`" in row:
        return False
    if not all(map(_usual, row)) or not all(map(_few, row.split())):
        return False
    cells = [
        [word for token in cell.split() if not _of_a_figure(word := token.strip(_EDGES + "_%"))] for cell in row.strip(" |").split("|")
    ]
    if any(len(words) > 1 or any(map(_spoken, words)) for words in cells):
        return False
    return header or (sum(map(len, cells)) <= 1 < len(cells) and any(map(str.isdigit, row)))


def _of_a_figure(word: str) -> bool:
    return not any(map(str.isalpha, word)) or word.lower() in _UNITS or _FIGURE.fullmatch(word) is not None


def _spoken(name: str) -> bool:
    """Tell whether hyphens join three words or more, as they do in a name and in an order."""
    return _HYPHENS.fullmatch(name) is not None and name.count("-") > 1


_UNIT_TEXT = """
    ns us ms s sec min h d b kb mb gb kib mib gib bytes k m tokens usd x avg mean median max n p50 p90 p95 p99
"""
_UNITS = frozenset(_UNIT_TEXT.split())
"""What stands beside a number and above a column of them."""

_FIGURE = lazy_pattern(r"(?i)[-+~<>$\u20ac]?\d[\d.,:]*(?:ns|[mu]?s|min|h|d|[kmgt]i?b|[kmgtbx])?")


def code(line: str) -> str:
    """Return a line of a file as a lesson shows it, empty where it is no code: texts in it are left out, and so is a comment."""
    if HIDDEN.search(line):
        return ""
    bare = _LITERAL.sub(_literal, line)
    kept = _COMMENT.sub("", bare).rstrip()
    if not kept or not all(map(_usual, kept)) or _BLOB.search(kept) or "://" in kept:
        return ""
    outside = _LITERAL.sub('""', kept)
    for run in _PROSE.findall(outside):
        if sum(word not in _KEYWORDS for word in run.split()) > _MOST_WORDS:
            return ""
    return kept


def _literal(found: re.Match[str]) -> str:
    """Return a text in code as it is shown: whole where it is one name, else as an ellipsis."""
    inside = found[0][1:-1]
    fits = inside.isascii() and not any(ch.isspace() for ch in inside) and len(inside) <= 40 and "://" not in inside and _few(inside)
    return found[0] if fits else f"{found[0][0]}…{found[0][-1]}"


def repeats(view: SessionView, sentence: str) -> bool:
    """Tell whether a sentence of the agent repeats what a tool printed or a file held: then it is not the agent who speaks."""
    return bool(_repeated(view, _plain(sentence)))


def repeating(view: SessionView, texts: Sequence[str], *, whole: bool = True) -> set[int]:
    """Return the places of texts of the agent that repeat, in part or together with their neighbors, what a tool printed.

    In a ``whole`` session what the agent wrote into a file, a commit or a pull request before any tool printed it is its own.
    """
    words = [(word, n) for n, text in enumerate(texts) for word in _plain(text)]
    return {words[place][1] for place in _repeated(view, [word for word, _ in words], own=whole)}


def look_for(view: SessionView, text: str) -> None:
    """Look in what tools printed for all that a text may repeat of it, before parts of the text are asked for one by one."""
    if rows := _rows(_plain(text)):
        view.once(_Printed).of({row for row, _ in rows})


def _rows(words: list[str]) -> list[tuple[str, range]]:
    """Return what is looked for of words, with their places: several in a row, or one of a script without blanks."""
    rows = [(" ".join(words[n : n + _COPIED]), range(n, n + _COPIED)) for n in range(len(words) - _COPIED + 1)]
    return rows + [(word, range(n, n + 1)) for n, word in enumerate(words) if not word.isascii() and len(word) >= _COPIED_SIGNS]


def _repeated(view: SessionView, words: list[str], *, own: bool = False) -> set[int]:
    """Return the places of words that stand so in an output."""
    rows = _rows(words)
    if not rows:
        return set()
    printed = view.once(_Printed).of({row for row, _ in rows})
    return {place for row, places in rows if row in printed and not (own and _written_first(view, row)) for place in places}


def _written_first(view: SessionView, row: str) -> bool:
    """Tell whether the agent handed words to a tool before any tool printed them, as part of what it made: they are its own."""
    shown = view.once(_Printed).first(row)
    words = " ".join(word for word in row.split() if not _HASH.fullmatch(word))  # the hash of its commit a tool gave it
    return any(thread == shown.thread_id and seq < shown.seq and words in text for thread, seq, text in view.once(_handed))


_PUBLISHES = lazy_pattern(r"\b(?:git\s+(?:-\S+\s+)*commit|(?:gh|glab)\s+(?:pr|mr|issue)\s+(?:create|edit|comment))\b")


def _outputs(view: SessionView) -> list[tuple[Any, str]]:
    """Return the results of tools as plain words; a tool that keeps plans answers with the agent's own."""
    plans = {call.result_event for call in view.tool_calls if call.action == "plan"}
    return [(e, " ".join(_plain(e.text))) for e in view.of_kinds("tool_result") if e.text and e.event_id not in plans]


def _handed(view: SessionView) -> list[tuple[str, int, str]]:
    """Return (thread, place, words) of the calls with which the agent wrote into files, committed or opened a pull request."""
    found = []
    for call in view.tool_calls:
        publishes = call.action == "shell" and any(_PUBLISHES.search(command) for command in call.argv or ())
        if not publishes and call.action not in ("edit", "write"):
            continue
        given = arguments_of(view.call_text(call)).values()
        found.append((call.thread_id, call.seq, " ".join(_plain(" ".join(v for v in given if isinstance(v, str))))))
    return found


_FEW = 16
"""Rows up to which one search each is faster than a pass for all."""

_AT_ONCE = 200_000
"""Characters that are looked through at once."""

_LONG_TEXT = 500_000
"""Characters from which on the automaton that is made slowly and reads fast takes less time than the other."""

_ANY = "surrogatepass"
"""How words are written as bytes: half a sign, which some record holds, is one too."""


class _Printed:
    """What tools printed as one text, a line an output: no word holds a line's end, so no row goes over two of them."""

    def __init__(self, view: SessionView) -> None:
        outputs = _outputs(view)
        self._results = [e for e, _ in outputs]
        self._text = "\n".join(text for _, text in outputs)
        self._ends = list(accumulate(len(text) + 1 for _, text in outputs))
        self._known: dict[str, bool] = {}

    def of(self, rows: set[str]) -> set[str]:
        """Return the rows that stand in it; those that were not asked for before are looked for, many of them in one pass."""
        fresh = sorted(rows - self._known.keys())
        found = self._many(fresh) if len(fresh) > _FEW else {row for row in fresh if row in self._text}
        self._known.update((row, row in found) for row in fresh)
        return {row for row in rows if self._known[row]}

    def first(self, row: str) -> Any:
        """Return the first result that a row, which is printed, stands in."""
        return self._results[bisect_right(self._ends, self._text.find(row))]

    def _many(self, rows: list[str]) -> set[str]:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        kind = Implementation.DFA if len(self._text) > _LONG_TEXT else Implementation.ContiguousNFA
        automaton = BytesAhoCorasick([row.encode(errors=_ANY) for row in rows], implementation=kind)
        found: set[int] = set()
        start = 0
        while start < len(self._text) and len(found) < len(rows):
            end = self._text.find("\n", start + _AT_ONCE)  # one row may stand in it a hundred thousand times
            end = end if end >= 0 else len(self._text)
            piece = self._text[start:end].encode(errors=_ANY)
            found.update(n for n, _, _ in automaton.find_matches_as_indexes(piece, overlapping=True))
            start = end
        return {rows[n] for n in found}


def _plain(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return list(filter(None, map(str.strip, folded.split(), repeat(_AROUND))))
