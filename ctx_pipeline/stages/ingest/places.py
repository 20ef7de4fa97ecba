"""Repository and project of a session, under the names that decoding knows."""

from __future__ import annotations

from ctx_pipeline.model.repositories import UNKNOWN, project_of, repository_of

__all__ = ["UNKNOWN", "project_of", "repository_of"]
