"""Single sessions: their state, transcript, files and figures."""
