"""Secrets that commands and settings of single programs are given: each by the words of its program, where what follows looks drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.redaction.contexts import QUOTE, SLASH, SPACE, WORD, after, drawn, like, long_drawn
from ctx_pipeline.redaction.shapes import ALNUM, HEX, NEXT_LINE, Detector, digits
from ctx_pipeline.redaction.written import named, of_words

if TYPE_CHECKING:
    import re

_WORDS = rb"[^\n|;&]{0,200}?[ \t]"
"""Other words of the same command."""
_NAMED = rb"[A-Za-z0-9_-]{0,40}(?:PASS|PASSWORD|SECRET|TOKEN|KEY|SALT|[pP]ass|[pP]assword|[sS]ecret|[tT]oken|[kK]ey)"
_PART = rb"(?P<s>[^\s\"'`\\<>\x1b\xc2]{8,400}?)"
"""A value up to what its program writes behind it."""
_ALONE = rb"(?:(?<![.\w-])|(?<=\\[nrt]))"
"""No part of a longer word before it."""
_LINE_BEGINS = (
    rb"(?:(?<![\s\S])|(?<=[\n+>|\"\'=])|(?<=\\n)|(?<=\\n\+)|(?<=[0-9]\t)|(?<=[0-9]\\t)|(?<=[0-9]\\\\t)|(?<=[0-9][:-])"
    rb"|(?<=\xe2\x86\x92)|(?<=\xe2\x94\x82 )|(?<=[|#] ))"
)
"""Nothing but the number or the mark of a line before it."""
_LEAST_KEY = 16
_NO_SECRET = rb"(?![\w-]{0,40}(?i:cache|idempotency|websocket|surrogate|partition|public)[_-]?(?i:key)(?![\w-]))"
"""Names that end like a key's and hold none."""
_IS_SECRET = lazy_pattern(_NAMED)
_STORES = lazy_pattern(rb"(?:create|add)[ \t]+(secret|configmap|cm)\b")
_FLAG_BEFORE = lazy_pattern(rb"--[a-z][\w-]{0,40}[ \t=]+\Z")


