"""What a source file declares: its symbols with their signatures, drawn offline from the grammar of its language."""
