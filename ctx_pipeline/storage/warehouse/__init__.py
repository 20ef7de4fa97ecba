"""The warehouse: one DuckDB file, and the queries over it."""
