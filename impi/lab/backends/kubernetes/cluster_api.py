"""The API of an existing cluster, by its official client: connection, and errors in one form."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from impi.base.errors import LabError

try:
    from kubernetes import client as api
    from kubernetes import config
    from urllib3.exceptions import HTTPError
except ModuleNotFoundError as missing:
    raise LabError(
        "the kubernetes backend needs the package kubernetes: pip install 'impilab[kubernetes]'"
    ) from missing

Object: TypeAlias = dict[str, Any]
"""An object of the API, in the form of its manifest."""
Told: TypeAlias = Any
"""An object in the form that the client returns; the client has no useful types for it."""
_ANSWER_S: Final = 10.0
_FORBIDDEN: Final = 403
_MISSING: Final = 404
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

# Failures become exceptions, so the log of the API's client need not tell them as well.
logging.getLogger("urllib3").addHandler(logging.NullHandler())


class KubernetesCluster:
    """One namespace of the cluster that kubectl would use; inside a cluster, of that one.

    Args:
        namespace: empty: that of the context.

    Raises:
        LabError: no cluster is named.
    """

    def __init__(self, namespace: str = "") -> None:
        made, own = _client()
        self.namespace = namespace or own
        self.batch = api.BatchV1Api(made)
        self.core = api.CoreV1Api(made)
        self.rights = api.AuthorizationV1Api(made)
        self.version = api.VersionApi(made)

    def ask(
        self,
        what: str,
        method: Callable[..., Told],
        *args: object,
        gone: bool = False,
        **options: object,
    ) -> Told:
        """Call a method of the client, and return its answer.

        Args:
            what: the beginning of a sentence, should it fail.
            gone: whether an object may be missing; the answer is None then.

        Raises:
            LabError: the cluster refuses, or does not answer.
        """
        try:
            return method(*args, **options, _request_timeout=_ANSWER_S)
        except api.ApiException as error:
            if gone and error.status == _MISSING:
                return None

            cure = (
                "; clusters/kubernetes/role.yaml has the rights it takes"
                if error.status == _FORBIDDEN
                else ""
            )
            raise LabError(f"{what}: the cluster says: {_said(error)}{cure}") from error
        except ValueError as error:
            # An error of pydantic means that client and cluster have different versions
            raise LabError(
                f"{what}: the client of the API does not accept it: {' '.join(str(error).split())}"
            ) from error
        except (HTTPError, OSError) as error:
            # The reason, without the list of the client's attempts.
            last = (
                str(getattr(error, "reason", None) or error).rpartition(": ")[2]
                or type(error).__name__
            )
            raise LabError(
                f"{what}: the cluster's API does not answer: {last}"
            ) from error


def _client() -> tuple[Told, str]:
    named = os.environ.get("KUBECONFIG", "")

    files = [
        str(Path(part).expanduser().absolute())
        for part in (named or "~/.kube/config").split(os.pathsep)
        if part
    ]
    if named:
        # the reaper runs in another folder, so relative paths of a configuration would miss
        os.environ["KUBECONFIG"] = os.pathsep.join(files)

    chosen = api.Configuration()

    chosen.retries = 1
    try:
        if any(Path(file).exists() for file in files):
            path = os.pathsep.join(files)
            _, context = config.list_kube_config_contexts(path)
            config.load_kube_config(path, client_configuration=chosen)

            return api.ApiClient(chosen), context["context"].get(
                "namespace"
            ) or "default"

        config.load_incluster_config(client_configuration=chosen)
        return api.ApiClient(chosen), _OWN_NAMESPACE.read_text("utf-8").strip()
    except (config.ConfigException, OSError) as error:
        raise LabError(
            f"no Kubernetes cluster is named ({error}): let 'kubectl get pods' work, or set KUBECONFIG"
        ) from error


def _said(error: Told) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