def _given(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a password looks drawn and its program is no word that another one's flag is given."""
    return drawn(secret, match) and _FLAG_BEFORE.search(match.string[max(0, match.start() - 60) : match.start()]) is None


def _not_words(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a value looks drawn and is no date and no name of code, a model or a release."""
    return drawn(secret, match) and not of_words(secret) and not named(secret) and (b"/" not in secret or len(secret) >= _LEAST_KEY)


def _stored(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a value that looks drawn is stored as a secret: by its name, by the command, or as long as a key."""
    if match["name"] is None or _IS_SECRET.search(match["name"]):
        return drawn(secret, match)
    *_, kind = [b"", *_STORES.findall(match.string[max(0, match.start() - 600) : match.start()])]
    return drawn(secret, match) if kind == b"secret" else not kind and long_drawn(secret, match)


COMMANDS: tuple[Detector, ...] = (
    after(
        "command-passphrase",
        "password given to gpg, keytool, a screen or a runner",
        "--passphrase -storepass -keypass -srcstorepass -deststorepass --registration-token -rfbauth -passwd",
        rb"-{1,2}(?:passphrase|(?:src|dest)?storepass|keypass|registration-token|passwd)[ \t=]{1,4}" + QUOTE + rb"?" + WORD,
        like("gpg --batch --passphrase <s> -d a.gpg"),
        drawn,
    ),
    after(
        "client-password",
        "password given to a client by a short flag",
        ("mongosh ", "mongo ", "mongodump ", "mongorestore ", "sqlcmd ", "bcp ", "unzip ", "zip ", "7z ", "7za ", "xfreerdp ", "mstsc "),
        rb"(?:mongo(?:sh|dump|restore)?[ \t](?:"
        + _WORDS
        + rb")?-p[ \t]+|(?:sqlcmd|bcp)[ \t](?:"
        + _WORDS
        + rb")?-P[ \t]*|"
        + _ALONE
        + rb"(?:un)?zip[ \t](?:"
        + _WORDS
        + rb")?(?:-P[ \t]*|--password[ \t=])|7za?[ \t](?:"
        + _WORDS
        + rb")?-p|(?:xfreerdp|mstsc)[ \t](?:"
        + _WORDS
        + rb")?/p:)"
        + QUOTE
        + rb"?"
        + WORD,
        like("sqlcmd -S db -U sa -P <s> -Q 'select 1'"),
        _given,
    ),
    after(
        "user-password",
        "password given behind the name of a user",
        ("smbclient ", "htpasswd -", "rabbitmqctl ", "sqlplus ", "http-basic.", "NickServ", "nickserv", "NICKSERV", "/msg ", "net use "),
        rb"(?:smbclient[ \t](?:"
        + _WORDS
        + rb")?-U[ \t]*[^\s%]{1,60}%|htpasswd -(?=[a-zA-Z]{0,12}b)[a-zA-Z]{1,16}+[ \t]+(?:[^\s]{1,200}[ \t]+){1,2}"
        + rb"|rabbitmqctl (?:add_user|change_password)[ \t]+[^\s]{1,60}[ \t]+|sqlplus[ \t]+(?:-[A-Za-z]+[ \t]+){0,3}[^\s/]{1,60}/"
        + rb"|http-basic\.[\w-]{1,60}[ \t]+[^\s]{1,60}[ \t]+|(?i:nickserv|/msg[ \t]+[^\s]{1,40})(?i:[ \t:]+identify)[ \t]+|"
        + _ALONE
        + rb"net use[ \t]+(?=[A-Za-z]:|[*\\\"'])(?:[^\s]{1,200}[ \t]+){1,4}?(?!/))"
        + QUOTE
        + rb"?(?P<s>[^\s\"'`\\,;&|<>()\[\]{}$@\x1b\xc2]{6,200}+)",
        like("smbclient -U bob%<s> //srv/share"),
        drawn,
    ),
    after(
        "command-secret",
        "secret given to a command that stores it",
        ("_authToken ", "gh secret set", "--from-literal", "ConvertTo-SecureString", "auth=(", "pypi-token."),
        rb"(?:_authToken[ \t]+|gh secret set[ \t](?:"
        + _WORDS
        + rb")?(?:--body|-b)[ =]|--from-literal[= ]"
        + QUOTE
        + rb"?(?P<name>[\w.-]{1,80})=|ConvertTo-SecureString[ \t]+(?:-String[ \t]+)?|auth=\("
        + QUOTE
        + rb"[^\s\"'\\]{1,60}"
        + QUOTE
        + rb",[ ]?|pypi-token\.[\w-]{1,60}[ \t]+)"
        + QUOTE
        + rb"?"
        + WORD,
        like("gh secret set DEPLOY --body <s>"),
        _stored,
    ),
    after(
        "piped-key",
        "key piped to cryptsetup",
        ("echo ", "printf "),
        rb"(?:echo|printf)[ \t]+(?:-[a-zA-Z]+[ \t]+)?" + QUOTE + rb"?" + WORD + QUOTE + rb"?[ \t]*\|[ \t]*(?:sudo[ \t]+)?cryptsetup",
        like("echo -n <s> | cryptsetup open /dev/sdb1 c -"),
        drawn,
    ),
    after(
        "typed-password",
        "password behind the question of a terminal, or sent to it",
        ("assword for ", "assword:"),
        rb"assword(?: for [^\s:]{1,60}:[ ]|:?[*]?"
        + QUOTE
        + rb"(?:"
        + NEXT_LINE
        + rb"|[ \t;{}])+(?:exp_)?send[ \t]+(?:--[ \t]+)?"
        + QUOTE
        + rb")"
        + _PART
        + rb"(?=\\{1,4}[rn]|\\{0,7}[\s\"']|\Z|\x1b|<)",
        like("[sudo] password for bob: <s>\n"),
        drawn,
    ),
    after(
        "defined-secret",
        "secret in define() of PHP, in SetEnv or in a header that a server sets",
        ("define(", "SetEnv ", "_header ", "fastcgi_param "),
        rb"(?:define\([ ]?"
        + QUOTE
        + _NO_SECRET
        + _NAMED
        + QUOTE
        + rb",[ ]{0,4}"
        + QUOTE
        + rb"|(?:SetEnv|fastcgi_param)[ \t]+"
        + _NO_SECRET
        + _NAMED
        + rb"[ \t]+"
        + QUOTE
        + rb"?|_header[ \t]+"
        + _NO_SECRET
        + _NAMED
        + rb"[ \t]+"
        + QUOTE
        + rb"?)"
        + WORD,
        like("define('DB_PASSWORD', '<s>');"),
        drawn,
    ),
    after(
        "tunnel-secret",
        "secret of a tunnel, a remote or an unlocked vault in its settings",
        (
            "PresharedKey",
            "BW_SESSION",
            "<auth-user-pass>",
        ),
        rb"(?:PresharedKey[ ]?=[ ]?|BW_SESSION=|<auth-user-pass>(?:"
        + NEXT_LINE
        + rb"[^\s\\]{1,80})?"
        + NEXT_LINE
        + rb")"
        + QUOTE
        + rb"?(?P<s>[^\s\"'`\\<>\x1b\xc2]{8,400}+)",
        like("[Peer]\nPresharedKey = <s>\n", ALNUM, 43),
        drawn,
    ),
    after(
        "pass-value",
        "value given to the name pass: at the beginning of a line, in quotes, or without a blank between",
        ("pass=", "PASS=", "pass = ", "pass:", *(f"pass{end}" for end in ("'", '"', "\\"))),
        rb"(?:"
        + _LINE_BEGINS
        + rb"pass = |(?:(?<![\w.$-])|(?<=\\[nrt]))(?:(?:pass|PASS)=(?![=\s])|pass"
        + QUOTE
        + rb"?[ \t]{0,4}[:=][ \t]{0,4}(?="
        + QUOTE
        + rb")))(?![^\s\"'`\\<>]{0,80}[(\[])"
        + QUOTE
        + rb"?(?P<s>[^\s\"'`\\<>&;,\x1b\xc2]{8,400}+)",
        like("[remote]\ntype = sftp\npass = <s>\n", ALNUM, 24),
        _not_words,
    ),
    after(
        "hook-address",
        "address of a hook that takes messages from whoever knows it",
        ("hooks.zapier.com", "hooks/", "hooks\\"),
        rb"hooks(?:\.zapier\.com"
        + SLASH
        + rb"hooks"
        + SLASH
        + rb"catch"
        + SLASH
        + rb"(?P<s>[0-9]{4,12}"
        + SLASH
        + rb"[a-z0-9]{5,12})(?![a-z0-9])|(?<=/hooks)"
        + SLASH
        + rb"(?P<quoted>[a-z0-9]{26})(?![A-Za-z0-9_-]))",
        like("https://chat.example.test/hooks/<s>", "abcdefghijkmnopqrstuwxyz13456789", 26),
        digits,
    ),
    after(
        "signed-request",
        "signature of a signed request to AWS",
        ("X-Amz-Signature=", "X-Amz-Security-Token="),
        rb"X-Amz-(?:Signature|Security-Token)=(?P<s>[A-Za-z0-9%+/=]{40,4000}+)",
        like("https://b.example.test/k?X-Amz-Signature=<s>", HEX, 64),
        long_drawn,
    ),
    after(
        "cookie-file",
        "cookie in a file of curl or a browser",
        ("TRUE\t", "FALSE\t", "TRUE\\", "FALSE\\"),
        rb"(?:TRUE|FALSE)"
        + SPACE
        + SLASH
        + rb"(?:[^\s\\]|\\{1,3}/){0,200}"
        + SPACE
        + rb"(?:TRUE|FALSE)"
        + SPACE
        + rb"[0-9]{1,12}"
        + SPACE
        + rb"[A-Za-z0-9_.$%-]{1,100}"
        + SPACE
        + rb"(?P<s>[A-Za-z0-9_.%+/=~:-]{16,4000}+)",
        like(".example.test\tTRUE\t/\tTRUE\t0\tsessionid\t<s>\n", ALNUM, 32),
        long_drawn,
    ),
)
"""Secrets known by a single program's words."""
