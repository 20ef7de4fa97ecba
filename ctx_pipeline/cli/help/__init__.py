"""What ``ctx help`` finds beside commands: questions, and where a word stands."""
