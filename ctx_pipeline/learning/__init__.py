"""Lessons: looked up, injected, flagged and tested against the past."""
