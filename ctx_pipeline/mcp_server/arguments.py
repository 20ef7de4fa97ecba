"""Arguments that several tools take, and what is known of who calls."""

from typing import Annotated

from pydantic import Field

from ctx_pipeline import discovery
from ctx_pipeline.settings import Settings

Query = Annotated[
    str,
    Field(max_length=200_000, description="A question, a prompt or an error as it stands; the first 2,000 characters count."),
]
Id = Annotated[str, Field(min_length=1, max_length=200, description="An id, or its first characters.")]
AnyHost = Annotated[str | None, Field(max_length=40, description="Only sessions of this agent.")]
Cursor = Annotated[str | None, Field(max_length=200, description="`next_cursor` of the page before; all other arguments the same.")]
Own = Annotated[
    str | None,
    Field(max_length=200, description="Id of the session you are in, so that it is left out, where the server cannot know it."),
]


def own_sessions(settings: Settings, named: str | None) -> frozenset[str]:
    """Return the ids of the session that is calling: the named one, and those that its agent set for this process."""
    told = {settings.environ.get(name, "") for host in discovery.hosts().values() for name in host.agent.session_env}
    return frozenset(filter(None, {named or "", *told}))


def short(text: str | None, most: int) -> str | None:
    """Return the beginning of a text, at most so many characters."""
    return text[:most] if text else text
