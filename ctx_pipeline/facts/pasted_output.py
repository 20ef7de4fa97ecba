"""What a person wrote around an output that was pasted into a prompt."""

from __future__ import annotations

from ctx_pipeline.model.display import GAP
from ctx_pipeline.model.lazy_pattern import lazy_pattern

_LINES_OF_OUTPUT, _SHARE = 3, 0.5
"""A prompt has a pasted output where so many lines, and such a share of all, are of one."""

_HEAD, _TAIL = 8_000, 8_000
"""Characters at both ends of a prompt that are looked at."""

_LONGEST = 300
ONLY_OUTPUT = "pasted output "
"""What a prompt is told with that holds nothing beside a pasted output; behind it ``ending in: `` and a line, or ``with: `` an error."""

_OUTPUT = lazy_pattern(
    r"\s*(?:[\u276f\u279c$>%\u2022\u2a2f\u00d7\u2717\u2713\u2502\u2514\u251c]\s|[\u276f\u279c$]\s*$|\[\+\]|=>|@@"
    r"|diff --git|[+}\])]|\w+\(.*\);?$)"
    r"|\s{2,}\S|-(?:\s{2}|[^\s-])|.*[{};]$|.*(?:[=_\u2500\u2501\u00b7.-]{8,})"
    r"|\s*(?:FAIL|PASS|FAILED|ok|---|===|ERROR|Error|error|warning|Warning|fatal|npm|panic|Traceback|Run|>)\b[:\s]?.*[:\d/(\[]"
    r"|[\w./@-]+\.\w{1,5}[:(]\d|\[?(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)|\S*[$#%\u276f]\s+\w"
)
"""A line as shells, compilers, runners, logs and patches print it."""

_WORDS = lazy_pattern(r"\W*[^\W\d_]{1,20}[\s,.:;!?'\"\u2019)-]+[^\W\d_]{1,20}[\s,.:;!?'\"\u2019)-]")
_ERROR = lazy_pattern(r"(?i)\b(?:\w*error|fail(?:ed|ure)?|fatal|\w*exception|panic|aborting|not found)\b")

_ENDED = lazy_pattern(r"(?i)\bexit(?:ed)?(?: with)?(?: status| code)? \d{1,3}\W*$")
"""A line that says no more than that a program failed."""

_DRAWN = " \t\u2502\u2503|\u00d7\u2a2f\u2717\u276f"
"""What is drawn around such a line."""


def _is_heading(line: str) -> bool:
    return line.startswith(("# ", "## ", "### "))


def beside_output(text: str) -> str:
    """Return what stands around a pasted output, with the error that it ends in; empty for a prompt without one, and for a document."""
    if text.count("\n") < _LINES_OF_OUTPUT:
        return ""
    whole = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    lines = [line.rstrip("\\ \t\r") for line in whole.splitlines() if line.strip("\\ \t\r")]
    printed = [n for n, line in enumerate(lines) if _OUTPUT.match(line)]
    if sum(map(_is_heading, lines)) > 1 or len(printed) < _LINES_OF_OUTPUT or len(printed) < _SHARE * len(lines):
        return ""
    before, inside, behind = lines[: printed[0]], lines[printed[0] : printed[-1] + 1], lines[printed[-1] + 1 :]
    errors = [line for line in lines[printed[0] :] if len(line) <= _LONGEST and _ERROR.search(line) and len(line.split()) > 1]
    above, below = " ".join(before), " ".join(line for line in behind if line not in errors)
    above, below = (said if _WORDS.match(said) else "" for said in (above, below))
    if not above and not below:
        telling = next((line for line in reversed(errors) if not _ENDED.search(line)), None)
        line = telling or (errors or inside)[-1]
        return f"{ONLY_OUTPUT}{'ending in' if line == lines[-1] else 'with'}: {line.strip(_DRAWN)[:_LONGEST]}"
    return " ".join(filter(None, (above, GAP, *(line.strip() for line in errors[-1:]), below)))
