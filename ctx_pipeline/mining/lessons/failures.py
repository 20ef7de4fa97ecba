"""Reading failures: the line of an output that says what is wrong, and a form of it that can be compared."""

from __future__ import annotations

import re
from functools import lru_cache

from ctx_pipeline.facts.prompts import one_line
from ctx_pipeline.mining.lessons.quoting import quotable
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern

clean = one_line

_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_HEAD, _TAIL, _END = 24_000, 24_000, 12_000
_WIDTH, _LINE = 180, 2000

_SCORES = tuple(
    (score, lazy_pattern(pattern))
    for score, pattern in (
        (10, r"^E\s{2,}[\w.]*(?:Error|Exception|Failed|Warning)\b|^E\s{2,}assert\b|^E\s{2,}(?:[a-z_]\w*\.)+[A-Z]\w+: "),
        (9, r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|NotFound)\b:? .+"),
        (9, r"(?:command not found|No module named|Cannot find module|Module not found|No such file or directory|not a git repository)"),
        (9, r"(?i)connection refused|could not resolve hostname|address already in use|cannot connect to the docker daemon"),
        (
            9,
            r"(?i)\bERESOLVE\b (?:unable|could)|no matches found: |is required to read the password|still in progress",
        ),
        (8, r"^error(?:\[\w+\])?: |^panic: |^thread '[^']{1,60}'(?: \(\d+\))? panicked at |^\s*✗ |^  \u00d7 |^ERROR: (?!task )"),
        (8, r"^Diff in \S+\.rs:\d+|^\S+\.\w+:\d+(?::\d+)?:? .+|^\S+\.\w+\(\d+,\d+\): error"),
        (7, r"^fatal: "),
        (7, r"^(?:accepts|requires) (?:(?:at (?:most|least)|between \d{1,3} and) )?\d{1,3} arg\(s\), (?:only )?received \d{1,3}$"),
        (7, r"^\s+\w[\w.-]+\.(?:go|rs|py|js|ts):\d+: .+|^\s*(?:Error Trace|Error|expected|Expected|got|want|Received):?\s"),
        (6, r"^--- FAIL: |^FAILED \S+|^FAIL\s+\S+ \[|^not ok "),
        (
            5,
            r"(?i)\berror\b|\bundefined\b|\bcannot\b|\bdenied\b|\bconflict\b|\binvalid\b|\bunknown\b|\bunrecognized\b|\bmissing\b|\brequires\b",
        ),
        (5, r": illegal option -- "),
        (4, r"\bignored by one of your \.gitignore files"),
        (3, r"(?i)\bfail(?:ed|ure)?\b|\bno tests? (?:ran|found|to run)\b|\b0 selected\b"),
    )
)
_GENERIC = lazy_pattern(
    r"(?i)^(?:exit code \d+|process exited with code \d+|.*\berror task failed"
    r"|error: (?:process|script|command|recipe).*(?:exit|fail).*"
    r"|make(?:\[\d+\])?: \*\*\*.*|npm (?:err!|error) (?:a complete log|code|errno|lifecycle).*|exit status \d+|fail"
    r"|(?:compiling|checking|downloaded|downloading|updating|fetching|finished|blocking) .*|\S+:\d+: : # .*|warning: build failed.*"
    r"|process didn't exit.*"
    r"|found \d+ errors?.*|\d+ errors?.*|\d+ (?:failed|passed|skipped)(?:, \d+ (?:failed|passed|skipped))*(?: in \S+)?|\d+ \|.*"
    r"|error: exit status \d+|\[?\w*\]? ?error:?|traceback \(most recent call last\):|output:|wall time.*|.*test session starts.*"
    r"|=+.*(?:failures|errors|short test summary).*=+|total output lines.*|✖ \d+ problems?.*|error: could not compile.*|error: aborting.*)$"
)


def plain_text(text: str) -> str:
    """Return an output without the sequences that color a terminal."""
    return _ANSI.sub("", text) if "\x1b" in text else text


_RED_LINES = ("\nFAIL", "\n--- FAIL:", "\nnot ok", "\npanic: ", "\nTraceback (most recent", "\nerror: ", "\nE   ")
_RED_WORDS = ("command not found", "npm ERR!", "No such file or directory")
_RED_CODE = lazy_pattern(r"\nerror\[\w+\]: ")
_RED_COUNT = lazy_pattern(r"[1-9](?<!\w\d)\d* (?:failed|errors?|failing|problems)\b")
_COUNTED = (" failed", " error", " failing", " problems")


