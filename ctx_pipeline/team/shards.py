"""A member's exact transcripts become rows: a worker with the team's key restores the member's store, adds what waits, and gives it back.

A shard is a store as on any machine. Between two workers it lies in the bucket, as an encrypted backup whose files are objects
named by their digest. Who may work on it, and that a worker which was overtaken commits nothing: :mod:`ctx_pipeline.team.shard_claim`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import CtxError, StoreDamaged, StoreError, StoreFull, UnknownChoice, UsageError
from ctx_pipeline.maintenance.backup import INDEX, backup, restore
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.raw.encryption import key_in
from ctx_pipeline.storage.sealed_copies import SUFFIX, identities_of
from ctx_pipeline.storage.snapshots import sha256_of
from ctx_pipeline.team import bundles
from ctx_pipeline.team.membership import CARD, EVERY, IDENTITY, PROTOCOL, RAW, SHARD, Membership, card_path, is_name, policies, save
from ctx_pipeline.team.publish import publish
from ctx_pipeline.team.raw_out import REVOKED, bundle_path, folder_of
from ctx_pipeline.team.shard_claim import SHARDS, claimed, committed, holder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.team_tables.bucket import Bucket
    from ctx_pipeline.team.heads import Head
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.shard_claim import Claim

_OBJECTS = "objects"
_STORE, _HOMES, _COPY = "store", "homes", "backup"


@dataclass
class ShardDone:
    """What one turn with a shard did."""

    member: str
    bundles: int = 0
    files: int = 0
    sessions: int = 0
    """whose rows were sent"""
    removed: int = 0
    """sessions whose rows were removed"""
    restored: int = 0
    """objects that were read from the bucket to have the store here"""
    problems: list[str] = field(default_factory=list)
    """bundles that were refused, and why; or why another worker goes on"""
    seconds: float = 0.0


@dataclass
class Waiting:
    """Why transcripts of a member wait, and since when."""

    since: str
    why: str
    due: bool
    """whether a worker would do something about it"""


def waiting(hub: Hub) -> dict[str, Waiting]:
    """Return the members with transcripts that no worker has taken yet or could use, or with some to be forgotten."""
    heads = [head for head in hub.heads() if head.machine != SHARD]
    names = {head.member for head in heads if head.raw[0] or head.raw[1]} | set(hub.bucket.folders(SHARDS))
    found = {name: _waits(hub, name, [head for head in heads if head.member == name]) for name in sorted(names) if is_name(name)}
    return {name: waits for name, waits in found.items() if waits is not None}


def work(hub: Hub, identity: Path | None = None, *, members: Iterable[str] = (), share: str = "facts") -> list[ShardDone]:
    """Take the transcripts that wait of these members, or of all, and publish their rows; return what was done, a member each.

    ``identity`` is the file with the team's private key, ``$CTX_TEAM_IDENTITY`` by default; ``share`` are the policies under
    which the rows go. A shard that another worker holds is left to it and named, and so is what cannot be used.
    Raises UsageError without a key.
    """
    place = identity or hub.settings.environ.get(IDENTITY)
    if not place:
        raise UsageError("transcripts are encrypted, and no key is named", hint=f"--identity FILE, or {IDENTITY}=FILE")
    if RAW in (shares := policies(share)):
        raise UsageError("workers make rows of transcripts", hint="--share counts, facts or texts")
    key = Path(place)
    identities_of(key)
    _drop_erased(hub)
    known = sorted(filter(is_name, {head.member for head in hub.heads()} | set(hub.bucket.folders(SHARDS))))
    for member in members:
        if member not in known:
            raise UnknownChoice("member", member, known)
    done = []
    for member in sorted(set(members) or (name for name, waits in waiting(hub).items() if waits.due)):
        began = time.perf_counter()
        one = ShardDone(member)
        try:
            with claimed(hub.bucket, member) as claim:
                _Shard(hub, member, key, shares).work(claim, one)
        except CtxError as error:
            one.problems.append(error.message)
        one.seconds = time.perf_counter() - began
        done.append(one)
    return done


def _drop_erased(hub: Hub) -> None:
    """Remove what this worker still has of shards that another one erased."""
    for folder in (hub.folder / SHARDS).glob("*"):
        if "index" not in committed(hub.bucket, folder.name):
            shutil.rmtree(folder, ignore_errors=True)


def _waits(hub: Hub, member: str, heads: Sequence[Head]) -> Waiting | None:
    bucket, state = hub.bucket, committed(hub.bucket, member)
    taken, back, refused = state.get("taken", {}), state.get("revoked", {}), state.get("refused", {})
    behind = [head for head in heads if head.raw[0] > taken.get(head.machine, 0) or (head.raw[1] and back.get(head.machine) != head.raw[1])]
    gone = any(bucket.read(card_path(member, machine)) is None for machine in taken.keys() - {head.machine for head in heads})
    if not (behind or gone or any(refused.values())):
        return None
    at = []
    for machine in {head.machine for head in behind} | refused.keys():
        wanted = {bundle_path(member, machine, number) for number in refused.get(machine, ())}
        for entry in bucket.entries(folder_of(member, machine)):
            number = _numbers([entry], member, machine)
            if entry.path in wanted or (number and number[0] > taken.get(machine, 0)):
                at.append(entry.modified.isoformat(timespec="seconds"))
    said = min(at, default=min((head.received_at for head in behind), default="its machine left"))
    if worker := holder(bucket, member):
        why = f"{worker} is at work on it"
    elif problems := state.get("problems"):
        why = f"the last worker could not use all of it: {problems[0]}"
    elif not state:
        why = "no worker with the team's key has taken it yet: ctx hub shards"
    else:
        why = "no worker with the team's key has come since: ctx hub shards"
    return Waiting(said, why, bool(behind or gone))


class _Shard:
    """One member's store on this worker."""

    def __init__(self, hub: Hub, member: str, key: Path, shares: Collection[str]) -> None:
        self._bucket: Bucket = hub.bucket
        self._member, self._key, self._shares = member, key, tuple(shares)
        self._folder = hub.folder / SHARDS / member
        self._files = Files(self._folder)
        self._prefix = f"{SHARDS}/{member}"

    def work(self, claim: Claim, done: ShardDone) -> None:
        """Restore, add, publish, give back; nothing of it is there for others before the commit."""
        state = dict(claim.state())
        entries = self._bucket.entries(f"members/{self._member}")
        cards = [path[2] for e in entries if len(path := e.path.split("/")) == 4 and path[3] == CARD]
        machines = sorted(name for name in cards if name != SHARD and is_name(name))
        if not machines:
            self._erase(claim)
            return
        self._restore(state, done)
        taken = {machine: number for machine, number in state.get("taken", {}).items() if machine in machines}
        gone = state.get("taken", {}).keys() - taken.keys()
        before = state.get("refused", {})
        refused: dict[str, list[int]] = {}
        read: list[str] = []
        for machine in machines:
            for number in _numbers(entries, self._member, machine):
                if (number > taken.get(machine, 0) or number in before.get(machine, ())) and not self._unpack(machine, number, done):
                    refused.setdefault(machine, []).append(number)
                else:
                    read.append(bundle_path(self._member, machine, number))
                taken[machine] = max(number, taken.get(machine, 0))
        if refused and "index" not in state and not done.bundles:
            return  # perhaps the key is another one: a store encrypted to it would be lost
        back = {m: sorted(self._revoked(m)) for m in machines}
        self._publish(claim, {key for keys in back.values() for key in keys}, gone, done)
        said = {m: digest(keys) for m, keys in back.items() if keys}
        self._give_back(claim, {"taken": taken, "revoked": said, "refused": refused}, done)
        self._bucket.remove(read)

    def settings(self) -> Settings:
        """Return the settings of the shard's store: its homes are those of all machines of the member."""
        environ = {"HOME": str(self._folder / "nobody"), "TZ": "UTC", "CTX_HOME": str(self._folder / _STORE)}
        homes = self._folder / _HOMES
        for host in discovery.hosts().values():
            roots = [str(path) for path in sorted(homes.glob(f"*/{host.key}"))]
            environ[host.files.roots_env] = ",".join(roots) or str(self._folder / "nobody")
        return settings_module.load(environ)

    def _restore(self, state: Mapping[str, Any], done: ShardDone) -> None:
        """Have the store of the last commit here; what this worker has of its encrypted files it does not read again."""
        self._clear()
        if "index" not in state:
            shutil.rmtree(self._folder / _COPY, ignore_errors=True)
            return
        copy = self._folder / _COPY
        index = self._object(str(state["index"]))
        for rel, (_, _, told) in json.loads(index)["files"].items():
            if not bundles.is_inside(rel):
                raise StoreDamaged(f"the shard of {self._member} names files outside of its store", hint="ctx team leave --erase there")
            path = copy / f"{rel}{SUFFIX}"
            if not path.exists() or sha256_of(path) != told:
                Files(copy).write(f"{rel}{SUFFIX}", self._object(told))
                done.restored += 1
        Files(copy).write(INDEX, index)
        restore(copy, self.settings(), identity=self._key)

    def _object(self, told: str) -> bytes:
        body = self._bucket.read(f"{self._prefix}/{_OBJECTS}/{told}")
        if body is None:
            raise StoreDamaged(
                f"an object of the shard of {self._member} is missing", hint="its machines send all again: ctx publish --all"
            )
        return body

    def _unpack(self, machine: str, number: int, done: ShardDone) -> bool:
        """Lay the files of a bundle where the pipeline looks for them; one that cannot be used is named, stays, and gives False."""
        path = bundle_path(self._member, machine, number)
        body = self._bucket.read(path)
        if body is None:  # its machine took it back, or another worker was faster: then this one commits nothing
            return True
        try:
            found = list(bundles.opened(body, identities_of(self._key), path))
        except StoreDamaged as error:
            done.problems.append(error.message)
            return False
        try:
            for file in found:
                place = f"{_HOMES}/{machine}/{file.host}/{file.rel}"
                local = self._files.local(place)
                if local.is_dir():  # in the store itself a folder would be moved out of the way
                    raise IsADirectoryError(f"{file.rel} is a folder of the same machine")
                self._files.write(place, file.data)
                os.utime(local, ns=(file.modified_ns, file.modified_ns))
        except StoreFull:
            raise
        except (StoreError, OSError, ValueError) as error:
            done.problems.append(f"{path}: a file of it cannot be written: {error}")
            return False
        done.bundles += 1
        done.files += len(found)
        return True

    def _revoked(self, machine: str) -> list[str]:
        try:
            found = json.loads(self._bucket.read(f"{folder_of(self._member, machine)}/{REVOKED}") or b"[]")
        except ValueError:
            return []
        return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []

    def _publish(self, claim: Claim, back: Collection[str], gone: Collection[str], done: ShardDone) -> None:
        """Run the pipeline over the store and what was added, forget what was taken back, and send the rows."""
        settings = self.settings()
        with open_store(settings) as store:
            # another worker's homes lay elsewhere: what lies here is the same file, grown perhaps
            store.ledger.move_roots({key: str(self._folder / _HOMES / Path(key[1]).parent.name / key[0]) for key in store.ledger.stamps()})
            sync(store, settings)
            for host, session in sorted(_of_machines(store, gone) | {_pair(key) for key in back}):
                if store.ledger.session_streams(host, session):
                    forget(store, settings, Selection(host=host, session_id=session))
            make_facts(store, settings)
            self._join()
            sent = publish(store, settings, token=claim.token)
        done.sessions, done.removed = sent.sessions, sent.removed

    def _join(self) -> None:
        """Give the store the name under which the shard publishes, the same on every worker."""
        own = digest("shard", self._bucket.url, self._member)[:16]
        save(self.settings(), Membership(self._bucket.url, self._member, SHARD, own, {EVERY: self._shares}, pull=False))
        self._bucket.create(card_path(self._member, SHARD), json.dumps({"machine_id": own, "protocol": PROTOCOL}).encode())

    def _give_back(self, claim: Claim, state: Mapping[str, Any], done: ShardDone) -> None:
        """Send what of the store changed, commit it, and remove what no commit needs any more."""
        copy = self._folder / _COPY
        with open_store(self.settings()) as store:
            backup(store, copy, encrypt=[key_in(self._key).recipient])
        index = (copy / INDEX).read_bytes()
        told = sha256_of(copy / INDEX)
        names = {told: INDEX} | {entry[2]: f"{rel}{SUFFIX}" for rel, entry in json.loads(index)["files"].items()}
        there = {e.path.rpartition("/")[2] for e in self._bucket.entries(f"{self._prefix}/{_OBJECTS}")}
        for name in sorted(names.keys() - there):
            self._bucket.write(f"{self._prefix}/{_OBJECTS}/{name}", (copy / names[name]).read_bytes())
        claim.commit({**state, "index": told, "problems": done.problems})
        self._clear()
        self._bucket.remove(f"{self._prefix}/{_OBJECTS}/{name}" for name in sorted(there - names.keys()))
        claim.tidy()

    def _clear(self) -> None:
        """Leave nothing on this worker's disk that is not encrypted."""
        for name in (_HOMES, _STORE):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _erase(self, claim: Claim) -> None:
        """Remove the shard of a member who left and erased all: its store here and in the bucket; only the claims stay."""
        shutil.rmtree(self._folder, ignore_errors=True)
        claim.commit({"taken": {}, "revoked": {}})
        self._bucket.remove(e.path for e in self._bucket.entries(f"{self._prefix}/{_OBJECTS}"))


def _numbers(entries: Iterable[Any], member: str, machine: str) -> list[int]:
    """Return the numbers of the bundles that wait of a machine, in order."""
    prefix = f"{folder_of(member, machine)}/"
    names = [e.path.removeprefix(prefix) for e in entries if e.path.startswith(prefix) and e.path.endswith(SUFFIX)]
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.removesuffix(SUFFIX).isdigit())


def _of_machines(store: Store, machines: Collection[str]) -> set[tuple[str, str]]:
    """Return the sessions whose files all came from some machines."""
    folders: dict[tuple[str, str], set[str]] = {}
    for source in store.ledger.sources().values():
        if source.session_id:
            folders.setdefault((source.host, source.session_id), set()).add(Path(source.root).parent.name)
    return {session for session, names in folders.items() if names <= set(machines)}


def _pair(key: str) -> tuple[str, str]:
    host, _, session = key.partition("/")
    return host, session
