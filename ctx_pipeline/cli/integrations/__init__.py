"""``ctx hooks``, ``mcp``, ``schedule``, ``setup``, ``config`` and ``adopt``."""
