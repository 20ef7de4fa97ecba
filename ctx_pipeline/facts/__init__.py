"""Facts: one answer to each question about a session, as pure functions over its rows.

A module answers one question; :mod:`ctx_pipeline.pipeline.facts` names the tables that the
answers are stored in, and :mod:`ctx_pipeline.model.tables` declares their columns.
"""
