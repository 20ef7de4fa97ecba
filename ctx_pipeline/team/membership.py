"""Which team this machine belongs to, under which name, and what of which project it shares."""

from __future__ import annotations

import json
import re
import shlex
import socket
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from ctx_pipeline.errors import SettingsError, StoreError, UnknownChoice, UsageError
from ctx_pipeline.memory.scope import identity
from ctx_pipeline.settings import MEMBERSHIP
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.sealed_copies import recipients_of
from ctx_pipeline.storage.team_tables.bucket import Bucket, json_object, team_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.settings import Settings

RAW = "raw"
"""Policy under which the exact transcripts go, encrypted to the team's key; a worker of the hub makes the rows."""

POLICIES = ("counts", "lessons", "facts", "texts", RAW)
"""What can be shared of a project; ``facts`` brings ``counts``, ``texts`` brings ``facts``."""

_BRINGS = {"facts": ("counts",), "texts": ("counts", "facts")}
EVERY = "*"
"""Stands for every project without a policy of its own."""

FOLDER = "team"
FILE = MEMBERSHIP
TAKEN = f"{FOLDER}/left.json"
"""Names that this machine took and has not erased, those that it left too -> :class:`Taken`, by whose id it may take them again."""

RECORD = f"{FOLDER}/published.json"
"""What this machine sent under its names of now."""

_SENT = ("number", "pending", "sessions", "unsure", "lessons")
"""Members of the record that hold something where something may have been sent."""

PROTOCOL = 1
"""Rises when an older publisher or reader would misread what is in the bucket."""

TEAM_FILE = "team.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


SHARD = "shard"
"""Name under which workers publish rows of a member's exact transcripts; no machine can have it."""

IDENTITY = "CTX_TEAM_IDENTITY"
"""Names the file with the team's private key, for workers that make rows of exact transcripts."""

HEADS = "heads"
"""Folder with one small object a machine, so that one listing shows a hub who published."""


CARD = "machine.json"
"""Object in the folder of each machine by which its name was taken."""


def card_path(member: str, machine: str) -> str:
    """Return the object that holds the name of a machine."""
    return f"members/{member}/{machine}/{CARD}"


def head_path(member: str, machine: str) -> str:
    """Return the object by which a machine says what it sent last."""
    return f"{HEADS}/{member}/{machine}.json"


class Taken(NamedTuple):
    """Names that this machine took."""

    machine_id: str
    published: bool
    """whether something may have been published under them"""


class NoAgreement(StoreError):
    """What the team agreed on is not there or cannot be read."""


class Agreement(msgspec.Struct, frozen=True):
    """What ``team.json`` says that the team agrees on."""

    protocol: int = PROTOCOL
    votes: Annotated[int, msgspec.Meta(ge=1)] = 2
    """that a lesson needs"""
    aliases: bool = False
    """whether the page shows made-up names of members"""


@dataclass(frozen=True)
class Membership:
    """This machine as its team knows it."""

    url: str
    member: str
    machine: str
    machine_id: str
    """drawn at random when the machine joined; two machines of one name are told apart by it"""
    share: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """project name, repository or ``*`` -> policies; of a project without one nothing leaves"""
    pull: bool = True
    """whether lessons of the team reach this machine"""
    key: tuple[str, ...] = ()
    """public keys of age to which exact transcripts are encrypted"""
    auto: bool = True
    """whether this machine publishes by itself what its policies share"""

    @property
    def prefix(self) -> str:
        """The folder of the bucket that this member alone writes to, beside its heads."""
        return f"members/{self.member}"

    @property
    def writer(self) -> str:
        """Name of this machine in the logs of tables."""
        return f"{self.machine}:{self.machine_id}"

    def policy_of(self, project: str | None, repository: str | None) -> tuple[str, ...]:
        """Return what is shared of a project; empty: nothing."""
        names = [repository, identity(repository) if repository else None, project, EVERY]
        return next((self.share[name] for name in names if name and name in self.share), ())

    def bucket(self) -> Bucket:
        """Return the team's bucket."""
        return Bucket(self.url)


def membership(settings: Settings) -> Membership | None:
    """Return this machine's membership; None where it belongs to no team. Raises SettingsError for a file that cannot be read."""
    path = settings.home / FILE
    try:
        found = json.loads(path.read_bytes())
        return Membership(**{**found, "share": _narrowest(found["share"]), "key": tuple(found.get("key", ()))})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"{path} cannot be read", hint="ctx team join URL writes it anew", path=str(path)) from error


def demand(settings: Settings) -> Membership:
    """Return this machine's membership; raises UsageError where it belongs to no team."""
    found = membership(settings)
    if found is None:
        raise UsageError("this machine belongs to no team", hint="ctx team join URL")
    return found


