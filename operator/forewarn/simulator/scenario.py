"""Reads SCENARIO.yaml into a checked scenario; every mistake names its file and line, before anything is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import yaml

from forewarn.contract import Keys
from forewarn.errors import UserError
from forewarn.simulator import making, model, values, verbs
from forewarn.simulator.document import Document, is_null, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from forewarn.simulator.verbs import Field, Verb

TOP_KEYS = ("name", "about", "pods", "steps", "cleanup")
POD_KEYS = ("render", "manifest", "existing")
HEARD_WITHIN = timedelta(seconds=30)
"""How much later than SIGTERM itself we may hear of it."""

_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Surroundings:
    """What a scenario is read with: the renderer, the annotation keys, and an image for containers that name none.

    ``render`` turns launch flags into a pod manifest; it raises ``UserError``. ``reasons`` are the Event reasons that
    ``expect-event`` may name for our own Events; empty takes any.
    """

    render: Callable[[list[str]], dict[str, Any]]
    keys: Keys = field(default_factory=Keys)
    image: str | None = None
    reasons: tuple[str, ...] = ()


def read(path: Path, surroundings: Surroundings) -> model.Scenario:
    """Read and check a whole scenario; raises ``UserError`` at the first mistake. Touches no cluster."""
    return _Reader(Document(path), surroundings).scenario()


def _mappings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


class _Reader:
    def __init__(self, document: Document, surroundings: Surroundings) -> None:
        self.document, self.around = document, surroundings
        self.pods: tuple[model.PodSource, ...] = ()

    def scenario(self) -> model.Scenario:
        document = self.document
        top = document.fields(document.root, "a scenario", TOP_KEYS)
        for key in ("pods", "steps"):
            if key not in top:
                document.fail(document.root, f"a scenario needs {key!r}", f"allowed: {', '.join(TOP_KEYS)}")
        name = self._text(top, "name", document.path.stem)
        self.pods = self._pods(top["pods"][1])
        steps = tuple(self._step(node) for node in document.items(top["steps"][1], "steps"))
        if not steps:
            document.fail(top["steps"][0], "steps is empty", "allowed: at least one step")
        cleanup: tuple[model.Step, ...] = ()
        if "cleanup" in top:
            nodes = document.items(top["cleanup"][1], "cleanup")
            cleanup = tuple(self._step(node, cleanup=True) for node in nodes)
        self._check_order(steps)
        return model.Scenario(name, self._text(top, "about", ""), self.pods, (*self._prelude(steps), *steps), cleanup)

    def _text(self, fields: Mapping[str, tuple[yaml.Node, yaml.Node]], key: str, default: str) -> str:
        if key not in fields:
            return default
        return " ".join(self.document.text(fields[key][1], key).split())

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def _pods(self, node: yaml.Node) -> tuple[model.PodSource, ...]:
        entries = self.document.entries(node, "pods")
        if not entries:
            self.document.fail(node, "pods is empty", "allowed: NAME: {render|manifest|existing: …}")
        pods = tuple(self._pod(name, key, value) for name, (key, value) in entries.items())
        seen: dict[str, str] = {}
        for pod in pods:
            if pod.real_name and pod.real_name in seen:
                raise UserError(
                    str(pod.place),
                    f"pods {seen[pod.real_name]!r} and {pod.name!r} are both named {pod.real_name!r} in the cluster",
                    "allowed: one of them",
                )
            seen[pod.real_name] = pod.name
        return pods

    def _pod(self, name: str, key: yaml.Node, node: yaml.Node) -> model.PodSource:
        fields = self.document.fields(node, f"pod {name!r}", POD_KEYS)
        if len(fields) != 1:
            self.document.fail(key, f"pod {name!r} has {len(fields)} sources", f"allowed: one of {', '.join(POD_KEYS)}")
        ((kind, (_, value)),) = fields.items()
        place = self.document.place(key)
        if kind == "existing":
            existing = name if is_null(value) else self.document.text(value, "existing")
            if not _POD_NAME.fullmatch(existing):
                self.document.fail(value, f"{existing!r} is not a pod's name", "allowed: a-z, 0-9 and dashes")
            return model.ExistingPod(name, place, existing)
        manifest = self._rendered(value) if kind == "render" else self._manifest(name, value)
        return model.NewPod(name, place, self._completed(value, manifest))

    def _rendered(self, node: yaml.Node) -> dict[str, Any]:
        flags = [self._flag(item) for item in self.document.items(node, "render")]
        options = flags[: flags.index("--")] if "--" in flags else flags
        image = [] if self.around.image is None or "-i" in options else ["-i", self.around.image]
        try:
            return self.around.render([*image, *flags])
        except UserError as error:
            raise UserError(str(self.document.place(node)), f"render: {error}") from None

    def _flag(self, node: yaml.Node) -> str:
        """Return a launch flag as it stands, or, for ``file: NAME``, the text of a file beside the scenario."""
        if isinstance(node, yaml.ScalarNode):
            return self.document.text(node, "a launch flag")
        given = self.document.fields(node, "a launch flag", ["file"])
        if not given:
            self.document.fail(node, "an empty launch flag", "allowed: text, or file: NAME")
        name = self.document.text(given["file"][1], "file")
        try:
            return (self.document.path.parent / name).read_text()
        except (OSError, UnicodeError) as error:
            self.document.fail(node, f"file {name} cannot be read: {error}", "allowed: a text file beside the scenario")

    def _manifest(self, name: str, node: yaml.Node) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            file = Document(self.document.path.parent / self.document.text(node, "manifest"))
            manifest, where = file.value(file.root), str(file.path)
        else:
            manifest, where = self.document.value(node), str(self.document.place(node))
        if not isinstance(manifest, dict) or manifest.get("kind") != "Pod" or manifest.get("apiVersion") != "v1":
            raise UserError(where, "is not a pod's manifest", "allowed: apiVersion: v1, kind: Pod, metadata, spec")
        if not isinstance(manifest.setdefault("metadata", {}), dict):
            raise UserError(where, "metadata must be a mapping", "allowed: name, labels, annotations")
        spec = manifest.get("spec")
        if not isinstance(spec, dict) or not _mappings(spec.get("containers")):
            raise UserError(where, "the pod has no containers", "allowed: spec.containers, a list of mappings")
        if spec.get("initContainers") is not None and not _mappings(spec["initContainers"]):
            raise UserError(where, "initContainers cannot be read", "allowed: a list of mappings")
        if not manifest["metadata"].keys() & {"name", "generateName"}:
            manifest["metadata"]["name"] = name
        return manifest

    def _completed(self, node: yaml.Node, manifest: dict[str, Any]) -> dict[str, Any]:
        for container in (*(manifest["spec"].get("initContainers") or ()), *manifest["spec"]["containers"]):
            if container.get("image"):
                continue
            if self.around.image is None:
                self.document.fail(
                    node,
                    f"container {container.get('name', '?')!r} names no image",
                    "name one there, or give --image (FOREWARN_IMAGE) for those that name none",
                )
            container["image"] = self.around.image
        return manifest

    def _prelude(self, steps: tuple[model.Step, ...]) -> tuple[model.Step, ...]:
        """Create, before the clock starts, each pod that no step creates."""
        created = {step.pod for step in steps if isinstance(step.action, model.Create)}
        create = verbs.BY_NAME["create"]
        made = create.build(making.Given({}, self.around.keys))
        within = values.span(str(create.fields[0].default))
        return tuple(
            model.Step(pod.place, create.name, pod.name, None, made.action, made.condition, within=within, prelude=True)
            for pod in self.pods
            if pod.name not in created
        )

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def _step(self, node: yaml.Node, cleanup: bool = False) -> model.Step:
        document = self.document
        fields = document.entries(node, "a step")
        names = verbs.BY_NAME
        found = [key for key in fields if key in names]
        for key, (key_node, _) in fields.items():
            if key not in names and key not in verbs.STEP_KEYS:
                document.fail(key_node, f"unknown step {key!r}", f"{nearest(key, names)}allowed: {', '.join(names)}")
        if len(found) != 1:
            what = f"two steps in one: {' and '.join(found)}" if found else "a step without a verb"
            document.fail(node, what, f"allowed: one of {', '.join(names)}")
        verb = names[found[0]]
        key_node, value_node = fields[verb.name]
        if cleanup and (verb.expectation or verb.name in ("create", "leave-stale")):
            document.fail(key_node, f"cleanup cannot {verb.name}", "allowed: steps that only do something")
        taken = self._taken(verb, key_node, value_node)
        try:
            made = verb.build(making.Given(taken, self.around.keys))
        except ValueError as error:
            document.fail(value_node, f"{verb.name} cannot be used so", str(error))
        self._check_reason(verb, value_node, taken)
        within = taken.get("within") or model.NOTHING
        if isinstance(made.condition, model.Signalled):
            within = made.condition.after + HEARD_WITHIN
        return model.Step(
            document.place(key_node),
            verb.name,
            self._pod_of(verb, fields, node),
            self._text(fields, "say", "") or None,
            made.action,
            made.condition,
            self._at(fields),
            within,
            made.hold,
            expectation=verb.expectation,
        )

    def _taken(self, verb: Verb, key: yaml.Node, node: yaml.Node) -> dict[str, Any]:
        """Return the values that a verb takes, by field name."""
        document = self.document
        if verb.shape == "annotations":
            entries = document.entries(node, verb.name)
            return {"annotations": [self._annotation(k, v) for k, v in entries.values()]}
        if verb.shape in ("names", "command"):
            nodes = document.items(node, verb.name)
            items = [document.text(item, f"an item of {verb.name}") for item in nodes]
            if not items:
                document.fail(node, f"{verb.name} is empty", f"such as {verb.example}")
            if verb.shape == "command":
                return {"command": items}
            return {"names": [self._key(item) for item in nodes]}
        given: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        if isinstance(node, yaml.ScalarNode) and not is_null(node):
            if verb.short is None:
                document.fail(node, f"{verb.name} takes no value", f"such as {verb.example}")
            given = {verb.short: (key, node)}
        elif not is_null(node):
            given = document.fields(node, verb.name, [field.name for field in verb.fields])
        return {field.name: self._field(verb, field, given, key) for field in verb.fields}

    def _field(self, verb: Verb, field: Field, given: Mapping[str, tuple[yaml.Node, yaml.Node]], key: yaml.Node) -> Any:
        if field.name not in given:
            if field.required:
                self.document.fail(key, f"{verb.name} needs {field.name!r}", f"such as {verb.example}")
            return None if field.default is None else field.read(field.default)
        node = given[field.name][1]
        return self._read(node, f"{verb.name}: {field.name}", field.read)

    def _read(self, node: yaml.Node, of: str, reader: Callable[[str], Any]) -> Any:
        raw = self.document.text(node, of)
        try:
            return reader(raw)
        except ValueError as error:
            self.document.fail(node, f"{of} {raw!r} cannot be read", str(error))

    def _annotation(self, key_node: yaml.Node, node: yaml.Node) -> tuple[str, model.Value]:
        key = self._key(key_node)
        if is_null(node):
            return key, None
        raw = self.document.text(node, "an annotation's value")
        return key, self._read(node, "the instant", values.relative) or raw

    def _key(self, node: yaml.Node) -> str:
        return str(self._read(node, "the annotation", lambda raw: values.annotation_key(raw, self.around.keys)))

    def _pod_of(self, verb: Verb, fields: Mapping[str, tuple[yaml.Node, yaml.Node]], node: yaml.Node) -> str:
        names = [pod.name for pod in self.pods]
        if "pod" not in fields:
            # A program that is run is of no pod; its line stands with the first.
            if len(names) > 1 and verb.shape != "command":
                self.document.fail(node, "which pod?", f"allowed: pod: {' or '.join(names)}")
            return names[0]
        name = self.document.text(fields["pod"][1], "pod")
        if name not in names:
            what = f"{nearest(name, names)}allowed: {', '.join(names)}"
            self.document.fail(fields["pod"][1], f"there is no pod {name!r} in this scenario", what)
        return name

    def _at(self, fields: Mapping[str, tuple[yaml.Node, yaml.Node]]) -> model.At:
        if "at" not in fields:
            return model.At()
        node = fields["at"][1]
        raw = self.document.text(node, "at")
        offset: timedelta = self._read(node, "at", lambda text: values.span(text.removeprefix("+")))
        return model.At(offset, after=raw.startswith("+"))

    # ── what only the whole shows ────────────────────────────────────────────────────────────────────────────────────
    def _check_reason(self, verb: Verb, node: yaml.Node, taken: Mapping[str, Any]) -> None:
        reasons = self.around.reasons
        ours = taken.get("from") == next((f.default for f in verb.fields if f.name == "from"), None)
        if "reason" in taken and ours and reasons and taken["reason"] not in reasons:
            what = f"{nearest(taken['reason'], reasons)}allowed: {', '.join(reasons)}, or another controller by from:"
            self.document.fail(node, f"forewarn writes no Event {taken['reason']!r}", what)

    def _check_order(self, steps: tuple[model.Step, ...]) -> None:
        latest: timedelta | None = None
        uncreated = {step.pod for step in steps if isinstance(step.action, model.Create)}
        warned: set[str] = set()
        for step in steps:
            if not step.at.after:
                if latest is not None and step.at.offset < latest:
                    raise UserError(
                        str(step.place),
                        f"at {step.at.offset.total_seconds():g}s comes after a step at {latest.total_seconds():g}s",
                        "allowed: steps in the order of their times",
                    )
                latest = step.at.offset
            if isinstance(step.action, model.Create):
                if step.pod not in uncreated:
                    raise UserError(str(step.place), f"pod {step.pod!r} is created twice", "allowed: once")
                uncreated.discard(step.pod)
            elif step.pod in uncreated and not isinstance(step.action, model.Run):
                raise UserError(
                    str(step.place), f"pod {step.pod!r} is created only later", "allowed: create: before this step"
                )
            if step.verb in ("warn", "queue"):
                warned.add(step.pod)
            if isinstance(step.condition, model.WarningPast) and step.pod not in warned:
                raise UserError(
                    str(step.place), f"no warning of pod {step.pod!r} comes before", "allowed: warn or queue first"
                )
