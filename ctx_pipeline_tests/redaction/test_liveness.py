"""Which secrets are worth a word: those that may open something, each once."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest

from ctx_pipeline.findings.evidence import history
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.redaction.liveness import PUBLIC, is_live
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.rollup import Filters
from ctx_pipeline_tests.factories import claude

KEY = "sk_live_" + "9fQ2mZr7Lw4XbT8kVn3Y"
SHOWN = {
    "a fixture": "    client = Client(password='s3cret!99')",
    "a default": "DATABASE_URL=postgres://postgres:postgres7@localhost:5432/app",
    "a service of compose": "url = 'mysql://root:V7qk2Lm9Zx@db:3306/shop'",
    "documentation": f'For example: export STRIPE_KEY="{KEY}"',
    "what not to do": f"// DON'T capture:\nerror: API_KEY={KEY}",
    "a test": f'def test_keys():\n    api_key = "{KEY}"',
    "test mode of the provider": "stripe listen --api-key sk_test_9fQ2mZr7Lw4XbT8kVn3Y",
    "the maker's own example": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "the id of a key": "AWS_ACCESS_KEY_ID=AKIA2MZR7LWXBTQKVNYF",
    "a row of signs": 'github = "ghp_0123456789abcdefghij0123456789ABCDEF"',
    "a placeholder": "curl -u admin:changeme99 https://shop.internal/api",
    "a doctest": ">>> client.login(password='Vq7!kLm2Zx9w')",
    "output in documentation": 'Output::\n\n    {"SecretAccessKey": "qT7Lm2Zx9Vw4Kp8Rb6Nd3Hs5Jf1Gc0Ye/AoU+IiQ"}',
    "the key of a text": 'reset_password: d("onboarding.formBody.resetPassword2")',
    "a mark of a request": 'client_token = "d5c090f5-8a0f-49c7-8281-72c796a21f72"',
    "a key that is made to be shown": 'publicKeyToken="1fc8b3b9a1e18e3b"',
    "the name of a key": '"encryptionKey": "arn:aws:kms:us-west-2:417498243647:key/c9fe2447-0795-4fda-afbe-8464574ae162"',
    "letters that happen to fit, inside of a picture": f"{'Qk3+' * 12}/EAAB{'mZr7Lw4XbT' * 9}/{'9Kx+' * 12}",
}
PEM = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\n"
    "c2gtZWQyNTUxOQAAACDk3V9wQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtUa\n"
    "-----END OPENSSH PRIVATE KEY-----"
)
USED = {
    "a settings file": "cat .env.production\nSTRIPE_SECRET=<key>\nPORT=8080",
    "a command": 'export STRIPE_API_KEY="<key>" && ./deploy.sh production',
    "a header": "curl -s -H 'Authorization: Bearer <key>' https://api.stripe.com/v1/balance",
    "a login": "docker login -u deploy --password Vq7kLm2Zx9wT registry.shop.internal",
    "a database far away": "psql postgres://app:Vq7kLm2Zx9wT@db1.shop.internal:5432/orders -c 'select 1'",
    "a remote": "git remote add origin https://ada:ghp_9fQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtU@github.com/shop/till.git",
    "what a program printed": "config loaded: {'stripe_key': '<key>', 'region': 'eu'}",
    "what a person typed": "use this key, it is the production one: <key>",
    "a settings file of npm": "//registry.npmjs.org/:_authToken=npm_9fQ2mZr7Lw4XbT8kVn3Y6Hc1Jd5Gs0Pe8RtU",
    "a key with its lines": PEM,
    "a cloud": "aws configure set aws_secret_access_key qT7Lm2Zx9Vw4Kp8Rb6Nd3Hs5Jf1Gc0YeAoUIiQ2W",
    "a log": "POST https://hooks.shop.internal/deploy?api_key=9fQ2mZr7Lw4XbT8kVn3Y6Hc1 200",
}


def _found(text: str) -> list[tuple[str, bool]]:
    return [(name, is_live(name, text, start, end)) for name, start, end in Redactor().find(text)]


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("case", SHOWN)
def test_examples_defaults_ids_and_test_values_are_replaced_and_not_shouted(case):
    found = _found(SHOWN[case])

    assert found, "it is still replaced"
    assert not any(live for _, live in found)


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("place", USED)
def test_secrets_that_are_used_are_told(place):
    text = USED[place].replace("<key>", KEY)

    assert any(live for _, live in _found(text))
    assert KEY not in Redactor().redact(text)


@pytest.mark.feature("redaction.live-published")
def test_what_stands_in_published_packages_is_replaced_and_told_by_nobody():
    text = f'class Client:\n    def login(self):\n        self.api_key = "{KEY}"\n'
    ((name, start, end),) = Redactor().find(text)

    assert is_live(name, text, start, end, '{"file_path": "/home/ada/shop/client.py"}')
    for place in (".venv/lib/python3.11/site-packages/shop/client.py", "node_modules/shop/client.js", "vendor/shop/client.go"):
        assert not is_live(name, text, start, end, f'{{"file_path": "/home/ada/shop/{place}"}}')


@pytest.mark.feature("redaction.live-published")
def test_hardly_anything_of_a_published_library_is_told_though_its_place_is_not_known():
    package = Path(sysconfig.get_paths()["stdlib"])
    redactor = Redactor()
    texts = [path.read_text("utf-8", "replace") for path in sorted([*package.glob("*.py"), *package.glob("*/*.py")])[:1_500]]
    found = {
        (name, text[start:end]): is_live(name, text, start, end)
        for text in (texts[i] for i in redactor.suspects(texts))
        for name, start, end in redactor.find(text)
    }

    assert len(found) >= 2
    assert not any(found.values())


@pytest.mark.feature("redaction.live")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.name)
def test_a_drawn_secret_of_every_kind_is_live_where_it_is_used(detector):
    rng = random.Random(7)
    seen = []
    for _ in range(20):
        text, secret = detector.plant(rng)
        text = text.replace("example.test", "shop.internal").replace("_test_", "_live_")
        seen.append(any(live for _, live in _found(text)))
        assert secret.rpartition("_")[2] not in Redactor().redact(text)

    assert sum(seen) == 0 if detector.name in PUBLIC else sum(seen) >= 18


@pytest.mark.feature("redaction.live")
def test_what_is_read_from_a_file_of_tests_or_documentation_is_an_example():
    text = f"STRIPE_KEY={KEY}"
    ((name, start, end),) = Redactor().find(text)

    assert is_live(name, text, start, end, '{"file_path": "/home/ada/shop/.env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/tests/fixtures/env"}')
    assert not is_live(name, text, start, end, '{"file_path": "/home/ada/shop/docs/setup.md"}')


@pytest.mark.feature("redaction.live")
def test_a_secret_that_the_person_typed_is_told_though_a_document_shows_it_too(tmp_path):
    def told(*sources: str) -> int:
        home = claude.ClaudeHome(tmp_path / "-".join(("home", *sources)))
        main = home.session()
        main.prompt(f"call the shop with STRIPE_KEY={KEY}" if "typed" in sources else "go on")
        for number, name in enumerate(s for s in sources if s != "typed"):
            main.call(f"t{number}", "Read", f"{number}\nSTRIPE_KEY={KEY}", file_path=f"/home/ada/shop/{name}")
        main.save()
        settings = Settings(home=tmp_path / "-".join(("store", *sources)), timezone="UTC", demo_roots={"claude": (home.root,)})
        with open_store(settings) as store:
            ingest(store, settings)
        return sum(history(settings, Filters(), ()).replaced.values())

    assert [told("typed"), told("typed", "docs/setup.md"), told(".env", "README.md")] == [1, 1, 1]
    assert [told("docs/setup.md"), told("src/pay.py", "docs/setup.md")] == [0, 0]
