"""Rules of a person who wants to be asked before an act: "never merge without asking", "ask me before you deploy"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.learning.named_files import changed_by, files_named, spoken_of, without_files
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ctx_pipeline.model.memories import Memory
    from ctx_pipeline.shell.acts import Act

QUOTED = lazy_pattern(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
"""A text between quotation marks."""

_NAMES = {
    "merg": "merge",
    "push": "push",
    "commit": "commit",
    "deploy": "deploy",
    "delet": "delete",
    "remov": "delete",
    "publish": "publish",
    "releas": "release",
    "touch": "change",
    "edit": "change",
    "chang": "change",
    "modif": "change",
    "overwrit": "change",
}
"""How the word of an act begins -> the act."""

_ACT = (
    r"(?:(?:(?:force|squash|auto)[- ]?)?"
    r"(?:merg(?:e|es|ing)|push(?:es|ing)?|commit(?:s|ting)?|deploy(?:s|ing)?|delet(?:e|es|ing)|remov(?:e|es|ing)|publish(?:es|ing)?|releas(?:e|es|ing)"
    r"|touch(?:es|ing)?|edit(?:s|ing)?|chang(?:e|ing)|modify(?:ing)?|overwrit(?:e|es|ing))"
    r"|squash(?:es|ing)?)\b"
)
_AND = r"(?:\s*[,/]\s*(?:(?:or|and|nor)\s+)?|\s+(?:or|and|nor)\s+)"
_ACTS = rf"(?P<acts>{_ACT}(?:(?:\s+(?!(?:or|and|nor)\b)[\w'`/.-]+){{0,4}}?{_AND}{_ACT})*)"
_CALL = (
    r"(?:(?:use|run|do|call|execute|using|running|doing)\s+(?:an?\s+|any\s+)?)?"
    r"[`'\"]?(?:(?:git|gh|hg|jj|glab|pr|mr|npm|pnpm|yarn|cargo|docker|twine)\s+){0,2}"
)
"""What names an act by its command: "use git push"."""

_WITHIN = r"(?:[^.;!?]|[.](?=\w))"
"""A sign of a sentence, or a dot within a name."""

_UNASKED = (
    r"(?:without\s+(?:first\s+|ever\s+)?(?:asking|checking\s+with|telling|consulting)\b"
    r"|without\s+(?:(?:my|our|an?|any|explicit|prior|express)\s+){0,3}(?:ok(?:ay)?|approval|permission|consent|confirmation|review|go-?ahead|sign-?off)\b"
    r"|(?:unless|until)\s+(?:i|we)(?:'ve|\s+have)?\s+(?:explicitly\s+)?(?:ask|say|said|tell|told|request|want|approve|confirm|agree)"
    r"|(?:unless|until)\s+(?:explicitly\s+)?(?:asked|told|requested|approved)\b)"
)
_RULES = (
    lazy_pattern(
        rf"(?i)\b(?:never|don'?t|do\s+not)\s+(?:ever\s+|just\s+|automatically\s+)?{_CALL}{_ACTS}(?P<object>{_WITHIN}{{0,60}}?)[\s,]+{_UNASKED}"
    ),
    lazy_pattern(
        rf"(?i)\b(?:ask|check\s+with|confirm\s+with)(?:\s+(?:me|us|first|for\s+(?:my\s+)?(?:permission|approval|confirmation)))*"
        rf"\s+before\s+(?:you\s+|ever\s+)?{_CALL}{_ACTS}(?P<object>(?:(?!,){_WITHIN}){{0,60}})"
    ),
)
_OBJECTS = (
    ("branch", lazy_pattern(r"(?i)\bbranch(?:es)?\b")),
    ("files", lazy_pattern(r"(?i)\b(?:files?|folders?|director(?:y|ies)|code|tests?)\b")),
    ("data", lazy_pattern(r"(?i)\b(?:tables?|databases?|data|rows?|records?|volumes?)\b")),
)
"""What is deleted -> the words for it."""

_ONE_ACT = lazy_pattern(rf"(?i)(?<!\bto )(?<!\bon )(?<!\binto )(?<!\bthe )\b{_ACT}")
_OPPOSITE = lazy_pattern(
    r"(?i)\b(?:never|don't|do\s+not|no\s+need|needn't|need\s+not|stop|shouldn't|without)\s+(?!(?:forget|fail|hesitate)\b)(?:(?:to|have|need|even|ever|always)\s+){0,3}\Z"
)
"""Stands before "ask me" where a person does not want to be asked."""

_ELSEWHERE = lazy_pattern(r"(?i)\b(?:to|on|onto|into|in|from|so|because|since|as|for)\b.*|\Wor$", re.DOTALL)
"""Where an act goes, and why it is not wanted: no object of it."""

_BESIDE = lazy_pattern(
    r"(?i)(?:,|\b(?:or|and|nor))\s+(?:(?:or|and|nor)\s+)?(?:open|creat|mak|start|submit|rais|run|rebas|amend|tag|reset|stash|rewrit|install|chang|edit|add)"
    r"(?:e|es|s|(?:[gnt])?ing)?\b.*"
    r"|\b(?:that|which|who|whose|with|without|while|when|if|before|after|via|using|you|i|we)\b.*",
    re.DOTALL,
)
"""Another act behind the one of the wish, and what is said of its object."""

_SECRETS = lazy_pattern(r"(?i)\b(?:secrets?|credentials?|passwords|passphrases|tokens|(?:api|ssh|private|access)[ -]?keys?)\b")
_PARTS = lazy_pattern(
    r"(?i)\b(?:comments?|docstrings?|features?|functionality|functions?|methods?|imports?|dependenc(?:y|ies)|deps|logging|annotations?|types?"
    r"|assertions?|validations?|checks?)\b"
)
"""What any act may lack, and what a deletion may: it is within files."""

_GENERAL_TEXT = """
a an the my our your any anything something everything every all at it this that these those them stuff things thing work code
change changes file files folder folders fix fixes feature features patch update updates edit edits refactor refactors refactoring
hotfix hotfixes draft wip half of result results more than one several many big small large final finished own pending local
locally yet else ever again first directly straight yourself automatically blindly up out new me us just or and nor other even you
pr prs mr mrs pull merge request requests branch branches main master commit commits git github remote origin upstream production
prod staging live repo repository package packages version versions release releases app site service services
"""
_GENERAL = frozenset(_GENERAL_TEXT.split())
"""Words of what is committed that narrow nothing."""

_FLAGS = {
    "push": ("force", lazy_pattern(r"(?i)--force|(?<!\S)[`'\"]?-f\b|\bwith force\b")),
    "merge": ("squash", lazy_pattern(r"(?i)--squash")),
}
"""Act -> how it may be meant alone, and what says so behind it."""

_EVEN = lazy_pattern(r"(?i)\b(?:even|especially|particularly)\b")


class Limited(NamedTuple):
    """An act that a person wants to be asked before."""

    name: str
    how: frozenset[str] = frozenset()
    """only force, only squash; what alone must not be deleted"""
    things: frozenset[str] = frozenset()
    """words of which a command must have one: it may well lack what they name"""
    files: frozenset[str] = frozenset()
    """files of which the act must change or name one"""


class AskFirst(NamedTuple):
    """What a person wants to be asked before."""

    acts: tuple[Limited, ...]

    def names(self) -> frozenset[str]:
        """Return the names of the acts."""
        return frozenset(limited.name for limited in self.acts)

    def beside(self, names: Collection[str]) -> AskFirst:
        """Return what is left without the acts of these names."""
        return AskFirst(tuple(limited for limited in self.acts if limited.name not in names))

    def done_by(self, command: str, cwd: str | None, roots: Sequence[str] = ()) -> bool:
        """Tell whether a command line does one of the acts."""
        from ctx_pipeline.shell.acts import acts

        of_files = (limited for limited in self.acts if limited.name in ("change", "delete") and limited.files)
        if any(path for limited in of_files for path in changed_by(command, limited.files, cwd, limited.name, roots)):
            return True
        return any(_does(act, limited, near) for near in _with_what_was_added(command) for act in acts(near, cwd) for limited in self.acts)


def _with_what_was_added(command: str) -> Iterator[str]:
    """Yield the pipes of a command line, that of a commit with what the line added to it before."""
    from ctx_pipeline.shell.commands import steps_by_piece

    pipes: list[str] = []
    for piece, _ in steps_by_piece(command):
        if piece.piped and pipes:
            pipes[-1] += f" | {piece.text}"
        else:
            pipes.append(piece.text)
    added: list[str] = []
    for pipe in pipes:
        yield " ; ".join([*(added if _COMMITS.search(pipe) else ()), pipe])
        added += [pipe] if _ADDS.search(pipe) else []


_COMMITS = lazy_pattern(r"\bcommit\b")
_ADDS = lazy_pattern(r"\bgit\s(?:.*\s)?(?:add|rm|mv)\s")


def ask_first_of(memory: Memory) -> AskFirst | None:
    """Return which acts a rule wants to be asked before; None for another rule.

    An act of what its command may lack, "commit secrets", is one only where the command names it.
    """
    text = memory.text.replace("\u2019", "'")
    every = (match for pattern in _RULES for match in pattern.finditer(text))
    found = next((match for match in every if not _OPPOSITE.search(text[: match.start()])), None)
    # to change something that is no file is no act of one command
    limited = tuple(one for one in _limited(found["acts"], found["object"]) if one.name != "change" or one.files) if found else ()
    return AskFirst(limited) if limited else None


def at_every_act(memory: Memory) -> bool:
    """Tell whether a rule is a wish to be asked first that is told at each of its acts, whatever the command names."""
    found = ask_first_of(memory)
    return found is not None and not any(limited.things or limited.files for limited in found.acts)


def words_of_command(text: str) -> frozenset[str]:
    """Return what a command line works on and with, but for what it quotes."""
    from ctx_pipeline.mining.lessons.rules.said_rules import terms

    return terms(re.sub(r"[-=/]", " ", QUOTED.sub(" ", text)))


def words_for(act: Act) -> set[str]:
    """Return the words by which wishes name an act."""
    return {act.name, *(act.how & {"force", "squash"}), *(("remove",) if act.name == "delete" else ())}


def _limited(said: str, last: str) -> Iterator[Limited]:
    """Yield the acts of a list of them, each with its object or that of the one behind it."""
    found = list(_ONE_ACT.finditer(said))
    thing = last
    for place in reversed(range(len(found))):
        ends = found[place + 1].start() if place + 1 < len(found) else None
        own = said[found[place].end() : ends] if ends is not None else last
        if ends is None or _words(own):
            thing = own
        word = found[place][0].lower()
        name = next((act for begins, act in _NAMES.items() if begins in word), "merge")
        kinds = {kind for kind, words in _OBJECTS if words.search(without_files(thing))} if name == "delete" else set()
        how = kinds | _only(name, word, thing) | ({"remote"} if "branch" in kinds else set())
        yield Limited(
            name, frozenset(how), _lacked(name, kinds, thing), files_named(thing) if name in ("change", "delete", "commit") else frozenset()
        )


def _does(act: Act, limited: Limited, command: str) -> bool:
    return (
        act.name == limited.name
        and bool(not limited.how or limited.how & act.how)
        and bool(not limited.files or spoken_of(QUOTED.sub(" ", command) if act.name == "commit" else command, limited.files))
        and bool(not limited.things or limited.things & words_of_command(re.sub(r"[._]", " ", command)))
    )


def _only(name: str, word: str, thing: str) -> set[str]:
    """Return how alone an act is meant: by force, squashed."""
    if name not in _FLAGS:
        return set()
    how, said = _FLAGS[name]
    return {how} if how in word or (said.search(thing) and not _EVEN.search(thing)) else set()


def _lacked(name: str, kinds: Collection[str], thing: str) -> frozenset[str]:
    """Return the words of an object that a command may well lack: secrets, parts of files, of a commit all but general ones."""
    said = _ELSEWHERE.sub("", thing)
    narrow = [found[0] for found in _SECRETS.finditer(said)]
    if name == "delete" and not kinds:
        narrow += [found[0] for found in _PARTS.finditer(_BESIDE.sub("", said))]
    elif name == "commit" and not narrow:
        narrow = sorted(_words(_BESIDE.sub("", said)) - _GENERAL)
    return words_of_command(" ".join(narrow)) if narrow else frozenset()


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w'-]+", text.lower())) - {"or", "and", "nor"}
