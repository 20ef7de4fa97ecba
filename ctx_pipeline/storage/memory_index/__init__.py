"""``memory.db``: the full-text index over lessons, with optional vectors."""
