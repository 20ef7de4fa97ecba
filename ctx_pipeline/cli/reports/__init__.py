"""Reports over sessions: files, savings, compression, activity and cards."""
