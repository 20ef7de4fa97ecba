"""The team's page: one HTML file that fetches nothing, of the hub's reports; every text is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.display import money
from ctx_pipeline.storage.files import PrivateFolder

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.team.hub import Hub

PAGE = "index.html"

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Team</title><style>
:root { color-scheme: light dark; } body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; } th, td { padding: .3rem .8rem .3rem 0; text-align: left; }
th { border-bottom: 1px solid #8888; font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr + tr td { border-top: 1px solid #8883; } .note { color: #888; }
</style></head><body>
<h1>Team</h1>
<p>{{ total.calls | thousands }} model calls, {{ total.cost_nano | dollars }} as hosts recorded it and else at list prices,
of {{ members | length }} members;
each call is counted once, whichever machines have it. <span class="note">As of {{ now }}.</span></p>
{% for section in sections %}
<h2>{{ section.title }}</h2>
{% if section.rows %}<div class="scroll"><table><thead><tr>
{% for c in section.columns %}<th class="{{ 'n' if c.number }}">{{ c.title }}</th>
{% endfor %}</tr></thead><tbody>
{% for row in section.rows %}<tr>
{% for c in section.columns %}<td class="{{ 'n' if c.number }}">{{ row[c.key] | shown(c.key) }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% else %}<p class="note">{{ section.empty }}</p>{% endif %}
{% endfor %}
</body></html>
"""

_SECTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...], str], ...] = (
    (
        "Members",
        "members",
        (
            ("member", "member"),
            ("sessions", "sessions"),
            ("counted_elsewhere", "with another member"),
            ("calls", "calls"),
            ("output_tokens", "tokens out"),
            ("cost_nano", "cost"),
            ("checks", "checks"),
            ("failed_checks", "failed"),
            ("last_ts", "last session"),
        ),
        "nobody has published anything yet: ctx publish",
    ),
    (
        "Projects",
        "projects",
        (("project", "project"), ("members", "members"), ("sessions", "sessions"), ("calls", "calls"), ("cost_nano", "cost")),
        "no project is shared yet",
    ),
    (
        "Days",
        "days",
        (("day", "day (UTC)"), ("calls", "calls"), ("output_tokens", "tokens out"), ("cost_nano", "cost")),
        "no call has a time",
    ),
    (
        "Checks",
        "checks",
        (("kind", "kind"), ("runner", "runner"), ("result", "result"), ("runs", "runs"), ("members", "members")),
        "no shared session ran a check",
    ),
    (
        "Lessons",
        "lessons",
        (
            ("verdict", "verdict"),
            ("text", "lesson"),
            ("repository", "repository"),
            ("accepted_by", "accepted by"),
            ("rejected_by", "rejected by"),
            ("support", "sessions"),
            ("evidence", "evidence"),
            ("flags", "held for"),
        ),
        "no member shares lessons yet: ctx team share PROJECT lessons",
    ),
    (
        "Signals",
        "signals",
        (
            ("family", "family"),
            ("signal", "signal"),
            ("sessions", "sessions"),
            ("mean", "mean"),
            ("median", "median"),
            ("unit", "unit"),
            ("members", "members"),
        ),
        "no member shares facts yet: ctx team share PROJECT facts",
    ),
)
_WORDS = ("member", "project", "day", "kind", "runner", "result", "verdict", "text", "repository", "family", "signal", "unit", "flags")
_LISTS = ("accepted_by", "rejected_by", "evidence")


def build_page(hub: Hub, lessons: list[dict[str, Any]]) -> Path:
    """Write the page below the hub's folder (0600) and return its path."""
    import jinja2

    reports = hub.database.reports()
    for row in reports["members"]:
        row["member"] = hub.alias(str(row["member"]))
    # signals that say a word, or nothing of these sessions, have neither mean nor median
    reports["signals"] = [row for row in reports["signals"] if row["sessions"]]
    reports["lessons"] = [
        row | {"accepted_by": hub.shown(row["accepted_by"]), "rejected_by": hub.shown(row["rejected_by"])}
        for row in lessons
        if row["accepted_by"]
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"thousands": "{:,}".format, "dollars": _dollars, "shown": _shown}
    sections = [
        {
            "title": title,
            "rows": reports[name],
            "columns": [{"key": key, "title": said, "number": key not in (*_WORDS, *_LISTS)} for key, said in columns],
            "empty": empty,
        }
        for title, name, columns, empty in _SECTIONS
    ]
    html = environment.from_string(_TEMPLATE).render(
        total=reports["total"][0],
        members=reports["members"],
        sections=sections,
        now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    folder = hub.folder / "site"
    PrivateFolder(folder).text(PAGE, html)
    return folder / PAGE


def _dollars(nano: int | None) -> str:
    return money(nano or 0)


def _shown(value: Any, key: str) -> str:
    if value is None:
        return ""
    if key == "cost_nano":
        return _dollars(value)
    if key == "last_ts":
        return datetime.fromtimestamp(value / 1e6, UTC).strftime("%Y-%m-%d")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
