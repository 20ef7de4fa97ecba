"""Trees as JSON and back, without loss."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import ConflictingUpdate, DuplicateContainer, InvalidPlacement, ParentMissing
from ctx_pipeline.context.tree.component import HEADERS, check_life
from ctx_pipeline.context.tree.tree import Kids, Record, Recurring, Row, Stage, Tree
from ctx_pipeline.errors import SchemaTooNew

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC_VERSION = "PACT/1.0.0"
SCHEMA = 1
MAX_OFFSET = 100_000
_FIXED = frozenset(
    {*HEADERS, "cad", "key", "tag", "role", "kind", "content", "children", "removable", "lifecycle", "content_hash", "spec_version"}
)


_MADE = ("implied-region",)
"""Marks a region that an imported tree did not have; it is written once something stands in it."""


def dumped(tree: Tree, episode: int) -> dict[str, Any]:
    """Return a tree as a JSON object; the same tree always gives the same."""
    out: dict[str, Any] = {"spec_version": SPEC_VERSION, "schema": SCHEMA, "cycle": tree.cycle, "episode": episode}
    if tree.recurring:
        out["recurring"] = [
            {"place": list(again.place), "born": again.born, "component": _node(again.record, 0)}
            for _, again in sorted(tree.recurring.items())
        ]
    view = tree.view
    nodes: list[dict[str, Any]] = []
    for place, record in enumerate(view.records):
        node = _node(record, view.offsets[place])
        nodes.append(node)
        parent = view.parents[place]
        if parent >= 0:
            holder = view.records[parent]
            if holder.given == _MADE and record.given != ("implied",) and "id" not in nodes[parent]:
                nodes[parent].update({"id": holder.id, "nodeType": holder.node_type})
                nodes[0].setdefault("children", []).append(nodes[parent])
            home = nodes[view.parents[parent]] if holder.given == ("implied",) else nodes[parent]
            if record.given not in {("implied",), _MADE}:
                home.setdefault("children", []).append(node)
    out["root"] = nodes[0]
    return out


def _node(record: Record, offset: int) -> dict[str, Any]:
    life: dict[str, Any] = {}
    if record.ttl is not None and record.born != record.cycle:
        life["born"] = record.born
    if record.stages:
        life |= {"stages": [{"place": list(s.place), "ttl": s.ttl} for s in record.stages], "stage": record.stage, "rounds": record.rounds}
    every: dict[str, Any] = {
        "id": record.id,
        "nodeType": record.node_type,
        "parent_id": record.parent_id,
        "offset": offset,
        "ttl": record.ttl,
        "priority": record.priority,
        "cycle": record.cycle,
        "created_at_ns": record.created_at_ns,
        "created_at_iso": record.created_at_iso,
        "creation_index": record.creation_index,
    }
    node = every if record.given is None else {name: every[name] for name in record.given if name in every}
    optional = {"cad": record.cad, "key": record.key, "tag": list(record.tags) or None, "role": record.role, "kind": record.kind}
    node |= {name: value for name, value in optional.items() if value is not None}
    if record.body is not None:
        node["content"] = record.content
    if record.removable:
        node["removable"] = True
    if life:
        node["lifecycle"] = life
    node |= copy.deepcopy(record.extra)
    return node


def check_version(what: str, spec_version: object, schema: object) -> None:
    """Raise SchemaTooNew for what a newer version wrote, InvalidPlacement for what is no version at all."""
    if not isinstance(spec_version, str) or not spec_version.startswith("PACT/"):
        raise InvalidPlacement(f"the spec_version of {what} is {spec_version!r}", hint=f"this package reads {SPEC_VERSION}")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise InvalidPlacement(f"the schema of {what} is {schema!r}", hint=f"it is a number; this package reads {SCHEMA}")
    major = spec_version.removeprefix("PACT/").partition(".")[0]
    if (major.isdecimal() and int(major) > 1) or schema > SCHEMA:
        raise SchemaTooNew(f"{what} was written as {spec_version}, schema {schema}", hint="upgrade ctx-pipeline")


def loaded(data: Mapping[str, Any]) -> tuple[Tree, int]:
    """Return the tree and the episode of a JSON object that :func:`dumped` or another PACT program wrote.

    A foreign node may lack headers: they are filled in the order of the file and left out
    again when it is written. Blocks at offset 0 directly below a turn stand in a core
    container that is understood, not written. Raises SchemaTooNew, DuplicateContainer,
    ConflictingUpdate (one id twice) and InvalidPlacement.
    """
    if "root" not in data and isinstance(data.get("context"), dict):
        data = data["context"]
    check_version("the snapshot", data.get("spec_version", SPEC_VERSION), data.get("schema", SCHEMA))
    root = data.get("root")
    if not isinstance(root, dict):
        raise InvalidPlacement("there is no root in the snapshot", hint="pass snapshots[n]['context'] or model_dump()")
    loader = _Loader()
    loader.node(root, None)
    tree = loader.finished(int(data.get("cycle", 0)))
    again = Map(
        {
            f"{number:04d}": Recurring(_record(item["component"], None, ("", 0)), tuple(item["place"]), int(item["born"]))
            for number, item in enumerate(data.get("recurring", ()))
        }
    )
    return replace(tree, recurring=again), int(data.get("episode", data.get("cycle", 0)))


class _Loader:
    """Puts the nodes of one file together."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.order: list[tuple[str, int]] = []
        self.regions: dict[str, str] = {}

    def node(self, data: Mapping[str, Any], parent: Record | None) -> None:
        waiting: list[tuple[Mapping[str, Any], Record | None]] = [(data, parent)]
        while waiting:
            item, above = waiting.pop()
            if not isinstance(item, dict):
                raise InvalidPlacement(f"a node is an object, not {type(item).__name__}")
            record = self._add(item, above)
            children = item.get("children", ())
            if not isinstance(children, (list, tuple)):
                raise InvalidPlacement(f"children of {record.id!r} are no list", id=record.id)
            holders = self._holders(record, children)
            waiting.extend((child, holder) for child, holder in zip(reversed(children), reversed(holders), strict=True))

    def _holders(self, record: Record, children: Any) -> list[Record]:
        """Return what each child stands in: its parent, or the core container that a turn is understood to have."""
        if record.structure not in {"seg", "ah"}:
            return [record] * len(children)
        cores = [child for child in children if not child.get("offset") and _structure(child) == "cont"]
        if len(cores) > 1 and all("offset" in core for core in cores):
            raise DuplicateContainer(
                f"the turn {record.id!r} has {len(cores)} core containers", hint="one at offset 0 is allowed", id=record.id
            )
        if cores:
            return [record] * len(children)
        implied = Record(f"{record.id}/core", "cont", record.id, given=("implied",))
        self._keep(implied, 0)
        return [implied if not child.get("offset") else record for child in children]

    def _add(self, item: Mapping[str, Any], above: Record | None) -> Record:
        number = len(self.order)
        record = _record(item, above, (f"node-{number}", number), root=above is None)
        named = item.get("parent_id")
        if named is not None and above is not None and named not in {above.id, above.parent_id}:
            raise ParentMissing(f"{record.id!r} names the parent {named!r} and stands below {above.id!r}", id=record.id)
        offset = item.get("offset", 0)
        if isinstance(offset, bool) or not isinstance(offset, int) or abs(offset) > MAX_OFFSET:
            raise InvalidPlacement(f"the offset of {record.id!r} is {offset!r}", hint=f"a whole number within {MAX_OFFSET}")
        self._keep(record, offset)
        if record.structure in {"sys", "seq", "ah"}:
            if record.structure in self.regions:
                raise DuplicateContainer(f"there are two ^{record.structure}", hint="a context has one of each region", id=record.id)
            self.regions[record.structure] = record.id
        return record

    def _keep(self, record: Record, offset: int) -> None:
        if record.id in self.records:
            raise ConflictingUpdate(f"the id {record.id!r} stands twice", id=record.id)
        self.records[record.id] = record
        self.order.append((record.id, offset))

    def finished(self, cycle: int) -> Tree:
        root = self.order[0][0]
        for name in ("sys", "seq", "ah"):
            if name not in self.regions:
                missing = Record(f"{root}/{name}", f"^{name}", root, given=_MADE, created_at_ns=len(self.order))
                self._keep(missing, 0)
                self.regions[name] = missing.id
                if name == "ah":
                    self._keep(Record(f"{missing.id}/core", "cont", missing.id, given=("implied",)), 0)
        last = max((r.created_at_ns for r in self.records.values()), default=0)
        index = 1 + max((r.creation_index for r in self.records.values() if r.cycle == cycle), default=-1)
        tree = Tree(
            root, self.regions["sys"], self.regions["seq"], self.regions["ah"], Map(), Map(), cycle=cycle, last_ns=last, index=index
        )
        return _built(tree, self.records, self.order)


