"""Flags, environment and profile to one checked LaunchRequest. Pure: whatever it reads is passed in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.errors import UserError
from forewarn_manifests import checks, storage
from forewarn_manifests.process import SCRIPT_DIRECTORY, process
from forewarn_manifests.reader import Reader
from forewarn_manifests.request import Identity, JobPlan, LaunchRequest, Mode, Mount, Pair, Toleration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn_manifests.flags import Arguments
    from forewarn_manifests.process import Process
    from forewarn_manifests.profile import Profile
    from forewarn_manifests.request import Person

SCRIPT_ANNOTATION = "forewarn/script"
SCRIPT_VOLUME = "script"
JOB_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")
"""Kubernetes sets these on a Job's pods, and refuses a Job that sets them otherwise."""
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MASTER_PORT = 29500
"""torch.distributed's own default."""


def launch(
    arguments: Arguments, environ: Mapping[str, str], profile: Profile, person: Person, script: str | None = None
) -> LaunchRequest:
    """Check a launch and complete it. ``script`` is the text of the file that -f names.

    Raises ``UserError`` that names the flag, variable or profile, the problem, and what is allowed.
    """
    reader = Reader(arguments, environ, profile, person)
    image = _image(reader)
    gpus = _gpus(reader)
    space = storage.workspace(reader)
    home = storage.home(reader, space)
    container = process(reader, image, home.path, script)
    job = _job(reader, container)
    labels = _labels(reader, space, gpus, job)
    name, generate_name = _name(reader, job)
    script_mount = _script_mount(container, reader.why["script"]) if container.script else None
    runtime = reader.whole("timeout", 1, "seconds of runtime")
    return LaunchRequest(
        profile=profile.name,
        mode=container.mode,
        user=person.name,
        name=name,
        generate_name=generate_name,
        image=image,
        pull_policy=_pull_policy(reader),
        pull_secrets=_pull_secrets(reader),
        command=container.command,
        args=container.args,
        cpus=reader.whole("cpus", 1, "CPUs of one pod"),
        memory=reader.whole("memory", 1, "GB of RAM of one pod"),
        gpus=gpus,
        gpu_resource=profile.gpu_resource,
        runtime=runtime,
        grace=int(profile.defaults["grace"]),
        home=home.path,
        labels=labels,
        annotations=_annotations(reader, container),
        environment=_environment(reader, home.path, runtime, name, job),
        node_selector=_node_selector(reader),
        tolerations=_tolerations(reader),
        mounts=storage.mounts(reader, home, script_mount),
        ports=container.ports,
        identity=_identity(reader),
        script=container.script,
        keys=contract.Keys(_annotation_prefix(reader)),
        whole_map=reader.switch("whole_map", False),
        job=job,
        quiet=container.quiet,
        why=dict(reader.why),
        warnings=tuple(reader.warnings),
    )


def _image(reader: Reader) -> str:
    given = reader.given("image")
    if given is None:
        reader.from_profile("image")
        return checks.image(f"profile {reader.profile.name}", str(reader.profile.defaults["image"]))
    return checks.image(given.where, given.value)


def _pull_policy(reader: Reader) -> str:
    given = reader.given("pull_policy")
    if given is None:
        reader.from_profile("pull_policy")
        return str(reader.profile.defaults["pullPolicy"])
    by_lower = {policy.lower(): policy for policy in PULL_POLICIES}
    return by_lower.get(given.value.lower()) or checks.one_of(given.where, "pull policy", given.value, PULL_POLICIES)


def _pull_secrets(reader: Reader) -> tuple[str, ...]:
    found = list(reader.profile.pull_secrets)
    for given in reader.arguments.every("pull_secrets"):
        reader.why["pull_secrets"] = given.where
        found += [checks.object_name(given.where, name, 253) for name in filter(None, given.value.split(","))]
    if found and "pull_secrets" not in reader.why:
        reader.from_profile("pull_secrets")
    return tuple(dict.fromkeys(found))


def _gpus(reader: Reader) -> int:
    given = reader.given("gpus")
    if given is not None and (
        given.value == "list"
        or given.value in reader.profile.known_teams
        or (given.value.isdigit() and len(given.value) > 3)
    ):
        raise UserError(
            given.where, f"{given.value!r} is no number of GPUs", f"a team is named with -G: write -G {given.value}"
        )
    return reader.whole("gpus", 0, "GPUs of one pod")


