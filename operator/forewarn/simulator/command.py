"""``forewarn simulate``: plays the reservation controller against a cluster, from a scenario."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forewarn_manifests.command
from forewarn import kube, settings
from forewarn.arguments import Parser
from forewarn.contract import Keys
from forewarn.errors import UserError
from forewarn.mirror import catalogue
from forewarn.simulator import report, scenario
from forewarn.simulator.runner import Runner
from forewarn_manifests import flags

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lightkube.config.kubeconfig import SingleConfig

    from forewarn.simulator import model
    from forewarn.simulator.runner import Played

IMAGE_VARIABLE = "FOREWARN_IMAGE"


def parser() -> Parser:
    """Return the command's parser."""
    result = Parser(
        "forewarn simulate",
        "Plays the reservation controller against the cluster of the current kubeconfig: writes, changes and\n"
        "withdraws warnings, leaves them stale, preempts; checks what came of it, and prints the timeline.",
        "exit code: 0 all expectations met, 1 one failed, 2 the scenario, the cluster or the rights stood in the way",
    )
    result.add_argument("scenario", metavar="SCENARIO.yaml", help="the scenario file")
    result.add_argument("-n", "--namespace", help="namespace of the pods (default: the kubeconfig's)")
    result.add_argument(kube.FLAG, metavar="FILE", help="kubeconfig (default: KUBECONFIG, ~/.kube/config)")
    result.add_argument("--context", help="the kubeconfig's context to use")
    result.add_argument("--image", help=f"image of containers that name none ({IMAGE_VARIABLE})")
    result.add_argument("--keep", action="store_true", help="leave the pods that the scenario creates")
    result.add_argument("--failures", metavar="DIR", type=Path, help="where to keep what a failed scenario shows")
    result.add_argument("--json", action="store_true", help="print JSON in place of the table")
    result.add_argument("--check", action="store_true", help="only check the scenario; no cluster is needed")
    settings.add_flags(result, settings.SIMULATE)
    return result


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    keys = Keys(settings.resolve(settings.SIMULATE, vars(arguments), os.environ)["annotation_prefix"])
    around = surroundings(keys, arguments.image or os.environ.get(IMAGE_VARIABLE) or None)
    read = scenario.read(Path(arguments.scenario), around)
    if arguments.check:
        steps = sum(not step.prelude for step in read.steps)
        counts = f"{report.counted(len(read.pods), 'pod')}, {report.counted(steps, 'step')}"
        print(f"{arguments.scenario}: {counts}, nothing wrong")
        return 0
    if arguments.failures:
        takes_files(arguments.failures)
    config = kube.connect(arguments.kubeconfig, arguments.context)
    environ = dict(os.environ)
    if arguments.kubeconfig:
        environ[kube.VARIABLE] = str(Path(arguments.kubeconfig).expanduser().absolute())
    with report.Screen(sys.stdout, sys.stderr, keys) as screen:
        try:
            played = asyncio.run(_play(read, config, arguments, environ, screen))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
        if arguments.json:
            print(report.as_json(played, keys))
        else:
            screen.end(played)
    if arguments.failures and played.kept:
        keep(arguments.failures, played.kept)
    return 0 if played.passed else 1


def surroundings(keys: Keys, image: str | None) -> scenario.Surroundings:
    """Return what a scenario is read with: our own renderer and Event reasons."""
    return scenario.Surroundings(render, keys, image, tuple(reason.name for reason in catalogue.Reason))


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError("--failures", f"{folder} takes no files: {error.strerror}", "allowed: a folder") from None


def takes_files(folder: Path) -> None:
    """Make a folder, if need be, and prove that it takes a file; ``UserError`` where it does not."""
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def keep(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder and say so on stderr; ``UserError`` where it takes none."""
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    print(f"kept for a closer look: {folder}", file=sys.stderr)


async def _play(
    read: model.Scenario,
    config: SingleConfig,
    arguments: argparse.Namespace,
    environ: dict[str, str],
    screen: report.Screen,
) -> Played:
    task = asyncio.current_task()
    if task is not None:
        # As for Ctrl-C: what was created is removed before the end.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    namespace = arguments.namespace or config.namespace
    async with kube.async_client(config) as client:
        runner = Runner(
            read,
            client,
            namespace,
            keys=screen.keys,
            keep=arguments.keep,
            tell=(lambda _played, _happening: None) if arguments.json else screen.tell,
            environ=environ,
        )
        try:
            return await runner.play()
        except BaseException:
            for what in runner.played.left:
                print(f"left behind: {what}", file=sys.stderr)
            raise


def render(words: list[str]) -> dict[str, Any]:
    """Return the pod manifest of launch flags, as ``forewarn render`` makes it; raises ``UserError``."""
    manifest = forewarn_manifests.command.render(words, os.environ)
    if manifest["kind"] != "Pod":
        of_a_job = dict.fromkeys(one.where for one in flags.parse(words).given if one.flag.long in flags.OF_A_JOB)
        raise UserError("forewarn render", "makes a Job of these flags, not a pod", f"leave out {', '.join(of_a_job)}")
    return manifest