def _built(tree: Tree, records: Mapping[str, Record], order: list[tuple[str, int]]) -> Tree:
    """Return the tree with all nodes at once: the same as placing them one by one, in linear time."""
    below: dict[str, dict[int, list[Record]]] = {}
    keys: dict[str, list[Record]] = {}
    for node_id, offset in order:
        record = records[node_id]
        if record.parent_id is not None:
            below.setdefault(record.parent_id, {}).setdefault(offset, []).append(record)
        if record.key is not None:
            keys.setdefault(record.key, []).append(record)
    kids = {}
    rank = {tree.sys: 0, tree.seq: 1, tree.head: 2}
    for parent, offsets in below.items():
        for group in offsets.values():
            group.sort(key=lambda r: (rank.get(r.id, 3), *r.order))
        first, last = min(offsets), max(offsets)
        kids[parent] = Kids(
            Row.of(_slot(offsets.get(-n)) for n in range(1, -first + 1)),
            Row.of(r.id for r in offsets.get(0, ())),
            Row.of(_slot(offsets.get(n)) for n in range(1, last + 1)),
        )
    return replace(
        tree,
        nodes=Map(records),
        kids=Map(kids),
        keys=Map({key: tuple(r.id for r in sorted(found, key=lambda r: r.order)) for key, found in keys.items()}),
        mortal=Map({r.id: True for r in records.values() if r.ttl is not None}),
        cache=[],
    )


