"""What the schemas of the tools take that a client is shown is counted once, for the report of what this program itself costs."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.sessions.states.state import counter
from ctx_pipeline.storage.served_tools import served
from ctx_pipeline_tests.mcp_server.conftest import Home, over_stdio, run
from ctx_pipeline_tests.waiting import eventually


@pytest.mark.feature("session.gain-schemas")
def test_a_server_counts_the_schemas_that_it_shows(home: Home) -> None:
    async def conversation() -> None:
        async with over_stdio(home, "--tools", "read") as client:
            shown = (await client.list_tools()).tools
            schemas = [{"name": t.name, "description": t.description, "schema": t.input_schema} for t in shown]
            text = json.dumps(schemas, ensure_ascii=False, separators=(",", ":"))
            # other servers over this store showed other tools before
            assert eventually(lambda: served(home.store) == ("read", len(shown), counter()(text)))

    run(conversation)