_WARNED_AT = lazy_pattern(r"(?m)^\S{1,300}:\d{1,7}:\d{1,7} (?:lint|assist|suppressions)/[^\n]{1,300}\n[^\S\n]{0,40}\n {2}! [^\n]*$")
_OF_JOB = lazy_pattern(r"^(?:\[[^\]\n]{1,80})?\]\s{1,4}\|\s{1,4}")
"""The job of a workflow (act) that a line is from; the agent may have cut the line's beginning."""
_WARNED = lazy_pattern(r"(?i)^\s*\[?warn(?:ing)?\b")
_PRINTED = lazy_pattern(r"^(?:error|fatal|ERROR|Error): ")


def looks_red(output: str) -> bool:
    """Tell whether an output speaks of a failure although its command ended well, as in ``pytest | tail``."""
    text = output[-_END:]
    text = f"\n{plain_text(text)}"
    # plain searches first: a pattern that may begin at every character takes twenty times as long
    if any(line in text for line in _RED_LINES) or any(word in text for word in _RED_WORDS):
        return True
    if "\nerror[" in text and _RED_CODE.search(text):
        return True
    return any(word in text for word in _COUNTED) and bool(_RED_COUNT.search(text))


@lru_cache(maxsize=256)
def salient_line(output: str, cwd: str | None = None, *, of_tests: bool = False, of_any_form: bool = False) -> str:
    """Return the line that best says what went wrong, at most 180 characters; empty when no line does.

    Only lines that may be quoted (:func:`~ctx_pipeline.mining.lessons.quoting.quotable`) are
    looked at, but for ``of_any_form``, whose line is compared and shown to no agent. Of
    equally telling lines the first counts, since later ones tend to follow from it.
    In the output of tests the assertion counts for more than what the tested program
    itself printed. Paths below ``cwd`` are shortened.
    """
    text = shortened(output)
    best, best_score = "", 0
    formatted = "\nDiff in " in f"\n{text}"
    for raw in without_warnings(plain_text(text)).splitlines():
        raw = _OF_JOB.sub("", raw[:_LINE])  # noqa: PLW2901 - the beginning of a line says enough
        if not raw.strip() or _GENERIC.match(raw.strip()) or (formatted and raw[:1] in "+-"):
            continue  # what a formatter would take out or put in says nothing of what is wrong
        for score, pattern in _SCORES:
            if score <= best_score:
                break
            if pattern.search(raw):
                if of_tests and _WARNED.match(raw):
                    break  # what the tested program warned of is not what a test failed on
                if of_tests and _PRINTED.match(raw):
                    score = 4  # noqa: PLW2901 - the same line, believed less
                said = raw if of_any_form else _quotable_part(raw)
                if score > best_score and said:
                    best, best_score = said, score
                break
    line = shorten_paths(clean(best), cwd)
    line = re.sub(r"^E\s+", "", line)
    return truncate(line, _WIDTH)


UNFORMATTED = "fails on formatting"
"""Signature of a failure that a formatter ends, whichever line of the output stands out."""

_NOT_FORMATTED = lazy_pattern(
    r"(?m)^(?:Diff in \S|[Ww]ould reformat:? \S|\d{1,6} files? would be reformatted|\[warn\] Code style issues? found"
    r"|\s{0,4}\u00d7 (?:Formatter would have printed|File content differs from formatting)|The following files are not formatted"
    r"|\S{1,300}:\d{1,7}(?::\d{1,7})?: File is not (?:properly formatted|`\w{1,20}`-ed)"
    r"|\S{1,300}: (?:error|warning): code should be clang-formatted|error: Found \d{1,6} not formatted files?)"
)
"""A line with which a formatter says that it would rewrite a file."""


def unformatted(output: str) -> bool:
    """Tell whether an output says that files are not in the format of their project."""
    return bool(_NOT_FORMATTED.search(plain_text(shortened(output))))


