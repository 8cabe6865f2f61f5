"""An extension of Griffe: the signature of a `msgspec.Struct`, whose fields are its parameters as those of a dataclass are."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Extension, Function, Parameter, ParameterKind, Parameters


class StructSignatures(Extension):
    """Gives every class that derives from `msgspec.Struct` itself an `__init__` made of its annotated attributes."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Called when Griffe has read a class and its members."""
        if not any(str(base).endswith("Struct") for base in cls.bases) or "__init__" in cls.members:
            return
        fields = [member for member in cls.members.values() if isinstance(member, Attribute) and _is_field(member)]
        parameters = [
            Parameter(each.name, annotation=each.annotation, kind=ParameterKind.positional_or_keyword, default=each.value)
            for each in fields
        ]
        itself = Parameter("self", kind=ParameterKind.positional_or_keyword)
        cls.set_member("__init__", Function("__init__", parameters=Parameters(itself, *parameters), parent=cls))


def _is_field(attribute: Attribute) -> bool:
    return attribute.annotation is not None and "ClassVar" not in str(attribute.annotation) and "property" not in attribute.labels
