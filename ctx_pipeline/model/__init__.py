"""The nouns: what the package talks about. Standard library, msgspec and pydantic only."""
