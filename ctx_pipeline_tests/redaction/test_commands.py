"""Secrets as commands and settings of single programs are given them, found by an attack that knew none of the rules."""

from __future__ import annotations

import json
import random
import time

import pytest

from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.shapes import ALNUM, HEX, Planted, letters
from ctx_pipeline_tests.factories.secret_kinds import FORMS

REDACTOR = Redactor()
SHORT, LONG = 14, 40
TEXTS = (
    ("<auth-user-pass>\nvpnuser\n<s>\n</auth-user-pass>", SHORT),
    ("PresharedKey = <s>=", 43),
    ("[remote]\ntype = sftp\npass = <s>\n", 24),
    ("htpasswd -b /etc/ht admin <s>", SHORT),
    ("smbclient -U bob%<s> //srv/share", SHORT),
    ("gpg --batch --passphrase <s> -d a.gpg", SHORT),
    ("keytool -list -keystore k.jks -storepass <s>", SHORT),
    ("mongosh --host db -u root -p <s> --authenticationDatabase admin", SHORT),
    ("net use Z: \\\\srv\\share <s> /user:bob", SHORT),
    ("ConvertTo-SecureString '<s>' -AsPlainText -Force", SHORT),
    ("kubectl create secret generic db --from-literal=stripe=<s>", 24),
    ("gh secret set DEPLOY --body <s>", 32),
    ("npm config set //registry.example.test/:_authToken <s>", 36),
    ("sqlcmd -S db -U sa -P <s> -Q 'select 1'", SHORT),
    ("sqlplus scott/<s>@//db:1521/XE", SHORT),
    ("define('DB_PASSWORD', '<s>');", SHORT),
    ("define('AUTH_KEY', '<s>');", 48),
    ("requests.get(u, auth=('bob', '<s>'))", SHORT),
    ('expect "password:"\nsend "<s>\\r"', SHORT),
    ("[sudo] password for bob: <s>", SHORT),
    ("echo -n <s> | cryptsetup open /dev/sdb1 c -", SHORT),
    ('export BW_SESSION="<s>=="', 86),
    ("https://b.example.test/k?X-Amz-Credential=x&X-Amz-Signature=<s>", -64),
    ("gitlab-runner register --registration-token <s>", 20),
    ("rabbitmqctl add_user bob <s>", SHORT),
    ("x11vnc -passwd <s>", SHORT),
    ("xfreerdp /u:bob /p:<s> /v:h", SHORT),
    ("zip -P <s> a.zip a", SHORT),
    ("7z x a.7z -p<s>", SHORT),
    ("unzip -P <s> a.zip", SHORT),
    ("/msg NickServ IDENTIFY <s>", SHORT),
    ("nickserv identify <s>", SHORT),
    ("ls\nnet use Z: \\\\srv\\share /user:bob <s>", SHORT),
    ("cd x\n/usr/bin/zip -r -P <s> a.zip a", SHORT),
    ("kubectl create secret generic a --from-literal=user=bob --from-literal=note=<s>", SHORT),
    ("kubectl create configmap a --from-literal=DB_PASSWORD=<s>", SHORT),
    ("[a]\npass = <s>\n[b]\n", 24),
    ("pass = <s>", 24),
    ("smtp.login(user=bob&pass=<s>)", SHORT),
    ('{"auth": {"user": "bob", "pass": "<s>"}}', SHORT),
    ("auth: { user: 'bob', pass: '<s>' },", SHORT),
    ("DB_USER=bob PASS=<s> ./run", SHORT),
    ("poetry config http-basic.shop user <s>", SHORT),
    (".example.test\tTRUE\t/\tTRUE\t0\tsessionid\t<s>", 32),
    ("SetEnv DB_PASS <s>", SHORT),
    ("proxy_set_header X-Api-Key <s>;", 32),
    ("https://hooks.zapier.com/hooks/catch/1234567/<s>/", 0),
    ("https://chat.example.test/hooks/<s>", -26),
)
"""Text, and how many signs a secret of it has; of small letters and figures alone where that is negative."""


def planted(text: str, signs: int) -> Planted:
    secret = letters(random.Random(text), ALNUM if signs > 0 else HEX, abs(signs)) if signs else "a1b2c3d"
    return Planted(text.replace("<s>", secret), secret)


@pytest.mark.feature("redaction.commands")
def test_secrets_that_programs_are_given_are_replaced_in_every_form() -> None:
    tried, left = 0, []
    for text, signs in TEXTS:
        one = planted(text, signs)
        written = {name: form.write(one) for name, form in FORMS.items()}
        written["color without a blank"] = one.text.replace(one.secret, f"\x1b[32m{one.secret}\x1b[0m")
        for name, shown in written.items():
            tried += 1
            if one.secret in (REDACTOR.redact(shown) if REDACTOR.suspects([shown]) else shown):
                left.append((text, name))

    assert tried == len(TEXTS) * (len(FORMS) + 1)
    assert left == []


