"""The tools that report usage and measurements; each a thin call of a feature with a limit on what it answers."""

from typing import Annotated, Any

from pydantic import Field

from ctx_pipeline.errors import NothingYet, UsageError
from ctx_pipeline.mcp_server.arguments import AnyHost, Cursor
from ctx_pipeline.mcp_server.kept_answers import KeptAnswers
from ctx_pipeline.mcp_server.paging import answering, cursor_at, place_of
from ctx_pipeline.mcp_server.schemas import SignalReadings, UsageAnswer
from ctx_pipeline.sessions import signals as signals_api
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.groupings import GROUPINGS

MOST_ROWS = 60


class FigureTools:
    """The tools over the figures of one store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept = KeptAnswers(settings)

    @answering
    def get_usage(
        self,
        by: Annotated[str, Field(description="What a row stands for.", json_schema_extra={"enum": list(GROUPINGS)})] = "daily",
        since: Annotated[str | None, Field(max_length=10, description="First day, YYYY-MM-DD.")] = None,
        until: Annotated[str | None, Field(max_length=10, description="Last day, YYYY-MM-DD.")] = None,
        host: AnyHost = None,
        project: Annotated[str | None, Field(max_length=4_096, description="Only this project, as a row of it is named.")] = None,
        model: Annotated[str | None, Field(max_length=200, description="Only this model.")] = None,
        limit: Annotated[int, Field(ge=1, le=MOST_ROWS, description="Rows that are shown, the last ones.")] = 31,
        cursor: Cursor = None,
    ) -> UsageAnswer:
        """Tell tokens and cost of the person's agents by day, session, project, model, tool ...; a cursor leads to the rows before."""
        asked = ("usage", by, since, until, host, project, model)
        place = place_of(cursor, *asked)
        told = self._kept.of(
            asked,
            lambda: usage(by, since=since, until=until, host=host, project=project, model=model, settings=self._settings).to_json(),
        )
        end = max(0, len(told["rows"]) - place)
        return UsageAnswer(
            by=by,
            rows=told["rows"][max(0, end - limit) : end],
            totals=told["totals"],
            rows_in_all=len(told["rows"]),
            next_cursor=cursor_at(place + limit, *asked) if end > limit else None,
        )

    @answering
    def get_signals(
        self,
        host: AnyHost = None,
        session_id: Annotated[str | None, Field(max_length=200, description="With host: this session; without: all sessions.")] = None,
        group: Annotated[str | None, Field(max_length=40, description="Only signals of this group, e.g. cost or risk.")] = None,
        cursor: Cursor = None,
    ) -> SignalReadings:
        """Tell what was measured: of one session with the events it rests on, or what all sessions add up to."""
        asked = ("signals", host, session_id, group)
        place = place_of(cursor, *asked)
        full = key = None
        if session_id:
            if not host:
                raise UsageError("a session needs its host", hint="give host and session_id as a hit has them")
            shown = self._kept.of(asked, lambda: signals_api.show(host, session_id, group=group, settings=self._settings))
            key, full, rows = shown["host"], shown["session_id"], [_reading(r) for r in shown["readings"]]
        else:
            rows = [
                {name: value for name, value in record.items() if name not in ("by", "histogram", "months", "reasons")}
                for record in signals_api.summary(group=group, settings=self._settings)
            ]
        if not any(r.get("count") or "value" in r for r in rows):
            raise NothingYet("no signal was measured", hint="ctx run measures what was captured; a sync alone does not")
        end = place + MOST_ROWS
        following = cursor_at(end, *asked) if end < len(rows) else None
        return SignalReadings(host=key, session_id=full, readings=rows[place:end], next_cursor=following)


def _reading(row: dict[str, Any]) -> dict[str, Any]:
    """Return a reading with at most three of the events it rests on, 200 characters of each."""
    names = ("signal", "family", "kind", "value", "label", "unit", "confidence", "reason")
    evidence = [{"event_id": e["event_id"], "text": e["text"][:200]} for e in row["evidence"][:3]]
    return {name: row.get(name) for name in names} | {"evidence": evidence}
