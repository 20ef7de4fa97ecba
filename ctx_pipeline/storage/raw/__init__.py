"""Raw objects and the files they come from."""
