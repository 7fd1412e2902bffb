"""``forewarn run mirror``: follows sessions and writes Events, until it is told to stop.

What the chart gives it: ``--lease NAMESPACE/NAME`` and ``--health-port``; RBAC: pods and namespaces get, list, watch;
events.k8s.io events create, patch, get, list; leases get, update on that one Lease, which the chart makes (or create
beside). Nothing else: it has no write on pods.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import uvloop

from forewarn import kube, logs, settings
from forewarn.arguments import Parser
from forewarn.contract import Keys
from forewarn.errors import UserError
from forewarn.mirror import once, preflight
from forewarn.mirror.notices import Rules
from forewarn.mirror.run import run
from forewarn.mirror.watch import Scope

if TYPE_CHECKING:
    from argparse import Namespace


def main(argv: list[str]) -> int:
    """Run the mirror; returns 0 after SIGTERM. A user's mistake is a ``UserError``."""
    parser = Parser("forewarn run mirror", "Turns the warnings on sessions into Kubernetes Events.")
    which = parser.add_argument_group("which sessions")
    which.add_argument(
        "-A", "--all-namespaces", action="store_true", help="every session namespace, by its label (the default)"
    )
    which.add_argument(
        "-n", "--namespace", action="append", default=[], metavar="NS", help="this namespace, labelled or not (repeat)"
    )
    parser.add_argument("--once", action="store_true", help="print what would be told now, and write nothing")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: as kubectl)")
    settings.add_flags(parser, settings.MIRROR)
    arguments = parser.parse_args(argv)
    values = settings.resolve(settings.MIRROR, vars(arguments), os.environ)
    scope = _scope(arguments, values)
    rules = Rules(
        Keys(values["annotation_prefix"]),
        timedelta(seconds=values["stale_after"]),
        timedelta(seconds=values["restate_every"]),
    )
    config = kube.connect(arguments.kubeconfig)
    preflight.check(config, scope, values["lease"], writes=not arguments.once)
    if arguments.once:
        return once.run(config, scope, rules, sys.stdout)
    logs.configure(values["log_format"])
    preflight.quiet_kopf()
    # What is loaded by now stays, and what a warning leaves behind holds no cycles worth a look every few of them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    return uvloop.run(run(config, scope, rules, values))


def _scope(arguments: Namespace, values: dict[str, Any]) -> Scope:
    if arguments.all_namespaces and arguments.namespace:
        raise UserError("forewarn run mirror", "-A and -n exclude each other", "give one of them")
    for name in arguments.namespace:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name, re.ASCII):
            raise UserError("forewarn run mirror", f"-n {name!r} is no name of a namespace", "give one that is")
    label = "=".join(values["sessions_label"])
    selector = ",".join(f"{key}={value}" for key, value in values["pod_selector"].items())
    return Scope(tuple(dict.fromkeys(arguments.namespace)), label, selector)
