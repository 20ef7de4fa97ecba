"""From sessions to lessons: timelines, cases, notes and outcomes."""
