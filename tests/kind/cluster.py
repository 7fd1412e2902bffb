"""The cluster of this checkout: which one, made where it is missing, made anew where it is half dead, removed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from forewarn.errors import UserError
from tests.kind import docker, go, node_image, operator_image, versions
from tests.kind.ask import ask
from tests.kind.places import (
    CHECKOUT,
    CLUSTER_NAME,
    KUBECONFIG,
    MADE_HERE,
    MADE_SELECTOR,
    NAMESPACE,
    STATE,
    bin_directory,
    digest,
    locked,
)
from tests.kind.progress import Steps
from tests.support.programs import cache

FOREIGN, STOCK, OFFLINE = "foreign", "stock", "offline"
KUBECONFIG_VARIABLE = "FOREWARN_KUBECONFIG"
IMAGE_VARIABLE = "FOREWARN_IMAGE"
AN_IMAGE = "allowed: an image that the cluster can pull, such as registry.example/forewarn:1.0"
OWN = STATE.with_name("kind.json")
LOCAL_IMAGE = "forewarn:dev"
"""The name that the newest image of this checkout also has inside this checkout's own cluster."""

TOOLS_FOR_KIND = tuple(program for program in versions.TOOLS if program.name in ("kind", "kubectl", "helm"))
HELM_SECONDS = 60.0
MAKE_TOOLS = "make tools builds it"
OFFLINE_IMAGES = "kindest/node:*-offline-*"
BASE_IMAGES = "forewarn-*base:*"
HERE = Path(__file__).parent
CONFIGURATIONS = {kind: HERE / f"{kind}.yaml" for kind in (STOCK, OFFLINE)}


