"""A query over readings of signals, with the sessions that they are of."""

from __future__ import annotations

READINGS_SQL = (
    "SELECT r.host, r.session_id, r.signal, r.value, r.metadata, s.title, s.project, epoch_us(s.last_ts)"
    " FROM readings r JOIN sessions s ON s.host = r.host AND s.session_id = r.session_id"
    " WHERE r.value IS NOT NULL AND r.signal IN (SELECT unnest(CAST(? AS VARCHAR[])))"
    " AND (? IS NULL OR r.host = ?) AND (? IS NULL OR ? IN (s.project, s.repository))"
    " AND (? IS NULL OR s.last_ts >= ?) AND (? IS NULL OR s.first_ts < ?) ORDER BY ALL"
)
"""Readings of some signals: host, session, signal, value, metadata, title, project, last time."""
