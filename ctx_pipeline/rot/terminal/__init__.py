"""The live view in the terminal."""
