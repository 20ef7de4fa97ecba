"""The write side: complete, idempotent steps over a store; no Dagster in here."""

from ctx_pipeline.pipeline.reports import DONE, HELD, UNCHANGED, CellReport, StageReport

__all__ = ["DONE", "HELD", "UNCHANGED", "CellReport", "StageReport"]
