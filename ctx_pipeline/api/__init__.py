"""What people import to read the store: records in plain values, nothing printed."""
