"""From candidates to memories, and from memories to a note in a prompt: pure functions."""
