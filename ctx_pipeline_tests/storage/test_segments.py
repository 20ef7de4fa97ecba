"""Raw objects and the files below the store."""

from __future__ import annotations

import hashlib

import pytest
import zstandard

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.raw.segments import (
    path_of,
    read_origin,
    read_origins,
    read_pieces,
    read_segment,
    read_stream,
    stream_text,
    unpack,
    write_pack,
    write_segment,
)

STREAM = "00ff00ff00ff00ff"


def origin(data: bytes, start: int = 0, **more) -> Origin:
    values = {
        "host": "toy", "root": "/home/é", "rel": "a/b.jsonl", "kind": "transcript", "stream": STREAM, "generation": 0, "start": start,
        "end": start + len(data), "sha256": hashlib.sha256(data).hexdigest(), "recorded_at": "2026-06-01T00:00:00Z", "mtime_ns": 5,
    }  # fmt: skip
    return Origin(**{**values, **more})


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path / "store")


@pytest.mark.feature("raw.self-describing")
def test_an_object_says_where_it_came_from_and_any_zstd_tool_unpacks_it(files):
    data = b'{"text": "\xff"}\n' * 1000
    segment = write_segment(files, origin(data), data)

    assert segment.path == f"raw/toy/00/{STREAM}/000000-00000000000000-00000000014000.jsonl.zst"
    assert (read_segment(files, segment.path), read_origin(files, segment.path)) == ((origin(data), data), origin(data))
    assert zstandard.ZstdDecompressor().stream_reader(files.read(segment.path), read_across_frames=True).read() == data
    assert segment.stored_bytes == files.size(segment.path) < len(data)


@pytest.mark.feature("raw.immutable")
def test_the_same_bytes_again_keep_the_object_and_other_bytes_are_refused(files):
    first = write_segment(files, origin(b"abc\n"), b"abc\n")
    packed = files.read(first.path)
    assert write_segment(files, origin(b"abc\n", recorded_at="later"), b"abc\n") == first
    with pytest.raises(StoreDamaged, match="exists with other bytes"):
        write_segment(files, origin(b"xyz\n"), b"xyz\n")

    assert files.read(first.path) == packed


@pytest.mark.feature("raw.hash-checked")
@pytest.mark.parametrize("at", [0, 5, 9, -2])
def test_a_flipped_bit_anywhere_is_noticed(files, at):
    segment = write_segment(files, origin(b"abc\n" * 50), b"abc\n" * 50)
    packed = bytearray(files.read(segment.path))
    packed[at] ^= 1
    files.write(segment.path, bytes(packed))

    with pytest.raises(StoreDamaged):
        read_segment(files, segment.path)


@pytest.mark.feature("raw.gap-noticed")
def test_segments_join_in_order_and_a_gap_is_noticed(files):
    one, two, three = (write_segment(files, origin(d, at), d) for d, at in ((b"a\n", 0), (b"b\n", 2), (b"c\n", 4)))

    assert read_stream(files, [three, one, two]) == b"a\nb\nc\n"
    with pytest.raises(StoreDamaged, match="begins at byte 4, not 2"):
        read_stream(files, [one, three])


