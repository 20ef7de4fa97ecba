"""One package a host: where its sessions lie and how its records become rows."""
