"""Secrets are found in bytes and text whatever their escaping, and ordinary code is left alone."""

import base64
import json
import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.lazy_pattern import atomic, compiled
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.redaction.redactor import literal_in
from ctx_pipeline.redaction.repeats import shortened
from ctx_pipeline_tests.factories.plants import planted

REDACTOR = Redactor()


@pytest.mark.feature("redaction.detectors")
@pytest.mark.parametrize("seed", range(5))
def test_every_detector_hides_exactly_its_planted_secret(seed):
    for detector in DETECTORS:
        text, secret = planted(detector, seed)
        start = text.index(secret)
        assert REDACTOR.find(text) == [(detector.name, start, start + len(secret))], detector.name
        assert REDACTOR.redact(text) == text.replace(secret, f"[REDACTED:{detector.name}]"), detector.name


@pytest.mark.feature("redaction.prefilter")
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("before", ["", "\n", "\t", "é "])
def test_the_prefilter_names_the_text_with_a_secret_however_deep_it_is_escaped(depth, before):
    for detector in DETECTORS:
        text = before + planted(detector).text + "\n"
        for _ in range(depth):
            text = json.dumps({"text": text})
        texts = ["task-list", text, "", "naïve done", text.replace("/", "\\/")]
        assert REDACTOR.suspects(texts) == [1, 4], detector.name


@pytest.mark.feature("redaction.prefilter")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.name)
def test_a_secret_is_seen_at_the_edges_of_its_text_and_never_across_them(detector):
    secret = planted(detector).text.strip()
    half = len(secret) // 2
    assert REDACTOR.suspects(["a1", secret, "b2"]) == ([1] if REDACTOR.find(secret) else [])
    halves = [secret[:half], secret[half:]]
    assert set(REDACTOR.suspects(halves)) >= {n for n, text in enumerate(halves) if REDACTOR.find(text)}


_PIECES = st.sampled_from(
    [planted(d).text for d in DETECTORS] + [planted(d).secret for d in DETECTORS] + ["\0", "é", "\ud800", "\n", "= ", "A1b2"]
)


@pytest.mark.feature("redaction.prefilter")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(_PIECES | st.text(max_size=6), max_size=4).map("".join), max_size=6))
def test_no_text_in_which_a_secret_is_found_is_passed_over(texts):
    own = Redactor({"badge": r"A1b2(?P<s>=)"})
    for redactor in (REDACTOR, own):
        assert set(redactor.suspects(texts)) >= {n for n, text in enumerate(texts) if redactor.find(text)}


@pytest.mark.feature("redaction.prefilter")
def test_no_text_gives_no_suspect():
    assert REDACTOR.suspects([]) == []
    assert REDACTOR.suspects(["", ""]) == []


@pytest.mark.feature("redaction.prefilter")
def test_megabytes_of_text_are_looked_through_in_pieces_and_each_text_keeps_its_place():
    secret = planted(next(d for d in DETECTORS if d.name == "github-token")).text
    large = "just words " * 300_000
    assert REDACTOR.suspects([large, secret, large, large, "é", secret, large, secret]) == [1, 5, 7]


