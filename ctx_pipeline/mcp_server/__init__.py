"""The MCP server: an agent searches the history, reads sessions and uses memories while it works."""
