"""Rules of a person who wants to be asked before an act: "never merge without asking", "ask me before you deploy"."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

_NAMES = {
    "merg": "merge",
    "push": "push",
    "commit": "commit",
    "deploy": "deploy",
    "delet": "delete",
    "remov": "delete",
    "publish": "publish",
    "releas": "release",
}
"""How the word of an act begins -> the act."""

_ACT = (
    r"(?:(?:force|squash|auto)[- ]?)?"
    r"(?:merg(?:e|es|ing)|push(?:es|ing)?|commit(?:s|ting)?|deploy(?:s|ing)?|delet(?:e|es|ing)|remov(?:e|es|ing)|publish(?:es|ing)?|releas(?:e|es|ing))"
)
_ACTS = rf"(?P<acts>{_ACT}(?:(?:\s*[,/]\s*|,?\s+(?:or|and|nor)\s+){_ACT})*)\b"
_UNASKED = (
    r"(?:without\s+(?:first\s+|ever\s+)?(?:asking|checking\s+with|telling|consulting)\b"
    r"|without\s+(?:(?:my|our|an?|any|explicit|prior|express)\s+){0,3}(?:ok(?:ay)?|approval|permission|consent|confirmation|review|go-?ahead|sign-?off)\b"
    r"|(?:unless|until)\s+(?:i|we)(?:'ve|\s+have)?\s+(?:explicitly\s+)?(?:ask|say|said|tell|told|request|want|approve|confirm|agree)"
    r"|(?:unless|until)\s+(?:explicitly\s+)?(?:asked|told|requested|approved)\b)"
)
_RULES = (
    lazy_pattern(
        rf"(?i)\b(?:never|don'?t|do\s+not)\s+(?:ever\s+|just\s+|automatically\s+)?{_ACTS}(?P<object>[^.;!?]{{0,60}}?)[\s,]+{_UNASKED}"
    ),
    lazy_pattern(
        rf"(?i)\b(?:ask|check\s+with|confirm\s+with)(?:\s+(?:me|us|first|for\s+(?:my\s+)?(?:permission|approval|confirmation)))*"
        rf"\s+before\s+(?:you\s+|ever\s+)?{_ACTS}(?P<object>[^.;!?,]{{0,60}})"
    ),
)
_OBJECTS = (
    ("branch", lazy_pattern(r"(?i)\bbranch(?:es)?\b")),
    ("files", lazy_pattern(r"(?i)\b(?:files?|folders?|director(?:y|ies)|code|tests?)\b")),
    ("data", lazy_pattern(r"(?i)\b(?:tables?|databases?|data|rows?|records?|volumes?)\b")),
)
"""What is deleted -> the words for it."""


class Unasked(NamedTuple):
    """What a person wants to be asked before."""

    acts: frozenset[str]
    how: frozenset[str]
    """only force, only squash; what alone must not be deleted"""

    def done_by(self, command: str, cwd: str | None) -> bool:
        """Tell whether a command line does one of the acts."""
        from ctx_pipeline.shell.acts import acts

        return any(act.name in self.acts and (not self.how or self.how & act.how) for act in acts(command, cwd))


def unasked(memory: Memory) -> Unasked | None:
    """Return which acts a rule wants to be asked before; None for another rule."""
    found = next((match for pattern in _RULES if (match := pattern.search(memory.text))), None)
    if found is None:
        return None
    said = found["acts"].lower()
    acts = frozenset(act for begins, act in _NAMES.items() if begins in said)
    how = {word for word in ("force", "squash") if word in said}
    if acts == {"delete"}:
        how = {kind for kind, words in _OBJECTS if words.search(found["object"])}
        how |= {"remote"} if "branch" in how else set()
    return Unasked(acts, frozenset(how))