def _labels(reader: Reader, space: str, gpus: int, job: JobPlan | None) -> tuple[Pair, ...]:
    profile = reader.profile
    found = _of_profile(reader, profile.labels, checks.LABEL_ALLOWED, checks.label_value)
    if space:
        found[contract.COURSE_LABEL] = Pair(contract.COURSE_LABEL, space, reader.why["workspace"])
    user = reader.given("user")
    where = user.where if user else "who calls"
    value = checks.label_value(where, reader.person.name)
    found[contract.USER_LABEL] = Pair(contract.USER_LABEL, value, where)
    for given in reader.arguments.every("labels"):
        key, content = checks.label(given.where, given.value)
        if key == contract.USER_LABEL:
            raise UserError(given.where, f"{key} is the launcher's to set", "allowed: --user NAME")
        if key == contract.COURSE_LABEL and space and content != space:
            raise UserError(given.where, f"{key}={content} contradicts -W {space}", "give only one of them")
        if key == contract.GPU_CLASS_LABEL:
            checks.one_of(given.where, contract.GPU_CLASS_LABEL, content, profile.gpu_classes)
        found[key] = Pair(key, content, given.where)
    for key in found.keys() & JOB_LABELS if job else ():
        raise UserError(found[key].why, f"{key} is Kubernetes' own on a Job's pods", "leave it out")
    if gpus and contract.GPU_CLASS_LABEL not in found:
        _no_class(reader, found)
    return tuple(found.values())


def _of_profile(
    reader: Reader, values: Mapping[str, str], allowed: str, check: Callable[[str, str], str]
) -> dict[str, Pair]:
    """Return the profile's own labels or alike, checked as those of a flag are."""
    own = f"profile {reader.profile.name}"
    return {
        checks.key(own, key, allowed): Pair(key, check(own, reader.fill(value)), own) for key, value in values.items()
    }


def _no_class(reader: Reader, found: dict[str, Pair]) -> None:
    profile = reader.profile
    classes = ", ".join(profile.gpu_classes)
    if profile.gpu_default_class:
        checks.one_of(f"profile {profile.name}", "defaultClass", profile.gpu_default_class, profile.gpu_classes)
        found[contract.GPU_CLASS_LABEL] = Pair(
            contract.GPU_CLASS_LABEL, profile.gpu_default_class, f"profile {profile.name}"
        )
        return
    if profile.gpu_strict:
        raise reader.refuse("gpus", "a GPU needs a class", f"add -l gpu-class=CLASS, one of: {classes}")
    reader.warnings.append(
        f"a GPU without a class is never scheduled: add -l {contract.GPU_CLASS_LABEL}=CLASS, one of: {classes}"
    )


def _annotations(reader: Reader, container: Process) -> tuple[Pair, ...]:
    profile = reader.profile
    found = _of_profile(reader, profile.annotations, checks.ANNOTATION_ALLOWED, checks.text)
    for given in reader.arguments.every("annotations"):
        key, value = checks.annotation(given.where, given.value)
        if key.startswith((_annotation_prefix(reader), contract.IDLE_PREFIX)):
            raise UserError(given.where, f"{key} is the reservation controller's alone", "allowed: a key of your own")
        found[key] = Pair(key, value, given.where)
    mail = reader.given("mail")
    if mail is not None:
        checks.text(mail.where, mail.value)
        if not re.fullmatch(r"[^\s@-][^\s@]*@[^\s@]+", mail.value):
            raise UserError(mail.where, f"{mail.value!r} is no address", "allowed: NAME@HOST")
        found[profile.mail_annotation] = Pair(profile.mail_annotation, mail.value, mail.where)
    if container.script:
        found[SCRIPT_ANNOTATION] = Pair(SCRIPT_ANNOTATION, container.script, reader.why["script"])
    size = sum(len(pair.key) + len(pair.value.encode()) for pair in found.values())
    if size > 262_144:
        raise UserError("-A", f"all annotations together have {size} bytes", "allowed: at most 262144")
    return tuple(found.values())