def shortened(output: str) -> str:
    """Return the beginning and the end of a long output, the end from a whole line on."""
    if len(output) <= _HEAD + _TAIL:
        return output
    end = output[-_TAIL:]
    return f"{output[:_HEAD]}\n{end[end.find(chr(10)) + 1 :]}"


def without_warnings(text: str) -> str:
    """Return an output without the places of which a linter (Biome) warns: a run does not fail by them."""
    return _WARNED_AT.sub("", text) if "  ! " in text else text


def _quotable_part(line: str) -> str:
    """Return a line that may be quoted, or what stands before its advice; empty where neither may."""
    forms = dict.fromkeys((line, _MODULE.sub("", line)))
    parts = (p for form in forms for p in (form, form.partition("; ")[0], _TO_ADDRESS.split(form)[0], _first_sentence(form)))
    return next((part for part in parts if quotable(part.strip())), "")


_MODULE = lazy_pattern(r"^(?:E\s+)?(?:[a-z_]\w*\.)+(?=[A-Z]\w+: )")
"""The module of an exception, before its name."""


def _first_sentence(line: str) -> str:
    """Return the first of several sentences of a line; empty where it holds too few words to tell an error."""
    first = _NEXT_SENTENCE.split(line, maxsplit=1)[0]
    return first if first != line and len(first.split()) >= _LEAST_TOLD else ""


_NEXT_SENTENCE = lazy_pattern(r"\.\s+(?=[A-Z])")
_LEAST_TOLD = 4

_TO_ADDRESS = lazy_pattern(r"\s(?:(?:at|to|from|on)\s)?[('\"]?[a-z][a-z+]{1,9}://")
"""Where an address begins, at which a quoted line ends."""


def shorten_paths(text: str, cwd: str | None) -> str:
    """Return a text with paths below ``cwd`` made relative and home folders written as ``~``."""
    if cwd and len(cwd) > 3 and (folder := cwd.rstrip("/")) in text:
        text = _below(folder).sub(lambda found: "" if found[1] else ".", text)
    return _HOMES.sub("~", text) if "/Users/" in text or "/home/" in text else text


@lru_cache(maxsize=256)
def _below(folder: str) -> re.Pattern[str]:
    """Return the pattern of a folder as a whole path, or with a slash, the group, as the beginning of one."""
    at = re.escape(folder)
    # the borders before it stand behind it: a search for a pattern that begins with plain text is far faster
    return re.compile(rf"{at}(?:(?<![\w.~/*)}}]{at})|(?<=\s-[A-Za-z]{at}))(?:(/)(?=[\w.@+%*?$~{{\[(<#-])|/?(?![\w/@+%-]|\.\w))")


_HOMES = lazy_pattern(r"/(?:Users|home)/[^/\s:'\"]+")


_SHELL = lazy_pattern(r"^(?:/\w+)*/?(?:ba|z|da)?sh: line \d+: ")
_PLACE = lazy_pattern(r"^[^\s:]+\.\w+:\d+(?::\d+)?:?\s+")
_HASHED = lazy_pattern(r":?\s?(?:[\w.-]*/)+[0-9a-f]{20,}/\S*.*$")


def without_place(line: str) -> str:
    """Return an error line without the file and line it was found in, the shell's own prefix, and what follows a path of a build."""
    return _HASHED.sub("", _PLACE.sub("", _SHELL.sub("", line))) or line


_VARIABLE = (
    (lazy_pattern(r"^\S{1,20} no matches found: .*"), "no matches found"),
    (lazy_pattern(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{7,64}\b"), "#"),
    (lazy_pattern(r"(?:/[\w.@+-]+)+/"), ""),
    (lazy_pattern(r"\d+(?:\.\d+)?"), "#"),
    (lazy_pattern(r"[^\w#.]+"), " "),
)


def signature(line: str) -> str:
    """Return a form of an error line without numbers, ids and folders, in which two occurrences are equal."""
    for pattern, by in _VARIABLE:
        line = pattern.sub(by, line)
    return line.strip().lower()


_QUOTED = lazy_pattern(r"\"[^\"]{1,120}\"|'[^']{1,120}'|`[^`]{1,120}`")


def quoted_as_name(line: str) -> str:
    """Return an error line with the names that it quotes left open, so that two calls of a program met the same error."""
    return _QUOTED.sub("NAME", line)
