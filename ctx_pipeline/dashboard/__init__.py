"""The page: records in, HTML, style, script and data chunks out. It reads no store and no clock."""