@pytest.mark.feature("redaction.no-false-alarm")
@pytest.mark.parametrize(
    "text",
    [
        "password = getpass.getpass()",
        "token = tokens[i]",
        "token = next(tokens)",
        "token = self._peek(1)",
        'secret = os.environ["SECRET"]',
        "api_key=settings.api_key",
        'api_key: process.env["OPENAI_API_KEY"]',
        "def login(user, password=None): ...",
        '"max_tokens": 4096, "input_tokens": 123456',
        'password = "${DB_PASSWORD}"',
        "secret: <your-secret>",
        "export TOKEN=$GITHUB_TOKEN",
        'type="password" name="password"',
        'password: "required"',
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "sk-learn-some-long-class-name-of-a-page",
        "disk-usage-of-all-the-things-in-here",
        "npm_config_registry_is_a_long_name_too",
        'token_type = "bearer"',
        "mysql://user:${PASS}@host/db",
        '{"command": "docker login ghcr.io\\nmkdir -p build/Output9"}',
        "docker login -profile staging-eu9",
        "https://example.test/a:b@c",
        'if text.startswith("-----BEGIN PRIVATE KEY-----"): parse(text)',
        'tokenizer = "cl100k_base"',
        '"AWS::IAM::AccessKey": "bf29289b78d371e3"',
        'ASSET_FRESHNESS_PASS = "ASSET_FRESHNESS_PASS"',
        "private_key: x25519.X25519PrivateKey",
        "def load(self, private_key: ed25519.Ed25519PrivateKey, passed: bytes) -> None: pass",
        "private_key: Ed25519PrivateKey",
        '"password": "unreserved",',
        "github://team:repo@main/a.csv",
        '"nextToken": "RW5DdDJkMWYwZjM2MzM2VHVpOHJIUXlDUXlhc2Q"',
        '"NextToken": "eyJvZmZzZXQiOjQyLCJtYXJrIjoiOWYyUSJ9VqLm7Zx"',
        "REDIS_PASSWORD:\n  REDIS_PORT: 6379",
        'pass: "2024-11-29T10:11:12Z"',
        "pass: 'shadowMapPass2D'",
        'api_key: "shadowMapPass2D"',
        'token: "2024-11-29T10:11:12.123456+00:00"',
        'password: "2024-11-29"',
        'secret_key="v1.2.3-rc10.20240101"',
        '"ClientToken": "1234abcd-1234-abcd-1234-d46a8903e9bc"',
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTestDatabaseSecret-a1b2c3",
        "MAX_PASSWORD_BYTES:\n    return PoolError",
        "x8gN/" * 20 + "EAAB" + "EAABk3J9wQ" * 12,
    ],
)
def test_code_that_names_secrets_without_holding_one_is_left_alone(text):
    assert REDACTOR.redact(text) is text


@pytest.mark.feature("redaction.assignments")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PASSWORD=supersecret", "PASSWORD=[REDACTED:password]"),
        ("DB_PASSWORD=correct-horse", "DB_PASSWORD=[REDACTED:password]"),
        ("password: hunter2!x", "password: [REDACTED:password]"),
        ("password:\n  hunter2!x", "password:\n  [REDACTED:password]"),
        ('Vault::API_KEY = "8f3b2a1c9d4e5f60"', 'Vault::API_KEY = "[REDACTED:secret]"'),
        ("X-Api-Key: 8f3b2a1c9d4e5f608f3b", "X-Api-Key: [REDACTED:secret]"),
        ("X-API-KEY: 8f3b2a1c9d4e5f608f3b", "X-API-KEY: [REDACTED:secret]"),
        ('{"X-API-Key": "8f3b2a1c9d4e5f608f3b"}', '{"X-API-Key": "[REDACTED:secret]"}'),
        ("curl -H 'Api-Key: 8f3b2a1c9d4e5f608f3b' x", "curl -H 'Api-Key: [REDACTED:secret]' x"),
        ('refresh_token = "8f3b2a1c9d4e5f608f3b"', 'refresh_token = "[REDACTED:token]"'),
        ('password: str = "hunter2!"', 'password: str = "[REDACTED:password]"'),
        ('{\\"password\\":\\"hunter2x\\"}', '{\\"password\\":\\"[REDACTED:password]\\"}'),
        ("x-api-key: 8f3b2a1c9d4e5f60", "x-api-key: [REDACTED:secret]"),
        ('os.environ["API_KEY"] = "8f3b2a1c9d4e5f60"', 'os.environ["API_KEY"] = "[REDACTED:secret]"'),
        ("TOKEN_PROD=8f3b2a1c9d4e5f60abc", "TOKEN_PROD=[REDACTED:token]"),
        ("?access_token=8f3b2a1c9d4e5f60abc&x=1", "?access_token=[REDACTED:token]&x=1"),
        ("redis://:p4ssw0rd@cache:6379/0", "redis://:[REDACTED:database-url]@cache:6379/0"),
    ],
)
def test_a_value_after_a_telling_name_is_hidden(text, expected):
    assert REDACTOR.redact(text) == expected


