"""The records of coding agents as an event-sourced pipeline.

Public names are resolved when they are first used, so that ``import ctx_pipeline``
costs next to nothing inside other people's programs.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_PUBLIC: dict[str, str] = {
    "Agent": "ctx_pipeline.context.agent.agent",
    "AmbiguousKey": "ctx_pipeline.context.errors",
    "AmbiguousName": "ctx_pipeline.errors",
    "BaseContextScaffold": "ctx_pipeline.context.agent.agent",
    "BudgetTooSmall": "ctx_pipeline.errors",
    "BuildResult": "ctx_pipeline.context.window.builder",
    "CapturedMemory": "ctx_pipeline.sessions.windows.captured_backend",
    "Component": "ctx_pipeline.context.tree.component",
    "ConflictingUpdate": "ctx_pipeline.context.errors",
    "Context": "ctx_pipeline.context.tree.context",
    "ContextBuilder": "ctx_pipeline.context.window.builder",
    "ContextExplorer": "ctx_pipeline.context.agent.agent",
    "ContextHistory": "ctx_pipeline.context.tree.context",
    "CtxError": "ctx_pipeline.errors",
    "CtxRotCallback": "ctx_pipeline.integrations.dspy_callback",
    "CtxRotStore": "ctx_pipeline.rot.store",
    "DuplicateContainer": "ctx_pipeline.context.errors",
    "EmbedFn": "ctx_pipeline.context.retrieval.embedding",
    "EmbeddingFailed": "ctx_pipeline.context.errors",
    "FallbackWordCountTokenizer": "ctx_pipeline.tokens.tokenizers",
    "InMemoryEmbeddingStore": "ctx_pipeline.context.retrieval.store",
    "InMemoryMemory": "ctx_pipeline.context.backends.memory_backend",
    "Interaction": "ctx_pipeline.context.interactions",
    "InvalidArgument": "ctx_pipeline.context.errors",
    "InvalidLifecycle": "ctx_pipeline.context.errors",
    "InvalidMessage": "ctx_pipeline.context.errors",
    "InvalidPlacement": "ctx_pipeline.context.errors",
    "InvalidSelector": "ctx_pipeline.context.errors",
    "InvalidVector": "ctx_pipeline.context.errors",
    "MemoryBackend": "ctx_pipeline.context.backends.memory_backend",
    "MessageFilter": "ctx_pipeline.context.window.builder",
    "MetricsCallback": "ctx_pipeline.context.window.builder",
    "ModelTokenizer": "ctx_pipeline.tokens.tokenizers",
    "NoSuchInteraction": "ctx_pipeline.context.errors",
    "NoSuchSession": "ctx_pipeline.context.errors",
    "NothingThere": "ctx_pipeline.context.errors",
    "OverlapWouldViolateODI": "ctx_pipeline.context.errors",
    "PactError": "ctx_pipeline.context.errors",
    "Pos": "ctx_pipeline.context.tree.component",
    "ReadOnlyHistory": "ctx_pipeline.context.errors",
    "RecentOnlyStrategy": "ctx_pipeline.context.window.strategies",
    "RetrievalBackend": "ctx_pipeline.context.retrieval.store",
    "RetrievedItem": "ctx_pipeline.context.retrieval.store",
    "SQLiteEmbeddingStore": "ctx_pipeline.context.backends.sqlite",
    "SQLiteMemory": "ctx_pipeline.context.backends.sqlite",
    "SchemaTooNew": "ctx_pipeline.errors",
    "SessionStore": "ctx_pipeline.context.retrieval.store",
    "SessionStoreConfig": "ctx_pipeline.context.retrieval.store",
    "Settings": "ctx_pipeline.settings",
    "StoreDamaged": "ctx_pipeline.errors",
    "StoreError": "ctx_pipeline.errors",
    "StoreLocked": "ctx_pipeline.errors",
    "SummarizeOldestStrategy": "ctx_pipeline.context.window.strategies",
    "SummarizerCallback": "ctx_pipeline.context.window.strategies",
    "TextContent": "ctx_pipeline.context.tree.component",
    "TokenCountResult": "ctx_pipeline.tokens.tokenizers",
    "Tokenizer": "ctx_pipeline.tokens.tokenizers",
    "TruncateOldestStrategy": "ctx_pipeline.context.window.strategies",
    "TruncationResult": "ctx_pipeline.context.window.strategies",
    "TruncationStrategy": "ctx_pipeline.context.window.strategies",
    "UnknownName": "ctx_pipeline.errors",
    "UnknownSnapshot": "ctx_pipeline.context.errors",
    "UsageError": "ctx_pipeline.errors",
    "analyze_session": "ctx_pipeline.rot.analysis",
    "deterministic_sort_key": "ctx_pipeline.context.window.costs",
    "get_strategy": "ctx_pipeline.context.window.strategies",
    "infer_embedding_dim": "ctx_pipeline.context.retrieval.embedding",
    "load_settings": "ctx_pipeline.sessions.session_details",
    "packaged_embed_fn": "ctx_pipeline.context.retrieval.embedding",
    "retrieve_relevant": "ctx_pipeline.context.retrieval.store",
    "run_deep_analysis": "ctx_pipeline.rot.deep",
    "tokenizer_from_name": "ctx_pipeline.tokens.tokenizers",
    "validate_vectors": "ctx_pipeline.context.retrieval.embedding",
    "window_history": "ctx_pipeline.sessions.windows.window_history",
}

__all__ = sorted([*_PUBLIC, "__version__"])  # noqa: PLE0605 - names are data, resolved below


def __getattr__(name: str) -> Any:
    """Import a public name from where it lives (PEP 562)."""
    import importlib

    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
