"""One file a family of signals; a session view in, readings out."""
