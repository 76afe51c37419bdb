"""A stand-in of a cluster's API: what impilab and its manifests ask of one, over real HTTP.

Objects are held against Kubernetes' published schemas and its rules for names and labels; Jobs make
pods; what an object owns goes with it. Pods run by :mod:`cluster_workers`, or are said to run. It
is not a Kubernetes: nobody schedules, and a container is all that there is of a worker.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

Object: TypeAlias = dict[str, Any]
VERSION: Final = "1.37"
TOKEN: Final = "a-token-of-the-tests"
NAMESPACE: Final = "lab"
_KINDS: Final = {
    "jobs": "Job",
    "pods": "Pod",
    "services": "Service",
    "secrets": "Secret",
    "events": "Event",
}
_PATH: Final = re.compile(
    r"^/(?:api/v1|apis/batch/v1)/namespaces/([^/]+)/(\w+)(?:/([^/]+)(?:/(log))?)?$"
)
_NAME: Final = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_KEY: Final = re.compile(
    r"^([-a-z0-9.]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_VALUE: Final = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


class Workers(Protocol):
    """Runs pods."""

    def has(self, image: str) -> bool: ...
    def run(
        self, pod: Object, secrets: Mapping[str, Object], services: list[Object]
    ) -> tuple[str, str]:
        """Start it; return its address, and that of its worker."""
        ...

    def wait(self, pod: str) -> int:
        """Return the exit code, once it has ended."""
        ...

    def end(self, pod: str, *, force: bool = False) -> bool:
        """End it; whether its worker answers, or need not."""
        ...

    def log(self, pod: str) -> bytes: ...


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class StandIn:
    """A cluster of two workers.

    Args:
        workers: None: pods are said to run.

    Its clock stands still but for :meth:`advance`.
    """

    def __init__(self, workers: Workers | None = None) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.forbidden: set[tuple[str, str]] = set()
        """(verb, kind) for which there is no right."""
        self.quota = ""
        """The reason for which no pod may be made."""
        self.unschedulable = ""
        """The reason for which no worker takes a pod."""
        self.states: dict[str, tuple[str, str]] = {}
        """By image: reason and message of a container that waits for ever."""
        self.silent = False
        """Whether the API does not answer."""
        self.asked: list[str] = []
        self._workers = workers
        self._changed = threading.Condition(threading.RLock())
        self._now_s = 0.0
        self._timers: list[tuple[float, Callable[[], object]]] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                stand_in._answer(self)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread(self.server.serve_forever, 0.05)

    def config(self, folder: Path, namespace: str = NAMESPACE) -> Path:
        """Write a file for KUBECONFIG."""
        path = folder / "kubeconfig"
        context = {"cluster": "c", "user": "u", "namespace": namespace}
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }
        path.write_text(json.dumps(value))
        return path

    def close(self) -> None:
        """The API is gone, and all pods with it."""
        self.server.shutdown()
        self.server.server_close()
        with self._changed:
            self._closed = True
            for kind, name in list(self.objects):
                if kind == "pods":
                    self._end(name, force=True)
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(30)

    def of(self, kind: str) -> list[Object]:
        with self._changed:
            return [
                each for (of_kind, _), each in self.objects.items() if of_kind == kind
            ]

    def left(self) -> list[str]:
        """Names of all that is there."""
        with self._changed:
            return sorted(
                f"{kind} {name}" for kind, name in self.objects if kind != "events"
            )

    def advance(self, seconds: float) -> None:
        """Let deadlines of Jobs come."""
        with self._changed:
            self._now_s += seconds
            due = [do for at, do in self._timers if at <= self._now_s]
            self._timers = [timer for timer in self._timers if timer[0] > self._now_s]
            for do in due:
                do()

    # -- what happens to pods

    def evict(self, pod: str) -> None:
        """A worker is short of memory: its kubelet ends a pod, which stays as failed."""
        with self._changed:
            status = self.objects["pods", pod]["status"]
            status.update(
                phase="Failed",
                reason="Evicted",
                message="The node was low on resource: memory.",
            )
            self._end(pod)

    def drain(self, pod: str) -> None:
        """Somebody drains the worker of a pod."""
        with self._changed:
            self._remove("pods", pod)

    # -- requests

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        # The connection of an earlier request may still be there
        if self._closed or self.silent:
            request.close_connection = True
            return
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        kind = "application/json"
        try:
            if request.headers.get("authorization") != f"Bearer {TOKEN}":
                raise Refused(401, "Unauthorized", "Unauthorized")
            with self._changed:
                self.asked.append(f"{request.command} {request.path}")
                code, found = self._do(
                    request.command,
                    urlsplit(request.path),
                    json.loads(body) if body else {},
                )
            octets = found if isinstance(found, bytes) else json.dumps(found).encode()
            kind = "text/plain" if isinstance(found, bytes) else kind
        except Refused as error:
            code = error.code
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "code": code,
            }
            octets = json.dumps(
                {**status, "reason": error.reason, "message": str(error)}
            ).encode()
        request.send_response(code)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(octets)))
        request.end_headers()
        request.wfile.write(octets)

    def _do(self, method: str, url: Any, body: Object) -> tuple[int, Object | bytes]:
        options = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/version/":
            names = (
                "buildDate",
                "compiler",
                "gitCommit",
                "gitTreeState",
                "goVersion",
                "platform",
            )
            major, minor = VERSION.split(".")
            told = {
                "major": major,
                "minor": minor,
                "gitVersion": f"v{VERSION}.0-stand-in",
            }
            return 200, {**dict.fromkeys(names, ""), **told}
        if url.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            _valid(body, "SelfSubjectAccessReview")
            wish = body["spec"]["resourceAttributes"]
            return 201, {
                **body,
                "status": {
                    "allowed": (wish["verb"], wish["resource"]) not in self.forbidden
                },
            }
        if not (match := _PATH.match(url.path)) or match[2] not in _KINDS:
            raise Refused(
                404, "NotFound", "the server could not find the requested resource"
            )
        namespace, kind, name, log = match.groups()
        verb = {"POST": "create", "DELETE": "delete", "GET": "get" if name else "list"}[
            method
        ]
        if (verb, kind) in self.forbidden:
            group = "batch" if kind == "jobs" else ""
            what = f'cannot {verb} resource "{kind}" in API group "{group}" in the namespace "{namespace}"'
            raise Refused(
                403, "Forbidden", f'{kind}.{group} is forbidden: User "tester" {what}'
            )
        if verb == "create":
            return 201, self._create(namespace, kind, body)
        if verb == "list":
            return 200, self._list(namespace, kind, options)
        found = self.objects.get((kind, name))
        if found is None or found["metadata"]["namespace"] != namespace:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        if log:
            return 200, self._workers.log(name) if self._workers else b""
        if verb == "delete":
            if kind == "jobs" and {**options, **body}.get("propagationPolicy") not in (
                "Background",
                "Foreground",
            ):
                raise Refused(
                    400,
                    "BadRequest",
                    "the stand-in leaves no orphans: name a propagationPolicy",
                )
            self._remove(
                kind,
                name,
                force={**options, **body}.get("gracePeriodSeconds") in ("0", 0),
            )
        return 200, found

    def _list(self, namespace: str, kind: str, options: Mapping[str, str]) -> Object:
        found = [
            each for each in self.of(kind) if each["metadata"]["namespace"] == namespace
        ]
        for term in filter(None, options.get("labelSelector", "").split(",")):
            label, equals, value = term.partition("=")
            labels = [each["metadata"].get("labels", {}) for each in found]
            pairs = zip(found, labels, strict=True)
            found = [
                each
                for each, mine in pairs
                if label in mine and (not equals or mine[label] == value)
            ]
        for term in filter(None, options.get("fieldSelector", "").split(",")):
            field, _, value = term.partition("=")
            found = [each for each in found if _field(each, field) == value]
        api = "batch/v1" if kind == "jobs" else "v1"
        return {
            "kind": f"{_KINDS[kind]}List",
            "apiVersion": api,
            "metadata": {},
            "items": found,
        }

    def _create(self, namespace: str, kind: str, body: Object) -> Object:
        _valid(body, _KINDS[kind])
        name = body["metadata"]["name"]
        if (kind, name) in self.objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        now = datetime.now(UTC).isoformat()
        more = {
            "uid": secrets.token_hex(16),
            "creationTimestamp": now,
            "namespace": namespace,
        }
        made = {**body, "metadata": {**body["metadata"], **more}}
        if kind == "secrets":
            text = made.pop("stringData", {})
            made["data"] = {
                key: base64.b64encode(value.encode()).decode()
                for key, value in text.items()
            }
        if kind == "services" and made["spec"].get("type") == "NodePort":
            ports = [
                {"protocol": "TCP", **port, "nodePort": _free_port()}
                for port in made["spec"]["ports"]
            ]
            made["spec"] = {**made["spec"], "ports": ports}
        self.objects[kind, name] = made
        if kind == "jobs":
            made["status"] = {}
            self._make_pod(made)
            if deadline := made["spec"].get("activeDeadlineSeconds"):
                self._after(deadline, lambda: self._job_over(name, "DeadlineExceeded"))
        self._changed.notify_all()
        return made

    # -- controllers

    def _make_pod(self, job: Object) -> None:
        name, template = job["metadata"]["name"], job["spec"]["template"]
        if self.quota:
            message = f"Error creating: pods {name!r} is forbidden: {self.quota}"
            about = {
                "kind": "Job",
                "name": name,
                "namespace": job["metadata"]["namespace"],
            }
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "involvedObject": about,
                "type": "Warning",
            }
            metadata = {"name": f"{name}.1", "namespace": about["namespace"]}
            told = {"reason": "FailedCreate", "message": message, "metadata": metadata}
            self.objects["events", metadata["name"]] = {**event, **told}
            return
        labels = {
            **template.get("metadata", {}).get("labels", {}),
            "batch.kubernetes.io/job-name": name,
        }
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": job["metadata"]["uid"],
        }
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{secrets.token_hex(3)[:5]}"},
        }
        pod["metadata"].update(labels=labels, ownerReferences=[owner])
        _valid({**pod, "spec": template["spec"]}, "Pod")
        pod["metadata"]["namespace"] = job["metadata"]["namespace"]
        self.objects["pods", pod["metadata"]["name"]] = {
            **pod,
            "spec": dict(template["spec"]),
            "status": {"phase": "Pending", "ofANewerVersion": True},
        }
        self._thread(self._run, pod["metadata"]["name"], name)

    def _run(self, name: str, job: str) -> None:
        """Act as scheduler and kubelet do with a pod."""
        with self._changed:
            pod = self.objects["pods", name]
            status, spec = pod["status"], pod["spec"]
            if self.unschedulable:
                why = {"reason": "Unschedulable", "message": self.unschedulable}
                status["conditions"] = [
                    {"type": "PodScheduled", "status": "False", **why}
                ]
                return
            spec["nodeName"] = (
                f"worker-{sum(1 for each in self.of('pods') if each['spec'].get('nodeName')) % 2 + 1}"
            )
            (container,) = spec["containers"]
            if reason := self._waits(container):
                self._state(pod, waiting=reason)
                return
            self._state(pod, waiting={"reason": "ContainerCreating"})
            # The kubelet tries again and again until secrets are there.
            while not (files := self._secrets(pod)) and not self._gone(name):
                self._changed.wait()
            if self._gone(name):
                return
            found = (
                self._workers.run(pod, files, self._services(pod))
                if self._workers
                else ("127.0.0.1",) * 2
            )
            status.update(phase="Running", podIP=found[0], hostIP=found[1])
            self._state(pod, running={"startedAt": datetime.now(UTC).isoformat()})
        if self._workers:
            code = self._workers.wait(name)
            with self._changed:
                if status["phase"] == "Running":
                    status["phase"] = "Failed" if code else "Succeeded"
                    self._state(
                        pod,
                        terminated={
                            "exitCode": code,
                            "reason": "Error" if code else "Completed",
                        },
                    )
                self._job_over(job, "BackoffLimitExceeded" if code else "")

    def _waits(self, container: Object) -> Object | None:
        """Return why a container cannot start."""
        image = container["image"]
        if image in self.states:
            reason, message = self.states[image]
            return {"reason": reason, "message": message}
        if self._workers is None or self._workers.has(image):
            return None
        if container.get("imagePullPolicy") == "Never":
            message = (
                f'Container image "{image}" is not present with pull policy of Never'
            )
            return {"reason": "ErrImageNeverPull", "message": message}
        return {
            "reason": "ImagePullBackOff",
            "message": f'Back-off pulling image "{image}"',
        }

    def _secrets(self, pod: Object) -> dict[str, Object]:
        """Return the secrets of a pod by name once all are there, and the empty name for none."""
        names = [
            each["secret"]["secretName"]
            for each in pod["spec"].get("volumes", ())
            if "secret" in each
        ]
        for variable in pod["spec"]["containers"][0].get("env", ()):
            names += (
                [variable["valueFrom"]["secretKeyRef"]["name"]]
                if "valueFrom" in variable
                else []
            )
        found = {
            name: self.objects["secrets", name]
            for name in names
            if ("secrets", name) in self.objects
        }
        return {**found, "": {}} if len(found) == len(set(names)) else {}

    def _services(self, pod: Object) -> list[Object]:
        labels = pod["metadata"]["labels"].items()
        chosen = [
            (each, each["spec"].get("selector", {})) for each in self.of("services")
        ]
        return [
            each for each, selector in chosen if selector and selector.items() <= labels
        ]

    def _state(self, pod: Object, **state: Object) -> None:
        (container,) = pod["spec"]["containers"]
        told = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
        }
        pod["status"]["containerStatuses"] = [
            {**told, "ready": "running" in state, "state": state}
        ]
        self._changed.notify_all()

    def _gone(self, pod: str) -> bool:
        return self._closed or ("pods", pod) not in self.objects

    def _job_over(self, name: str, why: str) -> None:
        """A Job has ended: its pods do, and later it is removed."""
        with self._changed:
            job = self.objects.get(("jobs", name))
            if self._closed or job is None or job["status"].get("conditions"):
                return
            condition = {
                "type": "Failed" if why else "Complete",
                "status": "True",
                "reason": why or "CompletionsReached",
            }
            job["status"]["conditions"] = [condition]
            for pod in self._owned(job["metadata"]["uid"]):
                if (
                    pod[0] == "pods"
                    and self.objects[pod]["status"]["phase"] == "Running"
                ):
                    self._remove(*pod)
            stays = job["spec"].get("ttlSecondsAfterFinished")
            if stays is not None:
                self._after(stays, lambda: self._remove("jobs", name))

    def _owned(self, uid: str) -> list[tuple[str, str]]:
        mine = lambda each: [  # noqa: E731
            owner["uid"] for owner in each["metadata"].get("ownerReferences", ())
        ]
        return [key for key, each in self.objects.items() if uid in mine(each)]

    def _remove(self, kind: str, name: str, *, force: bool = False) -> None:
        """Remove an object and what it owns; a pod of a lost worker stays until it is forced."""
        with self._changed:
            if (kind, name) not in self.objects:
                return
            if kind == "pods" and not self._end(name, force=force):
                now = datetime.now(UTC).isoformat()
                self.objects[kind, name]["metadata"]["deletionTimestamp"] = now
                return
            removed = self.objects.pop((kind, name))
            for owned in self._owned(removed["metadata"].get("uid", "")):
                self._remove(*owned)
            self._changed.notify_all()

    def _end(self, pod: str, *, force: bool = False) -> bool:
        return self._workers is None or self._workers.end(pod, force=force)

    def _after(self, seconds: float, do: Callable[[], object]) -> None:
        self._timers.append((self._now_s + seconds, do))

    def _thread(self, do: Callable[..., object], *args: object) -> None:
        thread = threading.Thread(target=do, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)


def _valid(body: Object, kind: str) -> None:
    """Refuse what Kubernetes would refuse: by its schemas, and by its rules for names."""
    try:
        if body.get("kind") != kind:
            raise ValueError(f"kind is {body.get('kind')}, not {kind}")
        kubernetes_validate.validate(body, VERSION, strict=True)
        metadata = body.get("metadata", {})
        labels = [metadata.get("labels", {})]
        if kind == "Job":
            labels.append(
                body["spec"]["template"].get("metadata", {}).get("labels", {})
            )
        wrong = [
            key
            for each in (*labels, metadata.get("annotations", {}))
            for key in each
            if not _KEY.match(key)
        ]
        wrong += [
            value
            for each in labels
            for value in each.values()
            if not _VALUE.match(value)
        ]
        wrong += (
            [metadata["name"]]
            if "name" in metadata and not _NAME.match(metadata["name"])
            else []
        )
        if wrong:
            raise ValueError(f"Invalid value: {wrong[0]!r}")
    except (kubernetes_validate.ValidationError, ValueError) as error:
        said = getattr(error, "message", str(error))
        raise Refused(422, "Invalid", f"{kind} is invalid: {said}") from error


def _field(value: Object, path: str) -> object:
    for part in path.split("."):
        value = value.get(part, {})
    return value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def stand_in(workers: Workers | None = None) -> Iterator[StandIn]:
    made = StandIn(workers)
    try:
        yield made
    finally:
        made.close()
