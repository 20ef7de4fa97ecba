"""What a command that failed teaches: what made it work and what proves that, and what a failure says by itself."""
