"""Other programs: agent settings, hooks, schedules, imports and exports."""
