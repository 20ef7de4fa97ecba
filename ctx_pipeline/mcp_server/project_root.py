"""The project whose files are read."""

from pathlib import Path

from ctx_pipeline.errors import UsageError


def project_root() -> Path:
    """Return the project that the server was started in: the nearest folder with a repository, else the working folder itself.

    Raises UsageError in a home folder, whose files are no project.
    """
    here = Path.cwd().resolve()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    if root in {Path(root.anchor), Path.home().resolve()}:
        raise UsageError("the server was not started in a project", hint="start it in the folder whose files are meant")
    return root
