"""Whether what was learned of a machine holds on this one: a program that is absent, an option that one lacks, the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory


def of_machine(memory: Memory) -> bool:
    """Tell whether a memory speaks of the programs or the shell of a machine, and not of a project."""
    return bool(memory.body.get("absent")) or memory.body.get("about") in ("glob", "option")


def holds_here(memory: Memory) -> bool:
    """Tell whether nothing on this machine speaks against what a memory says of a machine."""
    if not of_machine(memory):
        return True
    from shutil import which

    from ctx_pipeline.shell.system_programs import has_make

    body = memory.body
    if body.get("about") == "option":
        program, _, make, *_ = (*map(str, body.get("names", ())), "", "", "")
        return has_make(program, make)
    if body.get("about") == "glob":
        return which("zsh") is not None
    return which(str(body["absent"]).replace(" ", "-")) is None
