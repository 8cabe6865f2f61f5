"""An ONNX model without what no runtime reads: names of inner tensors, sources and stack traces of the machine that made it.

Of a small quantised model these are a third of the file, and the stack traces name folders of whoever exported it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compact(model: Any, inputs: Mapping[str, Mapping[int, str]]) -> Any:
    """`model`, changed in place: inner tensors numbered, notes removed, and the varying dimensions of `inputs` named as given."""
    graph = model.graph
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        short: dict[str, str] = {}  # names reach into the graphs of loops and branches, so they stay
    else:
        short = _short(graph)
    for node in graph.node:
        node.name = node.doc_string = ""
        node.input[:] = [short.get(name, name) for name in node.input]
        node.output[:] = [short.get(name, name) for name in node.output]
    for each in graph.initializer:
        each.name = short.get(each.name, each.name)
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.doc_string = ""
        del part.metadata_props[:]
    for owner in (graph, model, *model.functions):
        owner.doc_string = ""
        del owner.metadata_props[:]
    del graph.value_info[:]
    graph.name = "model"
    _rename_dimensions(graph, inputs)
    return model


def _short(graph: Any) -> dict[str, str]:
    """A short name for every tensor that is neither an input nor an output."""
    kept = {each.name for each in (*graph.input, *graph.output)} | {""}
    found: dict[str, str] = {}
    written = [each.name for each in graph.initializer] + [name for node in graph.node for name in node.output]
    for name in written:
        if name not in kept and name not in found:
            short = f"{len(found):x}"
            while short in kept:
                short += "_"
            found[name] = short
    return found


def _rename_dimensions(graph: Any, inputs: Mapping[str, Mapping[int, str]]) -> None:
    """Name the varying dimensions, in the outputs too."""
    names: dict[str, str] = {}
    for each in graph.input:
        dimensions = each.type.tensor_type.shape.dim
        for place, name in inputs.get(each.name, {}).items():
            names[dimensions[place].dim_param] = name
    for each in (*graph.input, *graph.output):
        for dimension in each.type.tensor_type.shape.dim:
            if dimension.dim_param in names:
                dimension.dim_param = names[dimension.dim_param]
