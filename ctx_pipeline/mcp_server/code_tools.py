"""The tools that read code and output for an agent, under the names that lean-ctx's users know; each a thin call of ``compression``."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from ctx_pipeline.errors import UsageError
from ctx_pipeline.mcp_server.paging import answering, answering_code, cursor_at, place_of
from ctx_pipeline.model.display import NOT_IN_CODE
from ctx_pipeline.settings import Settings

if TYPE_CHECKING:
    from ctx_pipeline.compression.code_reading import Reads

CodePath = Annotated[str, Field(min_length=1, max_length=4_096, description="Path in the project.")]
Line = Annotated[int | None, Field(ge=1, le=10_000_000, description="A line number, from 1.")]

_EXPRESSION = re.compile(r"\\[bdsw.()\[\]{}]|\.[*+?]|\w\|\w|^\^|\w\$$", re.IGNORECASE)
"""What is rather meant as a regular expression than as it stands."""


class TextAnswer(BaseModel):
    """A text, to be read as data."""

    text: str
    next_cursor: str | None = Field(default=None, description="Give it back as `cursor` for the next page; null at the end.")


class CodeTools:
    """The tools over the project that the server was started in, and folders that a person allowed.

    Several agents may ask the same server: ``reads`` gives what the asking one was given, which is not "unchanged" to another.
    """

    def __init__(
        self,
        settings: Settings,
        root: Callable[[], Path],
        allowed: Sequence[Path] = (),
        *,
        reads: "Callable[[], Reads] | None" = None,
    ) -> None:
        self._settings = settings
        self._root = root
        self._allowed = tuple(allowed)
        self._only: Reads | None = None
        self._reads = reads or self._own_reads

    @answering_code
    def ctx_read(
        self,
        path: CodePath,
        mode: Annotated[
            Literal["auto", "full", "lines", "signatures", "diff"],
            Field(description="signatures: declarations with lines; diff: since you read it. Use auto or full before an edit."),
        ] = "auto",
        first: Line = None,
        last: Line = None,
        again: Annotated[bool, Field(description="The whole text, though you were given it before.")] = False,
    ) -> TextAnswer:
        """Read a file of the project: exact text, some lines, or its signatures; "unchanged" where you have it already."""
        from ctx_pipeline.compression import code_reading

        count = _counter()
        mode_asked = "auto" if mode == "full" else mode
        found = code_reading.read_file(
            path,
            roots=self._roots(),
            reads=self._reads(),
            mode=mode_asked,
            first=first,
            last=last,
            again=again or mode == "full",
            count=count,
        )
        head = f"{path} {found.first}-{found.last} of {found.lines}" if found.how in ("lines", "full") else f"{path} {found.how}"
        if found.how == "signatures" and (first or last):
            head += f" of lines {found.first}-{found.last} of {found.lines}"
        if found.how == "rewritten":
            return TextAnswer(text=f"{path}: {found.text}")
        if found.how == "unchanged":
            return TextAnswer(text=f"{path}: {found.text}{found.odd}" + (f"\n[more: first={found.more}]" if found.more else ""))
        more = f"\n[more: first={found.more}]" if found.more else ""
        return TextAnswer(text=f"{head}{found.odd}\n{found.text}{more}")

    @answering
    def ctx_shell(
        self,
        command: Annotated[str, Field(max_length=20_000, description="The command that printed it.")],
        output: Annotated[str, Field(max_length=20_000_000, description="What it printed.")],
        exit_status: Annotated[int | None, Field(ge=-1_000, le=1_000, description="Its exit status.")] = None,
    ) -> TextAnswer:
        """Shorten what a command printed: failures as they stand, passes as counts, the whole kept for ctx_recall. Runs nothing."""
        from ctx_pipeline.compression.shell_output import shorten

        made = shorten(command, output, count=_counter(), settings=self._settings, exit_status=exit_status)
        return TextAnswer(text=made.text)

    @answering_code
    def ctx_search(
        self,
        pattern: Annotated[str, Field(min_length=1, max_length=1_000, description="Text to find in the project's files.")],
        path: CodePath = ".",
        regex: Annotated[bool, Field(description="The pattern is a regular expression.")] = False,
        glob: Annotated[str | None, Field(max_length=300, description="Only these files, e.g. *.py.")] = None,
        cursor: Annotated[str | None, Field(max_length=200, description="Of the page before.")] = None,
    ) -> TextAnswer:
        """Search the code, files up to 1 MB: declarations first, tests last, each line once with its number."""
        from ctx_pipeline.compression import code_reading

        asked = ("code", pattern, path, regex, glob)
        skip = place_of(cursor, *asked)
        found = code_reading.search_code(pattern, roots=self._roots(), path=path, regex=regex, glob=glob, skip=skip)
        head = f"{found.hits} hit{'' if found.hits == 1 else 's'} in {found.files} file{'' if found.files == 1 else 's'}"
        if not found.hits:
            head += (
                " (not searched: most of what git ignores, binary files, files above 1 MB; name a file that git ignores by its own path)"
            )
            if not regex and _EXPRESSION.search(pattern):
                head += "\nthe pattern was searched as plain text; regex=true takes it as a regular expression"
        if found.ended:
            head = f"at least {head}; the search stopped there: name a folder, a glob or a longer pattern"
        if NOT_IN_CODE.search(found.text):
            head += " (not exact: control or invisible characters are left out of some lines)"
        return TextAnswer(text=f"{head}\n{found.text}".rstrip(), next_cursor=cursor_at(found.shown, *asked) if found.more else None)

    @answering
    def ctx_tree(
        self,
        path: CodePath = ".",
        depth: Annotated[int | None, Field(ge=1, le=20, description="Levels; without it as many as a page holds.")] = None,
        cursor: Annotated[str | None, Field(max_length=200, description="Of the page before.")] = None,
    ) -> TextAnswer:
        """Show the folders and files of the project, without what git ignores; files that are not shown are counted."""
        from ctx_pipeline.compression.folder_tree import tree

        asked = ("tree", path, depth)
        page = tree(path, roots=self._roots(), depth=depth, skip=place_of(cursor, *asked))
        return TextAnswer(text=page.text, next_cursor=cursor_at(page.more, *asked) if page.more else None)

    @answering_code
    def ctx_recall(
        self,
        handle: Annotated[str, Field(max_length=40, description="Of a shortened output.")],
        first: Line = None,
        last: Line = None,
        pattern: Annotated[str | None, Field(max_length=1_000, description="Only lines around this text.")] = None,
    ) -> TextAnswer:
        """Read a part of an output that was shortened, exactly as it was."""
        from ctx_pipeline.compression import kept_outputs

        part = kept_outputs.recall(handle, self._settings, first=first or 1, last=last, pattern=pattern)
        within = f" from {first or 1} to {last or part.lines}" if first or last else ""
        if pattern and not part.hits:
            return TextAnswer(text=f"none of the {part.lines} lines has this text{within}")
        head = f"lines {part.first}-{part.last} of {part.lines}"
        if pattern:
            head = f"{part.hits} line{'s' * (part.hits != 1)} of {part.lines} with this text{within}"
        if NOT_IN_CODE.search(part.text):
            head += " (not exact: control or invisible characters are left out)"
        more = f"\n[more: first={part.more}]" if part.more else ""
        return TextAnswer(text=f"{head}\n{part.text}{more}")

    def _own_reads(self) -> "Reads":
        """Return what the one agent of this server was given."""
        from ctx_pipeline.compression.code_reading import Reads

        if self._only is None:
            self._only = Reads()
        return self._only

    def _roots(self) -> tuple[Path, ...]:
        """Return the project and the allowed folders; without a project the allowed ones alone."""
        try:
            return (self._root(), *self._allowed)
        except UsageError:
            if not self._allowed:
                raise
            return self._allowed


def _counter() -> Callable[[str], int]:
    from ctx_pipeline.compression.compress import counting

    tokenizer = counting()
    return lambda text: tokenizer.count_tokens(text).count
