"""Looking after the store: doctor, verify, forget, repair, backup, encrypt and restore."""
