"""One file a mining method; session views in, memory candidates out."""
