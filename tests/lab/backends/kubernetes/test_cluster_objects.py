"""The objects of a lab in a cluster: names, owners, and an end of their own."""

from __future__ import annotations

import kubernetes_validate
import pytest
from cluster_stand_in import VERSION

from impi.lab.backends.kubernetes.cluster_objects import Objects, key_of

LABELS = {"lab": "A lab", "created": "100", "expires": "700"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "b"}


@pytest.mark.parametrize(
    ("lab", "key"), [("20261126T07-AB12-c0", "20261126t07-ab12-c0"), ("_x y_", "x-y")]
)
def test_a_name_is_one_that_objects_may_have(lab: str, key: str) -> None:
    assert key_of(lab) == key


def test_a_long_name_keeps_its_end_which_differs() -> None:
    assert key_of("a" * 60 + "-end") == "a" * 40 + "-end"


def test_all_objects_are_what_the_schemas_ask() -> None:
    objects = Objects("A lab", LABELS, "Never")
    for each in (
        objects.job("c0", "image"),
        objects.service("c0", OWNER),
        objects.secret({"host_key": "x"}, OWNER),
    ):
        kubernetes_validate.validate(each, VERSION, strict=True)
        assert each["metadata"]["annotations"]["org.impilab.lab"] == "A lab"


def test_a_job_ends_with_the_lifetime_and_all_else_belongs_to_one() -> None:
    objects = Objects("A lab", LABELS, "Never")
    assert objects.job("c0", "image")["spec"]["activeDeadlineSeconds"] == 600
    for each in (objects.service("c0", OWNER), objects.secret({}, OWNER)):
        assert each["metadata"]["ownerReferences"] == [OWNER]


def test_a_pod_has_no_rights_and_only_the_keys_that_it_needs() -> None:
    pod = Objects("a", LABELS, "Never").job("c0", "image")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    files = [
        mount["subPath"]
        for mount in container["volumeMounts"]
        if mount["name"] == "keys"
    ]
    assert files == ["authorized_keys", "host_key"]