def save(settings: Settings, member: Membership) -> None:
    """Write the membership, for this user alone."""
    Files(settings.home).write(FILE, json.dumps(asdict(member), indent=1).encode())


def policies(words: str) -> tuple[str, ...]:
    """Return policies as written on a command line (``counts,lessons``; ``none``), with what they bring; raises UnknownChoice."""
    asked = [word.strip() for word in words.split(",") if word.strip()]
    if asked == ["none"]:
        return ()
    for word in asked:
        if word not in POLICIES:
            raise UnknownChoice("policy", word, (*POLICIES, "none"))
    wanted = {*asked, *(brought for word in asked for brought in _BRINGS.get(word, ()))}
    return tuple(p for p in POLICIES if p in wanted)


def key_of(project: str) -> str:
    """Return under which name the policies of a project stand: a repository, in whatever notation, under one."""
    return identity(project) if "/" in project else project


def _narrowest(share: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return policies under one name each; of what an earlier version kept in several notations, what all of them allow."""
    found: dict[str, tuple[str, ...]] = {}
    for project, allowed in share.items():
        key = key_of(project)
        found[key] = tuple(policy for policy in found.get(key, allowed) if policy in allowed)
    return found


def shared(member: Membership, project: str, words: str) -> Membership:
    """Return the membership with another policy for a project; ``none`` for ``*`` takes the general policy away.

    Raises UnknownChoice, and UsageError for ``raw`` without the team's key.
    """
    key = key_of(project)
    chosen = {**member.share, key: policies(words)}
    if RAW in chosen[key] and not member.key:
        raise UsageError("raw needs the key to which transcripts are encrypted", hint=f"ctx team join {member.url} --key age1...")
    return replace(member, share={k: v for k, v in chosen.items() if v or k != EVERY})


def join(
    settings: Settings,
    url: str,
    *,
    name: str | None = None,
    machine: str | None = None,
    share: Sequence[str] = (),
    pull: bool | None = None,
    key: Sequence[str] = (),
    auto: bool | None = None,
) -> Membership:
    """Enter this machine in a team's bucket and return its membership; run again it changes names and keeps policies.

    The name of a machine is taken by a conditional put: a second machine that asks for it
    gets a StoreError. ``share`` are policies of all projects; ``pull`` says whether lessons of the team come to this machine;
    ``key`` are public keys of age, or files of them, for the policy ``raw``; ``auto`` says whether it publishes by itself.
    """
    place = team_url(url)
    taken = _taken(settings)
    try:
        before = membership(settings)
    except SettingsError:  # it is written anew; the names that were taken stand elsewhere
        before = None
    kept = before if before is not None and before.url == place else None
    member = _name(name if name is not None else kept.member if kept else _person(settings), "--as")
    host = _name(machine if machine is not None else kept.machine if kept else _host(), "--machine")
    same = kept is not None and (kept.member, kept.machine) == (member, host)
    names = _names(place, member, host)
    own = kept.machine_id if kept is not None and same else taken[names].machine_id if names in taken else uuid.uuid4().hex[:16]
    if host == SHARD:
        raise UsageError(f"{SHARD} is the name of what workers publish", hint="give this machine another one: --machine NAME")
    pulls = pull if pull is not None else kept.pull if kept else True
    keys = tuple(recipients_of(key)) if key else kept.key if kept else ()
    by_itself = auto if auto is not None else kept.auto if kept else True
    made = Membership(place, member, host, own, dict(kept.share) if kept else {}, pulls, keys, by_itself)
    if share:
        made = shared(made, EVERY, ",".join(share))
    bucket = Bucket(place)
    if not (bucket.is_there() and agreement(bucket)):
        bucket.create(TEAM_FILE, msgspec.json.encode(Agreement()))
        agreement(bucket)
    card = card_path(member, host)
    if not bucket.create(card, json.dumps({"machine_id": own, "protocol": PROTOCOL}).encode()):
        held = json_object(bucket.read(card))
        if held.get("machine_id") != own:
            raise StoreError(
                f"another machine publishes as {member}/{host}",
                hint=f"choose another name: ctx team join {place} --as {member} --machine NAME",
                member=member,
                machine=host,
            )
    if before is not None:
        taken.setdefault(_names(before.url, before.member, before.machine), Taken(before.machine_id, published=False))
    now = Taken(own, published=names in taken and taken.pop(names).published)
    _keep_taken(settings, {**{other: _looked_up(settings, other, one) for other, one in taken.items()}, names: now})
    save(settings, made)
    return made


def depart(settings: Settings, member: Membership, *, erased: bool) -> None:
    """Forget the membership; names under which something stays in the bucket can be taken again by this machine alone."""
    names = _names(member.url, member.member, member.machine)
    taken = _taken(settings)
    known = taken.pop(names, Taken(member.machine_id, published=False))
    _keep_taken(settings, taken if erased else {**taken, names: _looked_up(settings, names, known)})
    Files(settings.home).remove(FILE)


def elsewhere(settings: Settings) -> list[str]:
    """Return ``ctx team join`` commands that take again the names under which this machine published before, but for those of now."""
    try:
        now = membership(settings)
    except SettingsError:
        now = None
    own = _names(now.url, now.member, now.machine) if now else ""
    found = []
    for names, one in sorted(_taken(settings).items()):
        if one.published and names != own:
            found.append(join_command(*_parts(names)))
    return found


def join_command(url: str, member: str, machine: str) -> str:
    """Return the command that takes names again."""
    return f"ctx team join {shlex.quote(url)} --as {member} --machine {machine}"


def _taken(settings: Settings) -> dict[str, Taken]:
    held = _noted(settings, TAKEN).items()
    # an earlier version kept the id alone
    return {n: Taken(one["machine_id"], one["published"]) if isinstance(one, dict) else Taken(one, published=True) for n, one in held}


def _keep_taken(settings: Settings, taken: Mapping[str, Taken]) -> None:
    Files(settings.home).write(TAKEN, json.dumps({names: one._asdict() for names, one in taken.items()}, indent=1).encode())


def _looked_up(settings: Settings, names: str, taken: Taken) -> Taken:
    """Return what is known of names now: by the record of what was sent, else by the head that the bucket holds."""
    if taken.published:
        return taken
    record = _noted(settings, RECORD)
    if record.get("machine_id") == taken.machine_id:
        return taken._replace(published=any(record.get(name) for name in _SENT) or bool(record.get("raw", {}).get("sessions")))
    url, member, machine = _parts(names)
    try:
        bucket = Bucket(url)
        return taken._replace(published=not bucket.is_there() or bucket.read(head_path(member, machine)) is not None)
    except StoreError:  # who cannot look is told rather once too often
        return taken._replace(published=True)


def _noted(settings: Settings, name: str) -> Mapping[str, Any]:
    path = settings.home / name
    return json_object(path.read_bytes() if path.exists() else None)


def _names(url: str, member: str, machine: str) -> str:
    return f"{url} {member}/{machine}"


def _parts(names: str) -> tuple[str, str, str]:
    url, _, named = names.rpartition(" ")
    member, _, machine = named.partition("/")
    return url, member, machine


def agreement(bucket: Bucket) -> Agreement | None:
    """Return what ``team.json`` of a bucket says; None where there is none.

    Raises StoreError for a folder that is not there, and where ``team.json`` asks for a newer version or cannot be read.
    """
    if not bucket.is_there():
        raise StoreError(f"there is no folder {bucket.url}", hint="is it mounted? ctx team join URL makes a new one")
    held = bucket.read(TEAM_FILE)
    if held is None:
        return None
    asked = json_object(held).get("protocol")
    if isinstance(asked, int) and asked > PROTOCOL:
        raise StoreError(f"{bucket.url} was set up by a newer version of ctx", hint="pip install --upgrade 'ctx-pipeline[team]'")
    try:
        return msgspec.json.decode(held, type=Agreement)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoAgreement(
            f"{bucket.url}/{TEAM_FILE} cannot be read: {str(error)[:120]}",
            hint=f"write there what the team agrees on: {msgspec.json.encode(Agreement()).decode()}",
        ) from error


def demand_agreement(bucket: Bucket) -> Agreement:
    """Return what ``team.json`` says; raises StoreError as :func:`agreement` does, and where there is none."""
    found = agreement(bucket)
    if found is None:
        raise NoAgreement(
            f"no team is at {bucket.url}: {TEAM_FILE} is not there", hint=f"is it the right place? ctx team join {bucket.url}"
        )
    return found


def _person(settings: Settings) -> str:
    env = settings.environ
    return re.sub(r"[^a-z0-9-]+", "-", (env.get("USER") or env.get("LOGNAME") or "member").lower()).strip("-") or "member"


def is_name(text: str) -> bool:
    """Tell whether a text is a name that a member or a machine can have."""
    return _NAME.fullmatch(text) is not None


def _host() -> str:
    return socket.gethostname().partition(".")[0] or "machine"


def _name(text: str, option: str) -> str:
    lowered = text.strip().lower().replace("_", "-").replace(" ", "-")
    if not is_name(lowered):
        raise UsageError(f"{text!r} is no name", hint=f"give {option} small letters, digits and dashes, at most 63")
    return lowered
