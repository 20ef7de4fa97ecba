"""What every MemoryBackend must do: subclass :class:`BackendSuite` in a test file and give it a fixture ``memory``."""

from __future__ import annotations

import asyncio
import copy

import pytest

HELLO = {"id": "1", "role": "user", "content": "Hello!", "timestamp": "2024-01-01T00:00:00Z"}
ANSWER = {"id": "2", "role": "assistant", "content": "Hi!", "timestamp": "2024-01-01T00:01:00Z"}
RICH = {
    "id": "3",
    "role": "assistant",
    "name": "Zoë",
    "content": [{"type": "text", "text": "naïve ☃ \U0001f600"}, {"type": "image_url", "image_url": {"url": "x"}}],
    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
    "metadata": {"n": 1.5, "none": None, "nested": {"yes": True}},
    "timestamp": "2024-01-01T00:02:00+02:00",
}


class BackendSuite:
    """Tests against the fixture ``memory``."""

    @pytest.mark.feature("context.stores.round-trip")
    def test_what_is_saved_is_loaded_unchanged(self, memory):
        memory.sync.save_context("s", [HELLO, ANSWER, RICH])

        assert memory.sync.load_context("s") == [HELLO, ANSWER, RICH]

    @pytest.mark.feature("context.stores.round-trip")
    def test_an_id_and_a_rising_time_are_added_where_they_are_missing(self, memory):
        memory.sync.save_context("s", [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        first, second = memory.sync.load_context("s")

        assert (first["role"], first["content"], len(first["id"])) == ("user", "a", 36)
        assert first["timestamp"] < second["timestamp"]
        assert set(first) == {"id", "role", "content", "timestamp"}

    @pytest.mark.feature("context.stores.round-trip")
    def test_entries_that_are_no_messages_become_content(self, memory):
        memory.sync.save_context("s", ["bare", 7])

        assert [m["content"] for m in memory.sync.load_context("s")] == [{"data": "bare"}, {"data": 7}]

    @pytest.mark.feature("context.stores.semantics")
    def test_k_gives_the_last_and_zero_gives_none(self, memory):
        memory.sync.save_context("s", [HELLO, ANSWER, RICH])

        assert memory.sync.load_context("s", 2) == [ANSWER, RICH]
        assert memory.sync.load_context("s", k=99) == [HELLO, ANSWER, RICH]
        assert memory.sync.load_context("s", 0) == memory.sync.load_context("s", -1) == []

    @pytest.mark.feature("context.stores.semantics")
    def test_an_unknown_session_is_empty(self, memory):
        assert memory.sync.load_context("nobody") == []

    @pytest.mark.feature("context.backends")
    @pytest.mark.feature("context.stores.semantics")
    def test_saving_replaces_and_appending_adds(self, memory):
        memory.sync.save_context("s", [RICH])
        memory.sync.save_context("s", [HELLO])
        memory.sync.append_context("s", [ANSWER])

        assert memory.sync.load_context("s") == [HELLO, ANSWER]

    @pytest.mark.feature("context.stores.semantics")
    def test_a_saved_empty_session_exists(self, memory):
        memory.sync.save_context("s", [])
        memory.sync.append_context("s", [HELLO])

        assert memory.sync.load_context("s") == [HELLO]

    @pytest.mark.feature("context.stores.semantics")
    @pytest.mark.parametrize(
        ("method", "arguments", "message"),
        [
            ("append_context", ([HELLO],), "Session 'x' does not exist. Use save_context to create a new session."),
            ("delete_session", (), "Session 'x' does not exist."),
            ("delete_interaction", ("1",), "Session 'x' does not exist."),
        ],
    )
    def test_an_unknown_session_is_an_error_for_changes(self, memory, method, arguments, message):
        with pytest.raises(ValueError) as caught:
            getattr(memory.sync, method)("x", *arguments)

        assert caught.value.message == message

    @pytest.mark.feature("context.stores.semantics")
    def test_deleting_an_interaction_deletes_what_follows(self, memory):
        memory.sync.save_context("s", [HELLO, ANSWER, RICH])
        memory.sync.delete_interaction("s", "2")

        assert memory.sync.load_context("s") == [HELLO]
        with pytest.raises(ValueError, match="Interaction '2' not found in session 's'"):
            memory.sync.delete_interaction("s", "2")

    @pytest.mark.feature("context.stores.semantics")
    def test_ids_that_are_numbers_are_kept_and_found(self, memory):
        memory.sync.save_context("s", [{**HELLO, "id": 7}, {**ANSWER, "id": 8}])
        memory.sync.delete_interaction("s", "8")

        assert memory.sync.load_context("s") == [{**HELLO, "id": 7}]

    @pytest.mark.feature("context.stores.semantics")
    def test_a_deleted_session_is_gone_and_others_stay(self, memory):
        memory.sync.save_context("s", [HELLO])
        memory.sync.save_context("t", [ANSWER])
        memory.sync.delete_session("s")

        assert (memory.sync.load_context("s"), memory.sync.load_context("t")) == ([], [ANSWER])

    @pytest.mark.feature("context.stores.semantics")
    def test_what_was_loaded_or_given_is_a_copy(self, memory):
        given = [copy.deepcopy(RICH)]
        memory.sync.save_context("s", given)
        given[0]["metadata"]["n"] = 2
        memory.sync.load_context("s")[0]["metadata"]["n"] = 3

        assert memory.sync.load_context("s") == [RICH]

    @pytest.mark.feature("context.stores.semantics")
    @pytest.mark.parametrize("context", ["text", {"role": "user"}, 7, None])
    def test_a_context_is_a_list(self, memory, context):
        with pytest.raises(TypeError, match="a context is a list of messages"):
            memory.sync.save_context("s", context)

    @pytest.mark.feature("context.stores.concurrent")
    def test_fifty_appends_at_once_lose_nothing(self, memory):
        async def many():
            await memory.save_context("s", [])
            await asyncio.gather(*(memory.append_context("s", [{"id": str(n), "content": "x"}]) for n in range(50)))
            return await memory.load_context("s")

        assert sorted(int(m["id"]) for m in asyncio.run(many())) == list(range(50))

    @pytest.mark.feature("context.sync")
    def test_sync_works_inside_a_running_loop(self, memory):
        async def inside():
            memory.sync.save_context("s", [HELLO])
            return memory.sync.load_context("s")

        assert asyncio.run(inside()) == [HELLO]

    @pytest.mark.feature("context.stores.same-answers")
    @pytest.mark.parametrize("session_id", [5, None, b"s", "\ud800"])
    def test_a_session_id_is_text(self, memory, session_id):
        for method, arguments in (
            ("load_context", ()),
            ("save_context", ([HELLO],)),
            ("append_context", ([HELLO],)),
            ("delete_session", ()),
            ("delete_interaction", ("1",)),
        ):
            with pytest.raises(TypeError, match="session id") as caught:
                getattr(memory.sync, method)(session_id, *arguments)
            assert caught.value.hint

    @pytest.mark.feature("context.stores.same-answers")
    @pytest.mark.parametrize("k", ["x", 1.5, True])
    def test_k_is_a_whole_number(self, memory, k):
        memory.sync.save_context("s", [HELLO, ANSWER])

        with pytest.raises(TypeError, match=rf"k is {k!r}") as caught:
            memory.sync.load_context("s", k)
        assert caught.value.hint

    @pytest.mark.feature("context.stores.same-answers")
    @pytest.mark.parametrize("content", ["\ud800", b"bytes", float("nan"), {1: 2}, {"a", "b"}, object()])
    def test_what_json_would_give_back_as_something_else_is_refused(self, memory, content):
        memory.sync.save_context("s", [HELLO])

        for method in (memory.sync.save_context, memory.sync.append_context):
            with pytest.raises(TypeError, match="message") as caught:
                method("s", [{**ANSWER, "content": content}])
            assert caught.value.hint
        assert memory.sync.load_context("s") == [HELLO]

    @pytest.mark.feature("context.stores.same-answers")
    def test_a_tuple_comes_back_as_a_list(self, memory):
        memory.sync.save_context("s", [{**HELLO, "content": ({"type": "text", "text": "x"}, (1, 2))}])

        assert memory.sync.load_context("s")[0]["content"] == [{"type": "text", "text": "x"}, [1, 2]]
