"""Where a callback's store lies, and how the sensor learns of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

DEFAULT = "ctxrot.db"
VARIABLE = "CTX_CALLBACK_STORE"


def settings() -> Settings:
    """Return the settings in force; those of the environment alone when the config file cannot be read."""
    try:
        return settings_module.load()
    except (CtxError, OSError):
        return settings_module.bare()


def store_path(db_path: str | os.PathLike[str] = DEFAULT, *, chosen: Settings | None = None) -> Path:
    """Return the absolute path of a store: the one given, for the default one what ``CTX_CALLBACK_STORE`` names.

    The variable may list several, by commas; the first is written. A folder means
    ``ctxrot.db`` in it.
    """
    path = Path(db_path)
    if os.fspath(db_path) == DEFAULT:
        named = (chosen or settings()).environ.get(VARIABLE, "").partition(",")[0].strip()
        if named:
            path = Path(named).expanduser()
    if path.is_dir():
        path /= DEFAULT
    return path.absolute()


def announce(path: Path, home: Path) -> bool:
    """Drop one file into ``stores/`` of the home that names the store; True when it stands there."""
    name = home / "stores" / digest(str(path), size=16)
    try:
        if name.is_file() and name.read_text("utf-8") == str(path):
            return True
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        name.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(str(path))
    except (OSError, UnicodeError):
        return False
    return True