@pytest.mark.feature("redaction.assignments")
@pytest.mark.parametrize(
    "text",
    [
        'FB_PAGE_TOKEN="q9Zx8Lm2Pq7Rt5Vw3Yb1Nc6"',
        "page_token: q9Zx8Lm2Pq7Rt5Vw3Yb1Nc6",
        "STATUSPAGE_TOKEN=q9Zx8Lm2Pq7Rt5Vw3Yb1Nc6",
        "MYAPP_NEXT_TOKEN=q9Zx8Lm2Pq7Rt5Vw3Yb1Nc6",
        "DB_PASSWORD=Hunter2xQ9Secret",
        "DB_PASSWORD=Summer7Secret",
        'PASSWORD="Sommer2026Secret"',
        'client_secret: "Gx7pQ2mZ9vKey"',
        "DB_PASSWORD=Reserved-42x!",
    ],
)
def test_a_secret_that_ends_like_a_type_or_stands_beside_a_name_like_a_mark_is_hidden(text):
    assert "[REDACTED:" in REDACTOR.redact(text)


@pytest.mark.feature("redaction.one-hit-a-secret")
def test_a_key_inside_an_assignment_is_one_hit_named_by_the_more_exact_detector():
    secret = planted(next(d for d in DETECTORS if d.name == "anthropic-key")).secret
    assert REDACTOR.redact(f'api_key = "{secret}"') == 'api_key = "[REDACTED:anthropic-key]"'
    assert len(REDACTOR.find(f"Authorization: Bearer {secret}")) == 1


@pytest.mark.feature("redaction.idempotent")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.name)
def test_redacting_twice_is_redacting_once(detector):
    text, _ = planted(detector)
    once = REDACTOR.redact(f'token="{text}" {text}\npassword={text}')
    assert REDACTOR.redact(once) == once


@pytest.mark.feature("redaction.detectors")
def test_a_key_block_without_its_end_is_hidden_as_far_as_it_goes():
    block = planted(next(d for d in DETECTORS if d.name == "private-key")).secret
    cut = block[: block.index("-----END")]
    assert REDACTOR.redact(cut + "[cut]") == "[REDACTED:private-key][cut]"


def test_offsets_count_characters_not_bytes():
    text, secret = planted(next(d for d in DETECTORS if d.name == "aws-key-id"))
    text = f"päß🙂 {text} ü {secret}"
    assert [text[start:end] for _, start, end in REDACTOR.find(text)] == [secret, secret]


def test_lone_surrogates_pass_through():
    secret = planted(next(d for d in DETECTORS if d.name == "aws-key-id")).secret
    assert REDACTOR.redact(f"\ud800 {secret}") == "\ud800 [REDACTED:aws-key-id]"


@pytest.mark.feature("redaction.own-patterns")
def test_a_persons_own_pattern_is_found_like_the_built_in_ones():
    own = Redactor({"badge": r"BADGE-(?P<s>\d{6})"})
    assert own.redact("see BADGE-123456.") == "see BADGE-[REDACTED:badge]."
    assert own.suspects(["none", "see BADGE-123456.", "BADGE"]) == [1]
    assert REDACTOR.redact("see BADGE-123456.") == "see BADGE-123456."


@pytest.mark.parametrize(("name", "pattern"), [("badge", "("), ("Bad Name", "x")])
def test_an_own_pattern_that_cannot_be_used_says_so(name, pattern):
    with pytest.raises(SettingsError) as error:
        Redactor({name: pattern})
    assert error.value.hint


def test_names_of_detectors_are_unique_and_explained():
    names = [d.name for d in DETECTORS]
    assert len(set(names)) == len(names)
    assert all(d.meaning for d in DETECTORS)


