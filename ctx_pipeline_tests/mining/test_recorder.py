"""The model whose answers are files."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from ctx_pipeline_tests.factories.recorder import digest_of, recorder
from ctx_pipeline_tests.mining.gold_model import ANSWERS

QUESTION = [{"role": "system", "content": "be short"}, {"role": "user", "content": "what is 6 by 7?"}]


def post(url):
    body = json.dumps({"model": "m", "messages": QUESTION}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


@pytest.mark.feature("mining.gold-model")
def test_a_request_is_written_down_and_answered_once_its_answer_lies_beside(tmp_path):
    name = f"{digest_of(QUESTION)}.txt"
    with recorder(tmp_path, requests=tmp_path / "requests") as server:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            post(server.url)
        assert (tmp_path / "requests" / name).read_text("utf-8") == "### system\nbe short\n\n### user\nwhat is 6 by 7?"
        (tmp_path / name).write_text("42", "utf-8")
        assert post(server.url) == "42"


@pytest.mark.feature("mining.gold-model")
def test_the_shipped_answers_hold_no_login_and_no_home_folder():
    texts = [path.read_text("utf-8") for path in ANSWERS.iterdir()]
    assert len(texts) == 65
    assert sum(len(t) for t in texts) < 140_000
    assert not [t for t in texts for private in ("/Users/", "/home/") if private in t]
