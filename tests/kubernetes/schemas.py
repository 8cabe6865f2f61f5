"""The published schemas of Kubernetes 1.37, strict: unknown fields are errors."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jsonschema.validators import Draft202012Validator
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

VERSION = "1.37"


@cache
def _validator(kind: str, api_version: str) -> Any:
    folder = "kubernetes-json-schema/v1.37.0-local-strict"
    name = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{folder}/{kind.lower()}-{name}.json", VERSION)
    definitions = Resource.from_contents(schema_contents(f"{folder}/_definitions.json", VERSION))
    return Draft202012Validator(schema, registry=definitions @ (Resource.from_contents(schema) @ Registry()))


def problem(item: dict[str, Any]) -> str:
    """What is wrong with an object by its schema; empty if nothing is."""
    error = next(iter(_validator(item["kind"], item["apiVersion"]).iter_errors(item)), None)
    return "" if error is None else f"{'.'.join(str(part) for part in error.path)}: {error.message[:300]}"
