"""What a person hands to a context: a component that is not placed yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidLifecycle, InvalidPlacement
from ctx_pipeline.context.tree.record import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESERVED = frozenset(
    {
        "id",
        "nodeType",
        "parent_id",
        "offset",
        "ttl",
        "cad",
        "priority",
        "cycle",
        "created_at_ns",
        "created_at_iso",
        "creation_index",
        "content_hash",
        "key",
        "tag",
        "tags",
        "role",
        "kind",
        "content",
        "children",
        "removable",
        "lifecycle",
    }
)


@dataclass(frozen=True)
class Pos:
    """A place with a life: ``Pos(0, 1, ttl=3)`` is depth 0, position 1, for three cycles."""

    place: tuple[int, ...]
    ttl: int | None = None
    cad: int | None = None

    def __init__(self, *place: int, ttl: int | None = None, cad: int | None = None) -> None:
        if len(place) < 1 or not all(isinstance(step, int) for step in place):
            raise InvalidPlacement(f"{place!r} is no place", hint="Pos(depth, position, ...), for example Pos(0, 1)")
        object.__setattr__(self, "place", tuple(place))
        object.__setattr__(self, "ttl", ttl)
        object.__setattr__(self, "cad", cad)


@dataclass
class Component:
    """A piece of context: content with a role, a key, tags and a life.

    ``ttl``: None stays, 0 goes at the next commit, N lives through N further commits.
    ``cad`` with ``ttl``: comes again every ``cad`` cycles and stays ``ttl`` of them; both 1
    is sticky, always there. ``attributes`` are fields of your own that selectors find.
    ``id`` is given when the component is placed.
    """

    content: Any = ""
    key: str | None = None
    tags: Sequence[str] = ()
    ttl: int | None = None
    cad: int | None = None
    priority: int = 0
    role: str | None = None
    kind: str | None = None
    node_type: str = "block"
    removable: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    stages: tuple[Stage, ...] = field(default=(), repr=False)
    rounds: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tags, str):
            self.tags = (self.tags,)
        check_life(self.ttl, self.cad)
        taken = sorted(_RESERVED & set(self.attributes))
        if taken:
            raise InvalidPlacement(f"{', '.join(taken)}: reserved, not for attributes of your own", hint="prefix them, as in data_status")

    def render_lifecycle(self, stages: Sequence[Pos], *, cycle: bool | int = False) -> Component:
        """Plan the life of the component: it goes from place to place as each place's ttl runs out.

        After the last place it is removed; with ``cycle`` True it starts again for ever,
        with a number that many times. Returns the component.
        """
        if not stages:
            raise InvalidLifecycle("a lifecycle needs at least one stage", hint="pass [Pos(0, 1, ttl=2), ...]")
        for stage in stages:
            check_life(stage.ttl, None)
        self.stages = tuple(Stage(stage.place, stage.ttl) for stage in stages)
        self.rounds = -1 if cycle is True else int(cycle)
        self.ttl = stages[0].ttl
        return self


class TextContent(Component):
    """A component of text."""

    def __init__(self, content: str = "", **fields: Any) -> None:
        if not isinstance(content, str):
            raise InvalidPlacement(f"text content is a string, not {type(content).__name__}", hint="use Component for other content")
        super().__init__(content, **{"kind": "text", **fields})


def check_life(ttl: int | None, cad: int | None) -> None:
    """Raise InvalidLifecycle for a ttl or cadence that no component can have."""
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int) or ttl < 0):
        raise InvalidLifecycle(f"ttl is {ttl!r}", hint="None, or a number of cycles from 0 up")
    if cad is not None and (isinstance(cad, bool) or not isinstance(cad, int) or cad < 1):
        raise InvalidLifecycle(f"cad is {cad!r}", hint="a number of cycles from 1 up")
    if cad is not None and not ttl:
        raise InvalidLifecycle("a cadence needs a ttl of at least 1", hint="ttl=1, cad=1 is sticky")
