"""What people ask of their sessions, each with the command that answers it: ``ctx help questions``."""

from __future__ import annotations

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("What did I spend this week, and why?", "ctx"),
    ("What did I spend today, this month, in all?", "ctx cost"),
    ("How does this month compare with others?", "ctx usage monthly"),
    ("Which project costs most?", "ctx usage project"),
    ("Which model costs most?", "ctx usage model"),
    ("What did one session cost, call by call?", "ctx explain latest"),
    ("How much of it did subagents cost?", "ctx usage thread"),
    ("Did caching work?", "ctx usage daily --cache"),
    ("What would save time or money?", "ctx hints"),
    ("Why does ccusage print another number?", "ctx explain 2026-10 --against ccusage"),
    ("How do I continue the last session?", "ctx resume"),
    ("What would a new chat be told of it?", "ctx session load latest"),
    ("How do new chats begin with that handoff, and which do?", "ctx hooks status"),
    ("Which session fixed this error, and how?", "ctx search --fixed ModuleNotFoundError freezegun"),
    ("Which sessions met this error?", "ctx search ModuleNotFoundError freezegun"),
    ("Which sessions speak of a word?", "ctx search pytest --sessions"),
    ("Which session touched this file?", "ctx list --file discounts.py"),
    ("What did the agent do, turn by turn?", "ctx show latest --turns"),
    ("Which files did it read and change?", "ctx files latest"),
    ("Did the tests pass in the end?", "ctx session status latest"),
    ("How full was the window?", "ctx history latest"),
    ("Where was the context compacted?", "ctx signal evidence compaction_count"),
    ("Which files are read again and again?", "ctx heatmap --all --sort reads"),
    ("Which commands fail most, and how long do the tests take?", "ctx work --sort failed"),
    ("How long did I work with agents, by day?", "ctx work --days"),
    ("What do calls fail with?", "ctx work --errors"),
    ("Which changes were never checked?", "ctx list --unchecked"),
    ("When did I have to correct the agent?", "ctx signal evidence user_correction_count"),
    ("What should go into the rules file that agents read?", "ctx learn --all --agents-md"),
    ("How do I share a session without secrets and private paths?", "ctx render latest --share"),
    ("Did a secret stand in my sessions?", "ctx doctor --redactions"),
    ("Which records could not be read?", "ctx doctor"),
)
"""(question, command): each command answers as it stands."""
