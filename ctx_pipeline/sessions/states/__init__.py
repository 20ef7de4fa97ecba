"""Where a session stands: its state at any moment, and what a new chat or another machine is told of it."""
