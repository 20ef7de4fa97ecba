"""What Codex draws from a session when it is asked without a person."""

from __future__ import annotations

from functools import partial

from ctx_pipeline.mining._asked import told
from ctx_pipeline.model.declared import AGENT, Method

CODEX_HEADLESS = Method(
    name="codex_headless",
    version=1,
    describe=(
        "Lessons that Codex draws from a session, asked without a person.\n\n"
        "Only when a person names it: `ctx mine codex SESSION --method codex_headless`. The installed `codex exec` runs once a session "
        "in an empty folder that it may only read, without the person's configuration or a session of its own. It gets the redacted "
        "record; its stream and tokens are kept, and a second run answers from them. Lessons that rest on no event are refused."
    ),
    extract=partial(told, "codex_headless"),
    reads=("events", "tool_calls"),
    deterministic=False,
    kinds=("prompt", "answer", "tool_call", "tool_result", "error"),
    asks=AGENT,
)
