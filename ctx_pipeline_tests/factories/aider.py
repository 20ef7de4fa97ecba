"""Chat histories of Aider, made from the format that docs/hosts describes; nobody wrote them."""

from __future__ import annotations

FILE = ".aider.chat.history.md"
SESSION = "2026-03-04T10-00-00"


def lines(*texts: str) -> str:
    """Return notices of the program, as it writes them: quoted, with two blanks at the end."""
    return "".join(f"> {text}  \n" for text in texts)


def first() -> str:
    """Return a chat with an edit, a report of usage, an error and a stop."""
    return (
        "\n# aider chat started at 2026-03-04 10:00:00\n\n"
        + lines(
            "Aider v0.86.1",
            "Main model: anthropic/claude-sonnet-4-5 with diff edit format, infinite output",
            "Git repo: .git with 12 files",
        )
        + "\n#### add a table of contents  \n#### to notes.md  \n\n"
        + "I add it.\n\nnotes.md\n```\n<<<<<<< SEARCH\n=======\n# Contents\n>>>>>>> REPLACE\n```\n\n"
        + lines("Tokens: 2.4k sent, 1.0k cache write, 800 cache hit, 120 received. Cost: $0.0093 message, $0.0093 session.")
        + lines("Applied edit to notes.md", "Commit abc1234 docs: add contents")
        + "\n#### /run make check  \n\n"
        + lines("Running make check")
        + "\n#### fix it  \n\n"
        + lines("litellm.RateLimitError: too many requests", "^C again to exit")
    )


def second() -> str:
    """Return another chat of the same file, with another model whose price is not known."""
    return (
        "\n# aider chat started at 2026-03-05 09:30:00\n\n"
        + lines("Aider v0.86.1", "Model: ollama/qwen3-coder with whole edit format")
        + "\n#### what is in notes.md?  \n\nContents.\n\n"
        + lines("Tokens: 1,234 sent, 56 received.")
    )


def architect() -> str:
    """Return a chat begun from the command line with a message of several lines: a mode for one question, an architect and its editor."""
    plan = "Two steps:\n\n1. a list\n2. a test\n"
    return (
        "\n# aider chat started at 2026-03-06 08:00:00\n\n"
        "> /usr/bin/aider --architect --message \n        1. Read notes.md.\n        2. Make a plan.  \n"
        + lines(
            "Aider v0.86.2",
            "Model: deepseek/deepseek-chat with architect edit format, prompt cache, infinite output",
            "Editor model: deepseek/deepseek-coder with editor-diff edit format",
            "Cur working dir: /home/ada/notes/src",
            "Git working dir: /home/ada/notes",
        )
        + "\n####   \n####         1. Read notes.md.  \n####         2. Make a plan.  \n\n"
        + plan
        + "\n"
        + lines("Tokens: 1.5k sent, 289 received. Cost: $0.00053 message, $0.00053 session.")
        + "\n"
        + "".join(f"#### {line}  \n" for line in plan.strip().split("\n"))
        + "\nDone as planned.\n\n"
        + lines("Tokens: 2.1k sent, 374 received. Cost: $0.00076 message, $0.0013 session.", "Applied edit to notes.md")
        + "\n#### /ask is that all?  \n\n#### is that all?  \n\nYes.\n\n"
        + lines("Tokens: 2.5k sent, 10 received.")
    )


def home() -> dict[str, str]:
    """Return the files of a project's folder."""
    return {FILE: first() + second()}
