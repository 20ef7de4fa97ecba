"""The text search of the backtest ranks as FTS5 itself does."""

import random
import sqlite3

from ctx_pipeline.storage import text_index
from ctx_pipeline.storage.text_index import PastText

WORDS = ("src/app.py", "self.run", "run", "app", "py", "self", "Café", "error", "TypeError", "it's", "zebra", "a_b", "b")


def by_fts5(texts, words, places, before, limit):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE past USING fts5(text, place, content='', tokenize='unicode61')")
    db.executemany("INSERT INTO past(rowid, text, place) VALUES (?, ?, ?)", ((n, text, f"at__{place}") for n, place, text in texts))
    wanted = " OR ".join('"' + w + '"' for w in words)
    match = f"text : ({wanted}) AND place : ({' OR '.join(f'at__{p}' for p in places)})"
    sql = "SELECT rowid FROM past WHERE past MATCH ? AND rowid < ? ORDER BY bm25(past, 1.0, 0.0), rowid LIMIT ?"
    return [n for (n,) in db.execute(sql, [match, before, limit])]


def test_the_texts_come_in_the_order_of_fts5(monkeypatch):
    draw = random.Random(7)
    texts = [(n << 24, n % 3, " ".join(draw.choices(WORDS, k=draw.randint(0, 40)))) for n in range(1, 300)]
    for most_held in (text_index._MOST_HELD, 50):
        monkeypatch.setattr(text_index, "_MOST_HELD", most_held)
        with PastText() as past:
            past.add(texts[:200])
            past.best(["run"], places=[0], before=1 << 60, limit=5)
            past.add(texts[200:])
            for _ in range(40):
                words = [w.lower() for w in draw.sample(WORDS, draw.randint(1, 5)) if w != "Café"] or ["run"]
                places, before = draw.sample((0, 1, 2), draw.randint(1, 3)), draw.randint(1, 300) << 24
                ranked = by_fts5(texts, sorted(words), places, before, 5)
                assert past.best(words, places=places, before=before, limit=5) == ranked
            assert past.best(["nowhere", "no.where", "'"], places=[0], before=1 << 60, limit=5) == []
    with PastText() as empty:
        assert empty.best(["run", "self.run"], places=[0], before=9, limit=5) == []
