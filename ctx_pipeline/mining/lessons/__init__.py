"""What mining methods share: failures, fixes, turns, quotes and the form of a lesson."""
