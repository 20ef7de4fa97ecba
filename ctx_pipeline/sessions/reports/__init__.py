"""Figures of sessions, of one or of many: what was spent, done, read again, and for how long."""
