"""What language models are asked about sessions, only when a person says so."""
