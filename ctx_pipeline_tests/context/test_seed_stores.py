"""The examples of contextstore's documentation, run with our import name."""

from __future__ import annotations

import asyncio
import textwrap

import pytest

from ctx_pipeline_tests.context.loopback import openai_server

pytestmark = pytest.mark.feature("context.seed-examples.stores")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(code):
    """Run an example as a script; return its names."""
    names = {"__name__": "example"}
    exec(compile(textwrap.dedent(code), "example", "exec"), names)
    return names


@pytest.mark.parametrize("made", ['SQLiteMemory("chat.db")', "InMemoryMemory()"])
def test_quick_start(made, capsys):
    run(f"""
        import asyncio
        from ctx_pipeline import InMemoryMemory, SQLiteMemory

        async def main():
            memory = {made}
            await memory.save_context("session-1", [
                {{"role": "user", "content": "Hello!"}},
                {{"role": "assistant", "content": "Hi there!"}}
            ])
            history = await memory.load_context("session-1")
            print([(m["role"], m["content"]) for m in history])

        asyncio.run(main())
    """)

    assert capsys.readouterr().out == "[('user', 'Hello!'), ('assistant', 'Hi there!')]\n"


def test_building_and_its_strategies():
    names = run("""
        from ctx_pipeline import ContextBuilder, tokenizer_from_name

        builder = ContextBuilder.from_model('gpt-4')

        messages = [
            {'id': '1', 'role': 'user', 'content': 'Hello!', 'timestamp': '2024-01-01T00:00:00Z'},
            {'id': '2', 'role': 'assistant', 'content': 'Hi!', 'timestamp': '2024-01-01T00:01:00Z'},
        ]

        result = builder.build(messages, max_tokens=4000)
        oldest = builder.build(messages, max_tokens=9, strategy='truncate_oldest')
        recent = builder.build(messages, max_tokens=9, strategy='recent_only')
        summary = builder.build(
            messages,
            max_tokens=15,
            strategy='summarize_oldest',
            strategy_opts={'summarizer': lambda msgs: "Sum", 'chunk_size': 1},
        )
        tokenizer = tokenizer_from_name('gpt-4')
        fallback = tokenizer_from_name('fallback')
    """)

    assert (names["result"].total_tokens, names["result"].approximate) == (2 + 2 + 8 + 3, False)
    assert [m["id"] for m in names["oldest"].messages] == [m["id"] for m in names["recent"].messages] == ["2"]
    assert names["summary"].strategy_used == "none"
    assert (names["tokenizer"].approximate, names["fallback"].approximate) == (False, True)


def test_the_full_example_remembers_over_three_turns(monkeypatch):
    with openai_server() as (url, seen):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        names = run("""
            from uuid import uuid4
            from datetime import datetime
            from openai import OpenAI
            from ctx_pipeline import ContextBuilder, SQLiteMemory

            client = OpenAI()
            memory = SQLiteMemory("chat.db")
            builder = ContextBuilder.from_model('gpt-4')

            async def chat(session_id: str, user_message: str):
                history = await memory.load_context(session_id)
                history.append({
                    'id': str(uuid4()),
                    'role': 'user',
                    'content': user_message,
                    'timestamp': datetime.now().isoformat(),
                })
                result = builder.build(history, max_tokens=4000)
                response = client.chat.completions.create(
                    model='gpt-4',
                    messages=[{'role': m['role'], 'content': m['content']} for m in result.messages],
                )
                assistant_msg = {
                    'id': str(uuid4()),
                    'role': 'assistant',
                    'content': response.choices[0].message.content,
                    'timestamp': datetime.now().isoformat(),
                }
                history.append(assistant_msg)
                await memory.save_context(session_id, history)
                return assistant_msg['content']
        """)
        answers = [asyncio.run(names["chat"]("s", text)) for text in ("one", "two", "three")]
        names["client"].close()
        names["memory"].close()

    assert answers == ["answer 1", "answer 2", "answer 3"]
    assert [m["content"] for m in seen[2]["messages"]] == ["one", "answer 1", "two", "answer 2", "three"]