@dataclass(frozen=True)
class Cluster:
    """A cluster to test on: ``kind`` is foreign, stock or offline; ``image`` is the operator's, empty for none."""

    kind: str
    kubeconfig: str
    node_image: str = ""
    image: str = ""
    configuration: str = ""

    def save(self) -> None:
        """Write it where the tests and the demo look, and where ``up`` (one of our own) and ``down`` find it again."""
        kept = OWN if self.kind in CONFIGURATIONS else STATE.with_name(f"foreign-{digest(self.kubeconfig)}.json")
        for path in (STATE, kept):
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(".new")
            new.write_text(json.dumps(asdict(self), indent=1) + "\n")
            new.replace(path)

    @classmethod
    def load(cls, path: Path | None = None) -> Self | None:
        """Return the cluster that ``up`` left, or ``None``."""
        try:
            return cls(**json.loads((path or STATE).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def foreign(self) -> bool:
        """Whether it is somebody's own (FOREWARN_KUBECONFIG's): never made anew or removed, nor given our image."""
        return self.kind == FOREIGN


def image_parts(image: str) -> tuple[str, str]:
    """Return repository and tag as the chart puts them together; without a tag it is ``latest``, as for Docker.

    Of a digest (``NAME@sha256:…``) what follows the colon counts as the tag. ``UserError`` where it is no image's name.
    """
    place, slash, last = image.rpartition("/")
    name, colon, tag = last.partition(":") if "@" not in last else last.rpartition(":")
    if not re.fullmatch(r"[\w.:/-]*", place) or not re.fullmatch(r"\w[\w.@:-]*", name) or (colon and not tag):
        raise UserError(IMAGE_VARIABLE, f"{image!r} is no image's name", AN_IMAGE)
    return f"{place}{slash}{name}", tag or "latest"


def kubectl(kubeconfig: str | Path, *arguments: str, input: str | None = None, timeout: float = 30) -> str:  # noqa: A002
    """Run kubectl and return what it printed; ``UserError`` with its own words where it fails."""
    argv = [str(bin_directory() / "kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    return ask(argv, where=f"kubectl {arguments[0]}", missing=MAKE_TOOLS, timeout=timeout, text=input)


def helm(cluster: Cluster, *arguments: str) -> str:
    """Run helm in the operator's namespace and return what it printed; ``UserError`` as ``kubectl``."""
    argv = [str(bin_directory() / "helm"), f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}", *arguments]
    return ask(argv, where=f"helm {arguments[0]}", missing=MAKE_TOOLS, timeout=HELM_SECONDS)


def releases(cluster: Cluster, *options: str) -> list[str]:
    """Return the names of the releases in the operator's namespace, in whichever state they are."""
    return helm(cluster, "list", "--all", "--short", *options).split()


def make_namespace(kubeconfig: str | Path, name: str, labels: Mapping[str, str] | None = None) -> None:
    """Make a namespace that ``down`` removes; one that is there already is left as it is."""
    if kubectl(kubeconfig, "get", "namespace", name, "--ignore-not-found", "--output=name"):
        return
    metadata = {"name": name, "labels": {**MADE_HERE, **(labels or {})}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    kubectl(kubeconfig, "create", "-f", "-", input=json.dumps(space))


def alive(kubeconfig: str | Path) -> bool:
    """Whether the API server is ready and so is every node."""
    try:
        kubectl(kubeconfig, "get", "--raw=/readyz", "--request-timeout=5s", timeout=15)
        ready = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{" "}{end}'
        told = kubectl(kubeconfig, "get", "nodes", f"-o=jsonpath={ready}", "--request-timeout=5s", timeout=15)
    except UserError:
        return False
    return bool(told.split()) and set(told.split()) == {"True"}


def _containers(name: str) -> list[str]:
    return docker.run("ps", "-aq", "--filter", f"label=io.x-k8s.kind.cluster={name}").split()


def up(steps: Steps, environ: Mapping[str, str] = os.environ) -> Cluster:
    """Return a cluster that works: the named one, else this checkout's, made (anew) where needed."""
    named = environ.get(KUBECONFIG_VARIABLE)
    if named:
        return _foreign(steps, Path(named).expanduser(), environ.get(IMAGE_VARIABLE, ""))
    go.build(steps, go.missing(TOOLS_FOR_KIND), node_image.ALL)
    docker.ensure(steps)
    known = Cluster.load(OWN)
    if known is not None and _fits(known) and alive(KUBECONFIG):
        known.save()
        steps.say(f"cluster {CLUSTER_NAME}: there already ({known.kind} node image)")
        return known
    steps.plan(2 + node_image.steps_needed())
    kind, image = _node_image(steps)
    _remove_orphans(steps)
    with steps.step(f"cluster {CLUSTER_NAME} on {image.partition('@')[0]}"):
        if _containers(CLUSTER_NAME):
            _delete(CLUSTER_NAME)
        cluster = _create(steps, kind, image)
    cluster.save()
    return cluster


def _foreign(steps: Steps, kubeconfig: Path, image: str) -> Cluster:
    go.build(steps, go.missing(TOOLS_FOR_KIND), node_image.ALL)
    if not kubeconfig.is_file():
        raise UserError(KUBECONFIG_VARIABLE, f"{kubeconfig} does not exist", "name the kubeconfig of a cluster")
    with steps.extra(f"the cluster of {kubeconfig}"):
        kubectl(kubeconfig, "get", "--raw=/readyz", "--request-timeout=10s", timeout=20)
    if image:
        image_parts(image)
    cluster = Cluster(FOREIGN, str(kubeconfig.resolve()), "", image)
    cluster.save()
    return cluster


def _fits(known: Cluster) -> bool:
    """Whether the cluster is what would be made today."""
    image = node_image.name() if known.kind == OFFLINE else versions.STOCK_NODE_IMAGE
    return (known.node_image, known.configuration) == (image, _configuration(known.kind))


def _configuration(kind: str) -> str:
    return digest(CONFIGURATIONS[kind], HERE / "patches")


def _node_image(steps: Steps) -> tuple[str, str]:
    """Return the kind of node image and its name, built where it can be had in no other way."""
    with steps.step("stock node image"):
        if docker.has_image(versions.STOCK_NODE_IMAGE) or docker.pull(versions.STOCK_NODE_IMAGE):
            steps.plan(-node_image.steps_needed())
            return STOCK, versions.STOCK_NODE_IMAGE
    if node_image.there():
        steps.say("stock node image: not here and not to be had; taking the one that was built")
    else:
        steps.say("stock node image: not here and not to be had; building one (ten to fifteen minutes the first time)")
    node_image.build(steps)
    docker.remove_images(OFFLINE_IMAGES, keep=node_image.name())
    return OFFLINE, node_image.name()


def _create(steps: Steps, kind: str, image: str) -> Cluster:
    KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
    KUBECONFIG.unlink(missing_ok=True)
    _register()
    configuration = KUBECONFIG.with_name("kind.yaml")
    configuration.write_text(CONFIGURATIONS[kind].read_text().replace("@HERE@", str(HERE)))
    # kind lists networks and makes one if there is none; two at once make two of the same name.
    with locked("kind", "kind"):
        steps.run(
            [
                *(bin_directory() / "kind", "create", "cluster", "--name", CLUSTER_NAME, "--image", image),
                *("--config", configuration, "--kubeconfig", KUBECONFIG, "--wait", "180s"),
            ],
            timeout=600,
        )
    dns = ("--namespace=kube-system", "deployment/coredns")
    kubectl(KUBECONFIG, "scale", *dns, "--replicas=1")
    kubectl(KUBECONFIG, "set", "resources", *dns, "--requests=cpu=10m")
    # A daemon that starts again would start the node too, half alive and for nobody; whoever wants it makes it anew.
    docker.run("update", "--restart=no", *_containers(CLUSTER_NAME))
    if not alive(KUBECONFIG):
        raise UserError(f"cluster {CLUSTER_NAME}", "was made but its node is not ready", f"see {steps.log}")
    return Cluster(kind, str(KUBECONFIG), image, configuration=_configuration(kind))


def _delete(name: str) -> None:
    kind = bin_directory() / "kind"
    try:
        ask(
            [kind, "delete", "cluster", "--name", name, "--kubeconfig", KUBECONFIG],
            where=f"kind delete cluster {name}",
            missing=MAKE_TOOLS,
        )
    except UserError:
        # Without kind, or where it fails, Docker does it; only what it leaves too is an error.
        left = _containers(name)
        if not left:
            raise
        docker.run("rm", "-f", "-v", *left)


def _register() -> None:
    """Note which checkout the cluster belongs to, so that it can be removed once that is gone."""
    note = cache() / "clusters" / CLUSTER_NAME
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(CHECKOUT))


def _remove_orphans(steps: Steps) -> None:
    """Remove the clusters of checkouts that no longer exist."""
    for note in sorted((cache() / "clusters").glob("forewarn-*")):
        if not Path(note.read_text()).is_dir():
            steps.say(f"cluster {note.name}: its checkout {note.read_text()} is gone, so it goes")
            _delete(note.name)
            note.unlink()


def image_steps() -> int:
    """Return how many steps ``load_image`` takes at most, as far as it can be told now."""
    return 1 if docker.answers() and operator_image.there() else operator_image.STEPS + 1


def load_image(steps: Steps, cluster: Cluster) -> Cluster:
    """Return the cluster with this checkout's operator image in it; a foreign one keeps the image it was given."""
    if cluster.foreign:
        steps.plan(-image_steps())
        return cluster
    image = operator_image.build(steps)
    node = f"{CLUSTER_NAME}-control-plane"
    ctr = ("exec", node, "ctr", "--namespace=k8s.io", "images")
    full = f"docker.io/library/{image}"
    if full not in docker.run(*ctr, "ls", "-q").split():
        with steps.step("operator image: into the cluster"):
            steps.run([bin_directory() / "kind", "load", "docker-image", image, "--name", CLUSTER_NAME])
    else:
        steps.plan(-1)
    docker.run(*ctr, "tag", "--force", full, f"docker.io/library/{LOCAL_IMAGE}")
    ready = replace(cluster, image=image)
    ready.save()
    return ready


def down(steps: Steps) -> None:
    """Remove this checkout's cluster, and from foreign ones what it put there."""
    for note in sorted(STATE.parent.glob("foreign-*.json")):
        _leave(steps, note)
    STATE.unlink(missing_ok=True)
    OWN.unlink(missing_ok=True)
    if not docker.answers():
        steps.say("cluster: no Docker daemon runs, so no cluster does")
        return
    if _containers(CLUSTER_NAME):
        steps.plan(1)
        with steps.step(f"removing cluster {CLUSTER_NAME}"):
            _delete(CLUSTER_NAME)
    else:
        steps.say(f"cluster {CLUSTER_NAME}: not there")
    KUBECONFIG.unlink(missing_ok=True)
    (cache() / "clusters" / CLUSTER_NAME).unlink(missing_ok=True)


def _leave(steps: Steps, note: Path) -> None:
    """Take our release and our namespaces off a foreign cluster; one that does not answer stays noted."""
    foreign = Cluster.load(note)
    if foreign is not None:
        try:
            with steps.extra(f"removing what was put on the cluster of {foreign.kubeconfig}"):
                for release in releases(foreign, f"--selector={MADE_SELECTOR}"):
                    helm(foreign, "uninstall", release)
                selected = ("namespaces", f"--selector={MADE_SELECTOR}")
                # Whoever still has grace there keeps it: nobody waits here for the end of that.
                kubectl(foreign.kubeconfig, "delete", *selected, "--ignore-not-found", "--wait=false")
        except UserError as error:
            steps.say(f"left on the cluster of {foreign.kubeconfig}: {error}; docs/install.md: how to uninstall")
            return
    note.unlink()


def clean(steps: Steps) -> None:
    """Remove this checkout's cluster and images, and the daemon if it is ours and idle."""
    down(steps)
    if docker.answers():
        for image in operator_image.remove():
            steps.say(f"removed image {image}")
        steps.say(docker.stop_if_ours())


def distclean(steps: Steps) -> None:
    """Remove the cache as well, unless another checkout's cluster lives in it."""
    clean(steps)
    if docker.own_daemon():
        raise UserError(str(cache()), "the Docker daemon on it still runs", "remove the other clusters first")
    if docker.answers():
        docker.remove_images(OFFLINE_IMAGES)
        docker.remove_images(BASE_IMAGES)
    # A daemon that was killed leaves its data mounted on itself.
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((point for point in mounted if Path(point).is_relative_to(cache())), reverse=True):
        subprocess.run(["umount", point], check=False)
    # Go's module cache is Go's own and stays.
    if subprocess.run(["rm", "-rf", "--one-file-system", cache()], check=False).returncode:
        raise UserError(str(cache()), "cannot be removed as a whole", "is something mounted or running in it?")
    steps.say(f"removed {cache()}")
