"""What the person's own words say: corrections, praise and complaint."""

from __future__ import annotations

import re

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[^\S\n]*>[^\n]*$", re.DOTALL | re.MULTILINE)
_CORRECTION = re.compile(
    r"""
    (?:^|[.!?;:,\n]\ ?|\b(?:please|and|but|also|so)\ )
    (?:
        (?:oh\ )?(?:no|nope|wait)\b[,.! -]{1,4}(?:that|this|it|the|i|you|we|not|don'?t|do\ not|please|use|stop|again|still|actually|just)\b
      | (?:(?:it|that|this|they|which)\ )?still\ (?:doesn'?t|does\ not|don'?t|do\ not|isn'?t|not|fails?|
            failing|broken|wrong|the\ same|see(?:ing)?|get(?:ting)?)\b
      | (?:don'?t|do\ not|never|stop)\ (?:\w+\ )?(?:do|doing|use|using|run|running|add|adding|delete|deleting|remove|removing|
            change|changing|touch|touching|edit|editing|create|creating|make|making|commit|committing|
            write|writing|assume|assuming|saying|guess|guessing)\b
      | (?:that|this|it)(?:'s|\ is|\ was)\ (?:not\ (?:right|correct|true|what|how|working|it)|wrong|
            incorrect|broken|still\ (?:wrong|broken|failing))
      | (?:that|this|it)\ (?:does\ not|doesn'?t|didn'?t|did\ not)\ (?:work|fix|help|compile)
      | (?:that(?:'s|\ is)\ )?not\ (?:what|exactly\ what)\ (?:i|we)\ (?:asked|meant|wanted|said)
      | i\ (?:said|told\ you|asked\ (?:you\ )?(?:for|to)|meant)\b
      | you(?:'re|\ are)\ (?:not\ (?:correct|right)|wrong|mistaken)\b
      | you\ (?:forgot|missed|broke|misunderstood|misread|should(?:n'?t|\ not)\ have|were\ not\ supposed|ignored|didn'?t|did\ not)\b
      | (?:please\ )?(?:revert|undo|roll\ back)\ (?:that|this|it|your|the|those|these|last|all)\b
      | (?:let'?s\ )?use\ \S+(?:\ \S+){0,3},?\ (?:and\ )?(?:instead|not)\b
      | why\ (?:did|are|have|would)\ you\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_WORDS = 2000

_POSITIVE = re.compile(
    r"""
    \b(?:thanks|thank\ you|thx|awesome|amazing|excellent|fantastic|brilliant|lgtm|ship\ it)\b
  | \b(?:well\ done|nicely\ done|(?:good|great|nice)\ (?:job|work))\b
  | (?:^|[.!,;]\ ?|\b(?:looks|that'?s|is|it'?s|works|very|so|all|ok|yes|yep|yeah)\ )
    (?:great|perfect|nice|good|cool|lovely|beautiful)(?:\ (?:now|work|job|stuff|one))?
    (?=[.!,;:)]|\ (?:-|and|but|now|let'?s|next|can|could|please)|$)
  | \blove\ (?:it|this|that)\b
  | \b(?:it|that|this)\ (?:now\ )?works(?:\ (?:now|great|well|fine|perfectly))?(?=[.!,;]|\ and|$)
  | \b(?:works\ (?:great|well|fine|perfectly|now)|(?:fixed|solved)\ it|all\ good|looks\ (?:good|great|right|correct))\b
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_NEGATIVE = re.compile(
    r"""
    \b(?:broken|terrible|awful|horrible|useless|ridiculous|nonsense|wtf|wth|damn|annoying|frustrat\w{0,5}|disappoint\w{0,5})\b
  | \b(?:you\ broke|made\ it\ worse|hate\ (?:it|this|that))\b
  | \b(?:does\ not|doesn'?t|didn'?t|did\ not|isn'?t|is\ not|not)\ (?:work(?:ing)?|right|correct|good|great|what\ i|help(?:ful)?|fixed)\b
  | \bstill\ (?:not|fails?|failing|broken|wrong|the\ same|doesn'?t|isn'?t|see(?:ing)?|get(?:ting)?)\b
  | \b(?:that|this|it|you)(?:'s|'re|\ is|\ are|\ was)\ (?:completely\ |totally\ |just\ )?(?:wrong|incorrect|bad|worse)\b
  | \b(?:revert|undo)\ (?:that|this|it|your|the|those|these|last|all)\b
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)


def own_words(text: str) -> str:
    """Return the person's own words of a prompt's first 2,000 characters: no code, no quotes, no runs of blanks."""
    words = text[:_FIRST_WORDS]
    if "`" in words or ">" in words:
        words = _CODE.sub("\n", words)
    words = words.replace("\u2019", "'")
    return "\n".join(line for raw in words.splitlines() if (line := " ".join(raw.split())))


def corrects(text: str) -> bool:
    """Tell whether a prompt corrects what the agent did."""
    return bool(_CORRECTION.search(own_words(text)))


def mood(text: str) -> str:
    """Return positive, negative, or neutral when a prompt says both or neither."""
    words = own_words(text)
    bad = bool(_NEGATIVE.search(words))
    good = bool(_POSITIVE.search(_NEGATIVE.sub("", words) if bad else words))
    if good is bad:
        return "neutral"
    return "positive" if good else "negative"
