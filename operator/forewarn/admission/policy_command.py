"""``forewarn policy``: prints the MutatingAdmissionPolicy, for clusters that run admission without a server."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import yaml

from forewarn import settings
from forewarn.admission.check_command import missing_client
from forewarn.admission.inject import InjectSettings
from forewarn.admission.policy import API_GROUP, UNDECIDED, policy
from forewarn.arguments import Parser
from forewarn.errors import UserError

if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("v1", "v1beta1")
KIND = "MutatingAdmissionPolicy"


def main(argv: list[str]) -> int:
    """Print the policy and its binding."""
    parser = Parser(
        "forewarn policy",
        "Prints a MutatingAdmissionPolicy and its binding: what the webhook does, in CEL, with no server.",
        "Needs Kubernetes 1.36 (v1), or 1.34 with the feature gate and v1beta1 turned on. It leaves as it is:\n"
        + "".join(f"- {case}\n" for case in UNDECIDED)
        + "It can emit no warnings: forewarn check tells them.",
    )
    parser.add_argument("--name", default="forewarn", help="the policy's name (default forewarn)")
    parser.add_argument(
        "--api-version",
        choices=(*VERSIONS, "auto"),
        default="auto",
        help="auto (the default) asks the cluster which it has",
    )
    parser.add_argument("--namespace", default="forewarn", help="our own namespace, left out (default forewarn)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster that auto asks")
    parser.add_argument("--format", choices=("yaml", "json"), default="yaml", help="default yaml")
    settings.add_flags(parser, settings.POLICY)
    arguments = parser.parse_args(argv)
    values = settings.resolve(settings.POLICY, vars(arguments), os.environ)
    version = _ask(arguments.kubeconfig) if arguments.api_version == "auto" else arguments.api_version
    inject = InjectSettings(values["annotation_prefix"], values["whole_map"], values["pod_selector"])
    documents = policy(
        inject, values["sessions_label"], name=arguments.name, namespace=arguments.namespace, version=version
    )
    if arguments.format == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": documents}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
    else:
        print(_yaml(documents), end="")
    return 0


def _yaml(documents: list[dict[str, Any]]) -> str:
    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=1_000_000, explicit_start=True)


def _ask(kubeconfig: str | None) -> str:
    """Return the newest version of the policy API that the cluster serves. Raises ``UserError``."""
    try:
        from lightkube.core.exceptions import ApiError
        from lightkube.generic_resource import create_global_resource

        from forewarn import kube
    except ModuleNotFoundError as error:
        raise missing_client(error) from None
    hint = f"or name it: --api-version {' or '.join(VERSIONS)}"
    try:
        client = kube.client(kube.connect(kubeconfig))
    except UserError as error:
        raise UserError(error.where, error.what, hint) from None
    for version in VERSIONS:
        resource = create_global_resource(API_GROUP, version, KIND, "mutatingadmissionpolicies")
        with kube.explained(f"list {KIND} objects ({hint})"):
            try:
                next(iter(client.list(resource)), None)
            except ApiError as error:
                if error.status.code == 404:
                    continue
                raise
            return version
    raise UserError("the cluster", f"it serves no {KIND}", "Kubernetes 1.36, or 1.34 with the feature turned on")
