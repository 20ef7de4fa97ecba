"""Replays the person's own history: would lessons of the past have answered what came later."""