def _environment(reader: Reader, home: str, runtime: int, name: str, job: JobPlan | None) -> tuple[Pair, ...]:
    profile = reader.profile
    own = f"profile {profile.name}"
    found = {
        checks.variable_name(own, key): Pair(key, checks.text(own, reader.fill(value)), own)
        for key, value in profile.environment.items()
    }
    if reader.switch("conda_cache", False):
        for key, value in profile.conda_environment.items():
            found[key] = Pair(key, reader.fill(value), reader.why["conda_cache"])
    found["NB_USER"] = Pair("NB_USER", reader.person.name, "who calls")
    found["HOME"] = Pair("HOME", home, reader.why.get("workspace", f"profile {profile.name}"))
    found[contract.RUNTIME_LIMIT_VARIABLE] = Pair(contract.RUNTIME_LIMIT_VARIABLE, str(runtime), reader.why["timeout"])
    if job is not None and job.completions is not None:
        rank = f"{name}-0.{name}"
        found["MASTER_ADDR"] = Pair("MASTER_ADDR", rank, "index 0 of the Job")
        found["MASTER_PORT"] = Pair("MASTER_PORT", str(MASTER_PORT), "index 0 of the Job")
        found["WORLD_SIZE"] = Pair("WORLD_SIZE", str(job.completions), "pods of the Job")
    prefix = reader.given("export_prefix")
    if prefix is not None:
        if not prefix.value:
            raise UserError(prefix.where, "the prefix is empty: every variable begins with it", "allowed: a prefix")
        for variable, value in sorted(reader.environ.items()):
            if variable.startswith(prefix.value) and variable != prefix.value:
                key = checks.variable_name(f"{prefix.where}={prefix.value}: {variable}", variable[len(prefix.value) :])
                found[key] = Pair(key, checks.text(variable, value), variable)
    return tuple(found.values())


def _node_selector(reader: Reader) -> tuple[Pair, ...]:
    profile = reader.profile
    found = _of_profile(reader, profile.node_selector, checks.LABEL_ALLOWED, checks.label_value)
    node = reader.given("node")
    if node is not None:
        found[profile.node_label] = Pair(profile.node_label, _node(reader, node.where, node.value), node.where)
    model = reader.given("gpu_model")
    if model is not None:
        if profile.gpu_models:
            checks.one_of(model.where, "GPU model", model.value, profile.gpu_models)
        value = checks.label_value(model.where, model.value)
        if not value:
            raise UserError(model.where, "the GPU model is empty", "allowed: a GPU model")
        found[profile.gpu_model_label] = Pair(profile.gpu_model_label, value, model.where)
    return tuple(found.values())


def _node(reader: Reader, where: str, value: str) -> str:
    allowed = "allowed: a bare number such as 30, or a full host name with a dot"
    if re.fullmatch(r"\d{1,6}", value, re.ASCII):
        number = str(int(value)).zfill(reader.profile.node_digits)
        return reader.fill(reader.profile.node_name, {"node": number})
    like = re.fullmatch(r"[a-z-]*n(\d{1,6})", value, re.ASCII)
    if "." not in value:
        hint = f" (did you mean {where} {int(like.group(1))}?)" if like else ""
        raise UserError(where, f"{value!r} is neither a number nor a full host name{hint}", allowed)
    return checks.host_name(where, value, allowed)


def _tolerations(reader: Reader) -> tuple[Toleration, ...]:
    profile = reader.profile
    specs = [(f"profile {profile.name}", spec) for spec in profile.tolerations]
    specs += [(given.where, given.value) for given in reader.arguments.every("tolerations")]
    if specs:
        reader.why["tolerations"] = ", ".join(dict.fromkeys(where for where, _ in specs))
    return tuple(dict.fromkeys(toleration(where, spec) for where, spec in specs))


def toleration(where: str, spec: str) -> Toleration:
    """Read a toleration given as KEY[=VALUE][:EFFECT]."""
    allowed = f"allowed: KEY[=VALUE][:EFFECT], EFFECT one of {', '.join(EFFECTS)}"
    rest, _, effect = spec.partition(":")
    key, equals, value = rest.partition("=")
    if effect:
        checks.one_of(where, "effect", effect, EFFECTS)
    elif ":" in spec:
        raise UserError(where, f"{spec!r} names no effect behind :", allowed)
    if equals and not value:
        raise UserError(where, f"{spec!r} names no value behind =", allowed)
    return Toleration(checks.key(where, key, allowed), checks.label_value(where, value, allowed), effect)


def _identity(reader: Reader) -> Identity | None:
    team = reader.given("team")
    person = reader.person
    caller = reader.profile.identity == "caller"
    group = _team(reader, team.where, team.value) if team else None
    if not caller and group is None:
        return None
    if not caller:
        return Identity(None, None, (group,) if group else ())
    return Identity(person.uid, group or person.gid, (person.gid,) if group else ())


def _team(reader: Reader, where: str, value: str) -> int:
    known = reader.profile.known_teams
    if value in known:
        return known[value]
    if not value.isdecimal() or not value.isascii():
        checks.one_of(where, "team", value, known)
    number = checks.whole(where, value, 1, 2**31 - 1, "a numeric group")
    if number <= 8:
        raise UserError(where, f"{value} is no team", f"GPUs are asked for with -g: write -g {value}")
    return number


