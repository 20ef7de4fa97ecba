"""Usage of the homes as they are now: what no table holds yet, read without writing anything."""
