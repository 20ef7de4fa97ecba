"""Secrets are found in bytes and text, and replaced before anything derived is written."""

from __future__ import annotations

from ctx_pipeline.redaction.redactor import MARKER, Redactor, built_in, harmless

__all__ = ["MARKER", "Redactor", "built_in", "harmless"]
