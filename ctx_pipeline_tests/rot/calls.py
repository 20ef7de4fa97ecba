"""Tool calls of a DSPy program, here or in a program of its own, and what a store has of them."""

from __future__ import annotations

import time

import dspy

from ctx_pipeline import CtxRotStore

CALLS = """
import os, sys, time, warnings, logging
import dspy
from ctx_pipeline import CtxRotCallback
def tool(x):
    return x
def calls(count):
    made = dspy.Tool(tool, name="t")
    for n in range(count):
        made(x=n)
"""


def tools(path):
    """Return how many tool calls a store has."""
    with CtxRotStore(path) as store:
        return sum(len(store.get_tool_calls_full(s)) for s in store.get_session_ids())


def run(callback, count=50):
    """Make tool calls and return how long each took, in seconds, the shortest first."""
    took = []
    with dspy.context(callbacks=[callback]):
        made = dspy.Tool(lambda x: x, name="t")
        for n in range(count):
            began = time.perf_counter()
            made(x=n)
            took.append(time.perf_counter() - began)
    return sorted(took)