@pytest.mark.feature("redaction.commands")
@pytest.mark.parametrize("begin", ["cD", "4a", "25", "0A", "e2", "zz"])
def test_a_password_that_begins_like_an_escape_of_an_address_is_replaced_behind_a_percent_sign(begin: str) -> None:
    one = Planted(f"smbclient -U bob%{begin}9Kq7hR2mZ4 //srv/share", f"{begin}9Kq7hR2mZ4")
    for form in FORMS.values():
        shown = form.write(one)
        assert one.secret[2:] not in REDACTOR.redact(shown), shown


@pytest.mark.feature("redaction.commands")
@pytest.mark.parametrize(
    "text",
    [
        "unzip -P archive.zip",
        "zip -r release2.zip src9/app",
        "7z x archive2.7z -pfolder",
        "mongosh -p 27017 --host db1",
        "gpg --passphrase-fd 0 -d a.gpg",
        "gpg --passphrase $PASS -d a.gpg",
        "net use Z: \\\\srv2\\share9",
        "sqlplus / as sysdba",
        "auth=(user, password)",
        "auth=('user', os.environ['PASS'])",
        "define('DB_PASSWORD', getenv('DB_PASSWORD'));",
        "kubectl create secret generic db --from-literal=password=$PASSWORD",
        "see https://git-scm.com/hooks/applypatch-msg and .git/hooks/pre-commit",
        "https://docs.example.test/hooks/internationalizationhelp",
        'expect "password:"\nsend "$password\\r"',
        "[sudo] password for bob: ",
        "proxy_set_header X-Api-Key $http_x_api_key;",
        "a\tTRUE\tb\tFALSE\t3\tx\ty",
        "rabbitmqctl add_user bob <password>",
        "htpasswd -b /etc/nginx/htpasswd2 admin $PASSWORD",
        "used git bisect to identify 3f2a9c1d4b5e as first bad",
        "identify v1.2.3-rc1 as the regression",
        "Let me identify p95/p99-latency regressions",
        "We identify s3/ec2-specific code",
        "identify photo1a2b3.png",
        "PASS: test_foo2_bar3x",
        "pass=3,fail=12",
        "pass=12ms/op3",
        "pass=test1.case2.x3",
        "if pass == 'a1b2c3d4e5'",
        '"pass": "test_v2_case3x"',
        "bypass='a1b2c3d4e5'",
        "import x\npass = base64.b64decode(cfg)",
        "import x\npass = hashlib.sha256(md5x).hexdigest()",
        "func f() {\n\tpass = test.run1.case2\n}",
        json.dumps(json.dumps("func f() {\n\tpass = test.run1.case2\n}")),
        "kubectl create configmap c --from-literal=commit=3f2a9c1d",
        "kubectl create configmap c --from-literal=commit=3f2a9c1d4b5e6f708192a3b4c5d6e7f8091a2b3c",
        "wget https://x/y.zip -P data2024v1b2/",
        "rsync -av build.zip -P web1a2b3.example.test:/srv",
        "docker run --name zip -P nginx1a2b",
        "tar czf x.zip -P build1a2b/",
        "proxy_set_header X-Cache-Key a1b2c3d4;",
        "proxy_set_header X-Idempotency-Key a1b2c3d4;",
        "proxy_set_header Sec-WebSocket-Key a1b2c3d4;",
        "define('CACHE_KEY', 'user_v2_list4x');",
        "FALSE\t3\tprobe\tcg00000029_TC21_v2",
        "a\tTRUE\t3\tprobe\tcg00000029_TC21_v2",
        "dotnet use net8.0 net8.0-rc2.x64b2",
        "the net use of cache2a3 is a1b2c3d4",
    ],
)
def test_commands_without_a_secret_stay(text: str) -> None:
    assert REDACTOR.redact(text) == text


@pytest.mark.feature("redaction.linear-time")
@pytest.mark.parametrize("head", ["htpasswd -", "unzip ", "X-Amz-", "TRUE\t0\t", "net use "])
@pytest.mark.parametrize("unit", ["b", "X-Amz-Signature=", "htpasswd -b ", "zip -P ", "TRUE\t", "net use a "])
def test_a_hundred_kilobytes_that_begin_like_a_command_are_read_at_once(head: str, unit: str) -> None:
    REDACTOR.redact(head + unit)
    hostile = head + unit * (100_000 // len(unit))
    began = time.process_time()

    REDACTOR.redact(hostile)

    assert time.process_time() - began < 1.2
