"""The line of a pasted output that says what went wrong. Read at every prompt: its patterns are loaded where there is more than a line."""

from __future__ import annotations

from ctx_pipeline.memory.ranking import error_words


def words_of_error(text: str, cwd: str | None = None) -> list[str]:
    """Return the words of the line of a pasted output that says what went wrong; none of a single line."""
    return error_words(text, lambda page: error_line(page, cwd))


def error_line(text: str, cwd: str | None) -> str:
    """Return the line of a pasted output that says what went wrong; empty for a single line."""
    if "\n" not in text.strip():
        return ""
    from ctx_pipeline.mining.lessons.failures import salient_line

    return salient_line(text, cwd, of_any_form=True)