@pytest.mark.feature("redaction.detectors")
@pytest.mark.parametrize(
    ("pattern", "asked"),
    [
        (rb"(?:a|b)*+[cd]{2,9}+(?:e|ff){0,4}+g", rb"(?>(?:a|b)*)[cd]{2,9}+(?>(?:e|ff){0,4})g"),
        (rb"(?:[)(+]\)|(x|yz)?+)++[]()+]+", rb"(?>(?:[)(+]\)|(?>(x|yz)?))+)[]()+]+"),
        (rb"[^]\](]++\((?:a)+b", rb"[^]\](]++\((?:a)+b"),
    ],
)
def test_an_early_python_3_11_gets_patterns_that_it_reads_rightly(pattern, asked):
    assert atomic(pattern) == asked


@pytest.mark.feature("redaction.detectors")
def test_a_pattern_with_an_atomic_group_finds_what_its_possessive_one_does():
    texts = ["aaa\n<stdout>x</stdout>", "<stdout>", "a<output>b", "nothing"]
    possessive = r"\A(?:(?!<(?:stdout|output)>)[\s\S])*+<(?:stdout|output)>"
    assert [bool(re.search(atomic(possessive), text)) for text in texts] == [True, True, True, False]
    assert [bool(compiled(possessive).search(text)) for text in texts] == [True, True, True, False]


@pytest.mark.feature("redaction.base64-slash")
@pytest.mark.parametrize(
    "text",
    ["export TOKEN='{}'", "TOKEN={}", '{{"api_token": "{}"}}', "secret: {}", 'client_secret = "{}"', "deploy --token {} -v", "api_key={}"],
)
def test_drawn_base64_with_a_slash_is_no_path(text):
    rng = random.Random(17)
    drawn = [base64.b64encode(rng.randbytes(rng.choice((24, 30, 32, 48)))).decode().rstrip("=") for _ in range(600)]
    slashed = [one for one in drawn if "/" in one[2:] and "/" not in one[:2]][:100]
    left = [one for one in slashed if one in Redactor({}).redact(text.format(one))]
    assert len(slashed) == 100
    # what has its small letters together by chance is left
    assert len(left) <= 5


@pytest.mark.feature("redaction.base64-slash")
@pytest.mark.parametrize(
    "path",
    [
        "src/main/java/com/example/Sha256TokenV2Factory",
        "app/config/Secret1Key2Value3.py",
        "kubernetes/io/serviceaccount/token2023",
        "Users/Dev42/Library/ApplicationSupport/Token9",
        "refs/heads/feature/ABC-123-rotate-api-key2",
        "node_modules/aws-sdk/clients/all2023/STS2011",
        "oauth2/v2/token/introspect/v2",
    ],
)
def test_a_path_after_the_name_of_a_secret_stays(path):
    for text in (f"TOKEN={path}", f'secret = "{path}"', f"--token {path}"):
        assert Redactor({}).redact(text) == text


@pytest.mark.feature("redaction.flag-words")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("mysqladmin status --password swordfish", "mysqladmin status --password [REDACTED:flag]"),
        ("tool login --password correct-horse-battery -v", "tool login --password [REDACTED:flag] -v"),
        ('{"command":"app --password hunter2\\nls"}', '{"command":"app --password [REDACTED:flag]\\nls"}'),
        ("app --password='letmein' | cat", "app --password='[REDACTED:password]' | cat"),
        ("app --passwd=letmein", "app --passwd=[REDACTED:password]"),
    ],
)
def test_a_word_that_a_command_gives_to_a_flag_for_a_password_is_replaced(text, kept):
    assert Redactor().suspects([text]) == [0]
    assert Redactor().redact(text) == kept


@pytest.mark.feature("redaction.flag-words")
@pytest.mark.parametrize(
    "text",
    [
        "use --password to log in",
        "give it with --password PASSWORD",
        "the --password options",
        "  --password string   Password",
        "docker login --password-stdin",
        "app --password $SECRET_WORD",
        "app --password <password>",
        "password=letmein_later(user)",
    ],
)
def test_a_word_that_speaks_of_a_flag_for_a_password_stays(text):
    assert Redactor().redact(text) == text


