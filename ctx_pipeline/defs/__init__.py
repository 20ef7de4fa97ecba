"""Dagster as an adapter: thin assets over the stages, and the one place that imports it."""