@pytest.mark.feature("capture.compressed-source")
def test_a_broken_zst_gives_what_comes_before_the_break_and_a_huge_one_is_cut(files):
    lines = b"".join(b'{"n": %d}\n' % n for n in range(200_000))
    packed = zstandard.ZstdCompressor().compress(lines)
    half = packed[: len(packed) // 2]
    segment = write_segment(files, origin(half, rel="x.jsonl.zst"), half)

    text = stream_text(files, [segment], "x.jsonl.zst")
    assert 0 < len(text) < len(lines)
    assert lines.startswith(text)
    assert unpack(packed, limit=10_000) == lines[:10_000]
    assert unpack(b"no zstd at all") == b""


@pytest.mark.feature("store.no-way-out")
@pytest.mark.parametrize("rel", ["", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\0b", "a\\..\\b"])
def test_no_name_leaves_the_store(files, rel):
    with pytest.raises(StoreError, match="not a name inside the store"):
        files.write(rel, b"x")


@pytest.mark.feature("store.no-way-out")
@pytest.mark.parametrize(
    ("host", "stream"), [("../x", STREAM), ("toy", "../../../../etc"), ("toy", STREAM.upper()), ("", STREAM), ("toy", "0")]
)
def test_a_raw_path_is_made_of_a_key_and_hex_digits_alone(host, stream):
    with pytest.raises(StoreError):
        path_of(host, stream, 0, 0, 1)


@pytest.mark.feature("store.whole-writes")
def test_a_write_that_fails_leaves_the_old_object_and_no_rubbish(files, monkeypatch):
    import os

    from ctx_pipeline.storage import files as module

    files.write("a/b", b"old")

    def broken(source: object, target: object) -> None:
        raise OSError(5, "Input/output error")

    real = os.replace
    monkeypatch.setattr(module.os, "replace", broken)
    with pytest.raises(StoreError, match="cannot be written"):
        files.write("a/b", b"new")
    monkeypatch.setattr(module.os, "replace", real)

    assert files.read("a/b") == b"old"
    assert [p.name for p in (files.root / "a").iterdir()] == ["b"]


def write_two(files: Files, first: str, second: str) -> None:
    with files.together():
        files.write(first, b"3")
        files.write(second, b"4")


@pytest.mark.feature("raw.batched-fsync")
def test_objects_of_a_block_get_their_names_at_its_end_or_never(tmp_path):
    files = Files(tmp_path)
    with files.together():
        files.write("a/one", b"1")
        files.write("a/two", b"2")
        assert not files.exists("a/one")
    assert (files.read("a/one"), files.read("a/two")) == (b"1", b"2")

    with pytest.raises(StoreError, match="not a name inside"):
        write_two(files, "a/three", "../four")

    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["one", "two"]


@pytest.mark.feature("raw.batched-fsync")
def test_a_block_of_many_objects_does_not_hold_them_all_open(tmp_path):
    files = Files(tmp_path)
    with files.together():
        for number in range(100):
            files.write(f"a/{number}", b"x")
        assert sum(files.exists(f"a/{number}") for number in range(100)) == 64
    assert sum(files.exists(f"a/{number}") for number in range(100)) == 100


def pieces_of(*bodies: bytes) -> list[tuple[Origin, bytes]]:
    found, at = [], 0
    for number, body in enumerate(bodies):
        found.append((origin(body, at, recorded_at=f"2026-06-0{number + 1}T00:00:00Z", mtime_ns=number), body))
        at += len(body)
    return found


@pytest.mark.feature("raw.packs")
def test_a_pack_holds_its_segments_with_their_origins_and_any_zstd_tool_unpacks_it(files):
    pieces = pieces_of(b"one\n", b"two\n", b"three\n")
    rows = write_pack(files, pieces)

    path = f"raw/toy/00/{STREAM}/000000-00000000000000-00000000000014.jsonl.zst"
    assert [(r.path, r.start, r.end, r.sha256, r.recorded_at, r.mtime_ns) for r in rows] == [
        (path, o.start, o.end, o.sha256, o.recorded_at, o.mtime_ns) for o, _ in pieces
    ]
    assert [r.stored_bytes for r in rows] == [files.size(path), 0, 0]
    assert read_origins(files, path) == [o for o, _ in pieces]
    assert (read_origin(files, path).start, read_origin(files, path).end) == (0, 14)
    assert list(read_pieces(files, [rows[1], rows[0], rows[2]])) == [b"two\n", b"one\n", b"three\n"]
    assert read_stream(files, rows) == b"one\ntwo\nthree\n"
    assert zstandard.ZstdDecompressor().stream_reader(files.read(path), read_across_frames=True).read() == b"one\ntwo\nthree\n"


@pytest.mark.feature("raw.packs")
def test_what_does_not_join_is_not_packed_and_other_bytes_are_never_overwritten(files):
    pieces = pieces_of(b"one\n", b"two\n", b"three\n")
    with pytest.raises(StoreDamaged, match="not those of the origin"):
        write_pack(files, [pieces[0], pieces[2]])
    whole = write_segment(files, origin(b"other bytes!\n\n"), b"other bytes!\n\n")
    with pytest.raises(StoreDamaged, match="exists with other bytes"):
        write_pack(files, pieces)
    assert read_segment(files, whole.path)[1] == b"other bytes!\n\n"


@pytest.mark.feature("raw.packs")
def test_a_pack_of_a_thousand_pieces_can_be_read_by_its_header_alone(files):
    pieces = pieces_of(*(b"%04d\n" % n for n in range(9)))
    many = [(origin(b"x\n", 2 * n), b"x\n") for n in range(1000)]
    assert read_origins(files, write_pack(files, many)[0].path) == [o for o, _ in many]
    assert len(read_origins(files, write_pack(files, pieces)[8].path)) == 9