@pytest.mark.feature("redaction.clear-at-once")
def test_a_process_that_asks_of_long_texts_again_reads_each_of_them_once():
    text, redactor = "tests/test_a.py::test_b PASSED\n" * 1000, Redactor({})
    redactor.clears(text)
    redactor.clears(text)

    def least(done: Callable[[], object]) -> float:
        took = []
        for _ in range(5):
            began = time.perf_counter()
            done()
            took.append(time.perf_counter() - began)
        return min(took)

    assert least(lambda: redactor.clears(text)) * 5 < least(lambda: literal_in(text.encode()))
    key = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
    assert not redactor.clears(text + key)
    assert not Redactor({"mine": "test_b"}).clears(text)


@pytest.mark.feature("redaction.repeats")
@pytest.mark.parametrize("unit", ["pass=", "token: a.b ", "-----BEGIN ", "".join(f"{n:03}" for n in range(170)), "é%41"])
def test_what_repeats_itself_for_long_is_read_once_and_a_secret_beside_it_is_replaced(unit):
    text = unit * (1_000_000 // len(unit))
    assert len(shortened(text)) < 70_000
    assert shortened(text[:50_000]) == text[:50_000]
    for place in (0, 500_000 // len(unit) * len(unit), len(text)):
        mixed = f"{text[:place]} password=hunter2!x9 {text[place:]}"
        assert REDACTOR.suspects(["a", mixed]) == [1]
        assert REDACTOR.redact(mixed) == f"{text[:place]} password=[REDACTED:password] {text[place:]}"


@pytest.mark.feature("redaction.repeats")
def test_a_secret_that_a_long_text_repeats_is_replaced_at_every_place():
    unit = "export BILLING_API_KEY=k3Jq9ZxW1vB7nM5cL2pR8tY4\n"
    assert REDACTOR.redact(unit * 8_000) == "export BILLING_API_KEY=[REDACTED:secret]\n" * 8_000


@pytest.mark.feature("redaction.assignments")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://x.example/cb?role=arn:aws:iam::123456789012:role/d&client_secret=%s&z=1", "CsXRpJG2Tr8hzUjEcPVJ2tRKJC06DPdRO9YrxPbC"),
        ("role=arn:aws:iam::123456789012:role/d;api_key=%s", "khdVipy2eBI2Y1rzw27jkooEKqazwJ7QFMPd3W2X"),
        ("{r: arn:aws:s3:::b,secret_key: %s}", "1RqwkVHWunY90XYToGwbbrqQ7B697wnommM30DOX"),
        ("arn:aws:s3:::b\\nclient_secret=%s", "CHD6R26qI60ihBeoePW3jSOi"),
        ("GET /home/alice/projects/facebook/accesstokens/current/%s", "EAAG" + "27n7yE9ZkAFvmtSbIBbuMFd9W8" * 4),
        ("JWT_SECRET=%s", "Correct4Horse8Battery1Staple"),
        ("SIGNING_KEY: %s", "Correct4Horse8Battery1Staple"),
    ],
)
def test_a_secret_is_hidden_behind_the_name_of_a_resource_below_a_path_and_as_words_in_a_setting(text, secret):
    assert REDACTOR.suspects([text % secret]) == [0]
    assert secret not in REDACTOR.redact(text % secret)


@pytest.mark.feature("redaction.linear-time")
@pytest.mark.parametrize("middle", [".", "-", "+", ".a", "-1", "1"])
def test_what_begins_like_a_version_and_is_none_takes_no_time(middle):
    began = time.process_time()
    REDACTOR.redact(f'secret: "1.2.3{(middle * 390)[:390]}_1"')
    assert time.process_time() - began < 2


@pytest.mark.feature("redaction.linear-time")
@pytest.mark.parametrize("unit", ["password=", "--password abcdef ", "redis-cli -a "])
def test_eight_times_as_many_names_of_passwords_take_eight_times_as_long(unit):
    def seconds(characters: int) -> float:
        text = unit * (characters // len(unit))
        began = time.process_time()
        REDACTOR.redact(text)
        return time.process_time() - began

    seconds(1_000)
    assert seconds(1_600_000) < 13 * min(seconds(200_000) for _ in range(3))
