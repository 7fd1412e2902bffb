"""What is built, of which version; a change here makes the products anew."""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES = "v1.34.4"  # the last line whose kubelet runs on cgroup v1 with no extra setting
PAUSE = "3.10.1"  # what kubeadm of that Kubernetes names, as are the versions of etcd and CoreDNS
ETCD = "v3.6.5"
COREDNS = "v1.12.1"
KIND = "v0.33.0"
HELM = "v3.22.0"
DEBIAN = "bookworm"  # its containerd (1.6) serves Kubernetes up to 1.35, its Python is 3.11

STOCK_NODE_IMAGE = "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"
"""The image of the same Kubernetes line that kind's release notes list for ``KIND``."""

GO = (1, 26)
"""The oldest Go that compiles all of it; helm asks for the newest."""


@dataclass(frozen=True)
class Program:
    """One program that Go compiles from a module of the Go proxy."""

    name: str
    module: str
    version: str
    package: str
    linker_flags: str = ""

    @property
    def stamp(self) -> str:
        """What the finished program is known by."""
        return f"{self.module} {self.version} {self.package} {self.linker_flags}".strip()


def _kubernetes(name: str) -> Program:
    variables = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {
        "gitVersion": KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": KUBERNETES,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    flags = " ".join(f"-X {variables}.{name}={value}" for name, value in values.items())
    return Program(name, "k8s.io/kubernetes", KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", flags)


def _helm() -> Program:
    # Without a cluster helm checks a chart's kubeVersion against this.
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {
        "internal/version.version": HELM,
        **{f"pkg/{package}.k8sVersionMajor": major for package in ("chartutil", "lint/rules")},
        **{f"pkg/{package}.k8sVersionMinor": minor for package in ("chartutil", "lint/rules")},
    }
    flags = " ".join(f"-X helm.sh/helm/v3/{name}={value}" for name, value in values.items())
    return Program("helm", "helm.sh/helm/v3", HELM, "helm.sh/helm/v3/cmd/helm", flags)


TOOLS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", ETCD, "go.etcd.io/etcd/server/v3"),
    Program("kind", "sigs.k8s.io/kind", KIND, "sigs.k8s.io/kind"),
    _helm(),
    _kubernetes("kube-apiserver"),
    _kubernetes("kubectl"),
)
"""What the tests and a person use; no docker is needed for these."""

NODE_PROGRAMS = (
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubelet"),
    _kubernetes("kubeadm"),
    _kubernetes("kube-proxy"),
    Program("coredns", "github.com/coredns/coredns", COREDNS, "github.com/coredns/coredns"),
)
"""What the node image holds beside those."""