def test_a_custom_backend():
    names = run("""
        from ctx_pipeline import MemoryBackend
        from typing import List, Dict, Any, Optional

        class RedisBackend(MemoryBackend):
            async def load_context(self, session_id: str, k: Optional[int] = None) -> List[Dict[str, Any]]:
                pass

            async def save_context(self, session_id: str, context: List[Dict[str, Any]]) -> None:
                pass

            async def append_context(self, session_id: str, context: List[Dict[str, Any]]) -> None:
                pass

            async def delete_session(self, session_id: str) -> None:
                pass

            async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
                pass
    """)

    assert names["RedisBackend"]().sync.load_context("s") is None
    with pytest.raises(TypeError, match="abstract"):
        names["MemoryBackend"]()


def test_embeddings_of_openai(monkeypatch):
    with openai_server() as (url, seen):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        names = run("""
            from openai import OpenAI

            client = OpenAI()

            def embed_fn(texts: list[str]) -> list[list[float]]:
                response = client.embeddings.create(
                    input=texts,
                    model="text-embedding-3-small"
                )
                return [e.embedding for e in response.data]
        """)
        from ctx_pipeline import InMemoryEmbeddingStore, retrieve_relevant

        store = InMemoryEmbeddingStore()
        store.sync.add("s", "long", [9.0, 1.0])
        store.sync.add("s", "short", [1.0, 9.0])
        found = asyncio.run(retrieve_relevant("s", "a long question", names["embed_fn"], store, k=1))
        names["client"].close()

    assert [i.message_id for i in found] == ["long"]
    assert seen[0]["input"] == ["a long question"]


def test_retrieval_with_the_stand_in(capsys):
    run("""
        import asyncio
        from ctx_pipeline import InMemoryEmbeddingStore, retrieve_relevant

        def embed_fn(texts: list[str]) -> list[list[float]]:
            import hashlib
            vectors = []
            for text in texts:
                h = hashlib.sha256(text.lower().encode()).digest()
                vec = [b / 255.0 for b in h]
                vectors.append(vec + [0.0] * (768 - 32))
            return vectors

        async def main():
            store = InMemoryEmbeddingStore()
            await store.add("session-1", "msg-1", embed_fn(["Hello!"])[0], {"text": "Hello!"})
            await store.add("session-1", "msg-2", embed_fn(["How are you?"])[0], {"text": "How are you?"})
            results = await retrieve_relevant("session-1", "greeting", embed_fn, store, k=5)
            for item in results:
                print(f"{item.message_id}: {item.score:.3f} - {item.metadata.get('text')}")

        asyncio.run(main())
    """)

    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"msg-1", "msg-2"}
    assert any(line.endswith(" - How are you?") for line in lines)


def test_the_unified_workflow_with_the_packaged_model(capsys):
    pytest.importorskip("wordllama")
    run("""
        import asyncio
        from ctx_pipeline import SessionStore, SessionStoreConfig, SQLiteMemory, InMemoryEmbeddingStore
        from ctx_pipeline import packaged_embed_fn as embed_fn

        async def main():
            memory = SQLiteMemory("chat.db")
            retrieval = InMemoryEmbeddingStore()

            config = SessionStoreConfig(
                auto_embed=True,
                embed_fn=embed_fn,
            )

            store = SessionStore(memory, retrieval, config)

            await store.save_context("session-1", [
                {"id": "1", "role": "user", "content": "What is Python?"},
                {"id": "2", "role": "assistant", "content": "Python is a programming language."},
                {"id": "3", "role": "user", "content": "What is the capital of France?"},
                {"id": "4", "role": "assistant", "content": "Paris."},
            ])

            relevant = await store.retrieve_relevant("session-1", "programming languages", k=3)
            for item in relevant:
                print(f"{item.message_id}: {item.score:.3f} - {item.metadata.get('text')}")

            store.spawn_background_embedding("session-1", "msg-5", "Some text to embed")
            await store.wait_for_embeddings()
            print(await retrieval.has_embedding("session-1", "msg-5"))
            memory.close()

        asyncio.run(main())
    """)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2: ")
    assert lines[-1] == "True"
