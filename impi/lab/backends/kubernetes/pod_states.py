"""Reasons why a pod does not start, and the ends of pods that ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from impi.lab.backends.kubernetes.cluster_api import Told

_NO_IMAGE: Final = {
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ImageInspectError",
}
_IMAGE: Final = {*_NO_IMAGE, "ErrImagePull"}
# States of a container that do not pass. A first failure to pull an image may pass.
_HOPELESS: Final = {
    *_NO_IMAGE,
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}
_ENDED: Final = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The reason for a pod that does not run."""

    reason: str
    message: str
    hopeless: bool  # whether it stays until somebody acts

    def __str__(self) -> str:
        return f"{': '.join(part for part in (self.reason, self.message) if part)}; {self._cure()}"

    def _cure(self) -> str:
        if self.reason in _IMAGE:
            return "bring the image to each worker, or push it and set IMPILAB_REGISTRY (docs/guides/kubernetes.md)"

        if self.reason == "Unschedulable":
            return "make room, or let a worker take pods again: 'kubectl get nodes'"

        if self.reason == "FailedCreate":
            return "raise the quota or wait for room in it: 'kubectl describe quota'"

        return "'kubectl describe pod' may show more"


def runs(pod: Told) -> bool:
    """Whether a pod runs and has an address."""
    return (
        pod is not None
        and pod.status.phase == "Running"
        and bool(pod.status.pod_ip and pod.status.host_ip)
    )


def trouble(pod: Told) -> Trouble | None:
    """Return why a pod does not run; None: it may still come."""
    status = pod.status
    if status.phase in _ENDED or pod.metadata.deletion_timestamp:
        return Trouble(reason="", message=ending(pod), hopeless=True)

    return _of_containers(status) or _of_scheduling(status)


def _of_containers(status: Told) -> Trouble | None:
    for container in status.container_statuses or ():
        waiting = container.state.waiting if container.state else None
        if waiting and waiting.reason in _HOPELESS | _IMAGE:
            message = waiting.message or f"image {container.image}"
            return Trouble(
                reason=waiting.reason,
                message=message,
                hopeless=waiting.reason in _HOPELESS,
            )

    return None


def _of_scheduling(status: Told) -> Trouble | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Trouble(
                reason=condition.reason or "",
                message=condition.message or "",
                hopeless=False,
            )

    return None


def ending(pod: Told) -> str:
    """Return what ended a pod, as the end of a sentence."""

    if pod is None:
        return "it is gone: deleted or evicted, or its worker was drained"

    status = pod.status
    said = [
        (each.reason, each.message)
        for each in status.conditions or ()
        if each.type == "DisruptionTarget"
    ]

    said += [(status.reason, status.message)]
    for container in status.container_statuses or ():
        if container.state and (ended := container.state.terminated):
            said.append((ended.reason, ended.message or f"exit code {ended.exit_code}"))

    for reason, message in said:
        if reason:
            return f"{reason}: {message}" if message else str(reason)

    return (
        "it is being deleted"
        if pod.metadata.deletion_timestamp
        else f"it is {status.phase}"
    )