def _slot(group: list[Record] | None) -> Any:
    if not group:
        return None
    return group[0].id if len(group) == 1 else tuple(r.id for r in group)


def _structure(item: Mapping[str, Any]) -> str:
    return Record("", str(item.get("nodeType", "block")), None).structure


def _record(item: Mapping[str, Any], above: Record | None, filling: tuple[str, int], *, root: bool = False) -> Record:
    name, number = filling
    life = item.get("lifecycle", {})
    tags = item.get("tag", ())
    check_life(item.get("ttl"), item.get("cad"))
    cycle = int(item.get("cycle", 0))
    record = Record(
        id=str(item.get("id") or name),
        node_type=str(item.get("nodeType") or ("^root" if root else "block")),
        parent_id=above.id if above is not None else None,
        ttl=item.get("ttl"),
        priority=item.get("priority", 0),
        cycle=cycle,
        created_at_ns=int(item.get("created_at_ns", number)),
        creation_index=int(item.get("creation_index", number)),
        cad=item.get("cad"),
        key=item.get("key"),
        tags=(tags,) if isinstance(tags, str) else tuple(map(str, tags)),
        role=item.get("role"),
        kind=item.get("kind"),
        body=copy.deepcopy(item.get("content")),
        born=int(life.get("born", cycle)),
        removable=bool(item.get("removable", False)),
        stages=tuple(Stage(tuple(s["place"]), s["ttl"]) for s in life.get("stages", ())),
        stage=int(life.get("stage", 0)),
        rounds=int(life.get("rounds", 0)),
        extra={k: copy.deepcopy(v) for k, v in item.items() if k not in _FIXED},
        given=None if all(h in item for h in HEADERS) else tuple(h for h in HEADERS if h in item),
    )
    iso, known = item.get("created_at_iso"), record.created_at_iso  # a time that no calendar has is refused here
    return msgspec.structs.replace(record, iso=iso) if isinstance(iso, str) and iso != known else record
