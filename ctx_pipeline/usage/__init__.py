"""Tokens and cost: one reading of model calls, one filter, one registry of groupings."""
