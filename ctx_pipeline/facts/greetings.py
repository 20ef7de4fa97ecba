"""What a person says without asking for anything, and how agents name sessions in which nothing else was said."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_HELLO = (
    r"(?:(?:hi+|hello|hey+|hiya|yo|good (?:morning|afternoon|evening|day)|greetings|hola|hallo|bonjour|salut|ciao)\b[\s,.!]*)+"
    r"(?:(?!(?:continue|explain|go|proceed|resume|retry)\b)\w{1,20}\W*)?"
)
_HOW = r"(?:\w{1,20}\W+)?how are you(?: (?:doing|today))*\W*|(?:are )?you there\W*"
_GREETING = lazy_pattern(rf"(?i)\W*(?:(?:{_HELLO})?(?:{_HOW})|{_HELLO})")
_TRIAL = lazy_pattern(r"(?i)\W*(?:ping|test(?:ing)?)\W*")
_TITLE = lazy_pattern(
    r"(?i)\W*(?:(?:a|an|basic|brief|casual|first|friendly|general|initial|just|new|quick|short|simple|user)[\s-]+)*greetings?"
    r"(?:[\s-]+(?:and|chat|check|conversation|exchange|introduction|message|session|test|user))*(?:[\s-]+(?:from|with)[\s-]+\w{1,20})?\W*"
)


def is_greeting(prompt: str) -> bool:
    """Tell whether a prompt is a hello or asks whether somebody is there, also with one word more, such as a name."""
    return _GREETING.fullmatch(prompt) is not None


def is_trial(prompt: str) -> bool:
    """Tell whether a prompt, the only one of its session, looks whether there is an answer; behind work "test" asks for a run."""
    return _TRIAL.fullmatch(prompt) is not None


def names_greeting(title: str) -> bool:
    """Tell whether an agent gave a session a title that says no more than that somebody said hello."""
    return _TITLE.fullmatch(title) is not None
