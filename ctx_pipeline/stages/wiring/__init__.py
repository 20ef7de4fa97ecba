"""Enters the MCP server and the hooks in the settings of a host, and takes them out again, on a person's command only."""
