"""Tests of ctx_pipeline, laid out as the package is."""