def _name(reader: Reader, job: JobPlan | None) -> tuple[str, str]:
    base = re.sub(r"[^a-z0-9]+", "-", reader.person.name.lower()).strip("-")[:36].rstrip("-") or "session"
    given = reader.given("name")
    indexed = job is not None and job.completions is not None
    if indexed and base[0].isdigit():
        base = f"u{base}"  # a Service's name begins with a letter
    limit = 63 if job is None or job.completions is None else 62 - len(str(job.completions - 1))
    if given is not None:
        if indexed and given.value[:1].isdigit():
            what = f"{given.value!r} is no name of a Service, which several pods find each other by"
            raise UserError(given.where, what, "allowed: a letter first")
        return checks.object_name(given.where, given.value, limit, dots=job is None), f"{base}-"
    number = reader.given("number")
    if number is not None:
        text = checks.object_name(number.where, number.value, 20, dots=False)
        return f"{base}-{text}", f"{base}-"
    if indexed:
        flag = "completions" if reader.given("completions") else "parallelism"
        raise reader.refuse(flag, "several pods find each other by the Job's name", "give it one: -N NAME")
    return "", f"{base}-"


def _annotation_prefix(reader: Reader) -> str:
    given = reader.given("annotation_prefix")
    where, value = (
        (given.where, given.value) if given else (f"profile {reader.profile.name}", reader.profile.annotation_prefix)
    )
    if value == contract.DEFAULT_PREFIX:
        return value
    from forewarn import settings

    try:
        return settings.prefix(value)
    except ValueError as error:
        raise UserError(where, f"{value!r} cannot be read", f"allowed: {error}") from None


def _job(reader: Reader, container: Process) -> JobPlan | None:
    requeue = reader.given("requeue")
    if requeue is not None and requeue.value not in ("yes", "always"):
        raise UserError(
            requeue.where, f"{requeue.value!r} is not a way to requeue", "allowed: --requeue or --requeue=always"
        )
    kind = reader.given("kind")
    if kind is not None and kind.value not in ("Pod", "Job"):
        checks.one_of(kind.where, "kind", kind.value, ("Pod", "Job"))
    several = [name for name in ("completions", "parallelism") if reader.given(name) is not None]
    asked = [*several, *["requeue"] * (requeue is not None)]
    if kind is not None and kind.value == "Pod" and asked:
        raise reader.refuse(asked[0], "is for a Job", "leave out --kind Pod")
    if not asked and (kind is None or kind.value == "Pod"):
        if reader.given("backoff_limit") is not None:
            raise reader.refuse("backoff_limit", "is for a Job", "add --kind Job or --requeue")
        return None
    if container.mode is not Mode.SCRIPT and not reader.arguments.command:
        raise UserError("a Job", "there is no command to run", "write it behind --, as in: -- python train.py")
    completions, parallelism = _pods(reader) if several else (None, None)
    if (parallelism or 1) > 1 and reader.given("log") is not None:
        reader.warnings.append(
            f"{parallelism} pods append to one log at once, and NFS loses lines then: "
            "without --log each has its own kubectl logs"
        )
    always = requeue is not None and requeue.value == "always"
    limit = reader.whole("timeout", 1, "seconds of runtime") if requeue is not None and not always else None
    return JobPlan(
        backoff_limit=_backoff_limit(reader, requeue is not None),
        completions=completions,
        parallelism=parallelism,
        requeue=requeue is not None,
        limit=limit,
    )


def _backoff_limit(reader: Reader, requeue: bool) -> int:
    given = reader.given("backoff_limit")
    if given is not None:
        return checks.whole(given.where, given.value, 0, 1000, "counted failures")
    reader.from_profile("backoff_limit")
    return int(reader.profile.defaults["backoffLimit"]) if requeue else 0


def _pods(reader: Reader) -> tuple[int, int]:
    completions, parallelism = reader.given("completions"), reader.given("parallelism")
    most = reader.profile.limits["completions"]

    def number(name: str) -> int:
        given = reader.given(name)
        return checks.whole(given.where, given.value, 1, most, "pods") if given else 0

    pods = number("completions") if completions else number("parallelism")
    at_once = number("parallelism") if parallelism else pods
    if at_once > pods:
        raise reader.refuse("parallelism", f"{at_once} at once are more than {pods} pods", f"allowed: 1 to {pods}")
    return pods, at_once


def _script_mount(container: Process, why: str) -> Mount:
    source = {
        "defaultMode": 0o555,
        "items": [{"path": container.script_name, "fieldRef": {"fieldPath": contract.field_path(SCRIPT_ANNOTATION)}}],
    }
    return Mount(SCRIPT_VOLUME, SCRIPT_DIRECTORY, "downwardAPI", source, read_only=True, why=why)
