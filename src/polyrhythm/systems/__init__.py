"""The published systems, each a composition of pieces with its citation.

`find` makes one by name, for `polyrhythm run`, the planner and users.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, get_type_hints

import msgspec

from polyrhythm.core.job_files.values import kinds_of
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, did_you_mean, nearest, unknown
from polyrhythm.systems.declaration import also_called, canonical, declared, paper_names_of
from polyrhythm.systems.synchronous import single as single
from polyrhythm.systems.synchronous import allreduce as allreduce
from polyrhythm.systems.synchronous import direct as direct
from polyrhythm.systems.synchronous import tree as tree
from polyrhythm.systems.asynchronous import downpour as downpour
from polyrhythm.systems.asynchronous import ssp as ssp
from polyrhythm.systems.asynchronous import softsync as softsync
from polyrhythm.systems.local import sparknet as sparknet
from polyrhythm.systems.asynchronous import easgd as easgd
from polyrhythm.systems.synchronous import onebit as onebit
from polyrhythm.systems.asynchronous import strom as strom
from polyrhythm.systems.gossip import gossipgrad as gossipgrad
from polyrhythm.systems.local import diloco as diloco
from polyrhythm.systems.hierarchical import hierarchical as hierarchical
from polyrhythm.systems.hierarchical import hybrid_groups as hybrid_groups
from polyrhythm.systems.hierarchical import gaia as gaia
from polyrhythm.systems.synchronous import powersgd as powersgd
from polyrhythm.systems.hybrid import poseidon as poseidon
from polyrhythm.systems.hybrid import parallax as parallax
from polyrhythm.systems.asynchronous import hogwild as hogwild
from polyrhythm.systems.synchronous import byteps as byteps
from polyrhythm.systems.large_batches import large_minibatch as large_minibatch
from polyrhythm.systems.large_batches import climate as climate
from polyrhythm.systems.servers import byteps_async as byteps_async
from polyrhythm.systems.servers import project_adam as project_adam
from polyrhythm.systems.servers import bigdl as bigdl
from polyrhythm.systems.whole_batch import sandblaster as sandblaster
from polyrhythm.systems.parameter_servers import zhang_asgd as zhang_asgd
from polyrhythm.systems.parameter_servers import paine as paine
from polyrhythm.systems.parameter_servers import consgd as consgd
from polyrhythm.systems.parameter_servers import dynsgd as dynsgd
from polyrhythm.systems.parameter_servers import asysg_con as asysg_con
from polyrhythm.systems.parameter_servers import asysg_incon as asysg_incon
from polyrhythm.systems.rudra import rudra as rudra
from polyrhythm.systems.rudra import rudra_adv as rudra_adv
from polyrhythm.systems.rudra import rudra_adv_star as rudra_adv_star
from polyrhythm.systems.key_value_stores import mxnet as mxnet
from polyrhythm.systems.key_value_stores import mxnet_worker_update as mxnet_worker_update
from polyrhythm.systems.key_value_stores import mxnet_async as mxnet_async
from polyrhythm.systems.thresholded import dl4j_sharing as dl4j_sharing
from polyrhythm.systems.thresholded import actors as actors
from polyrhythm.systems.thresholded import actors_softsync as actors_softsync
from polyrhythm.systems.thresholded import actors_decentralised as actors_decentralised
from polyrhythm.systems.collective import d2l as d2l
from polyrhythm.systems.collective import parallel_sgd as parallel_sgd
from polyrhythm.systems.collective import firecaffe as firecaffe
from polyrhythm.systems.collective import yadan as yadan
from polyrhythm.systems.collective import collective_allreduce as collective_allreduce
from polyrhythm.systems.collective import adasum as adasum
from polyrhythm.systems.negotiated import horovod as horovod
from polyrhythm.systems.negotiated import bitvector as bitvector
from polyrhythm.systems.averaging import post_local_sgd as post_local_sgd
from polyrhythm.systems.averaging import slowmo as slowmo
from polyrhythm.systems.averaging import dl4j_averaging as dl4j_averaging
from polyrhythm.systems.averaging import admm_sgd as admm_sgd
from polyrhythm.systems.elephas import elephas as elephas
from polyrhythm.systems.elephas import elephas_asynchronous as elephas_asynchronous
from polyrhythm.systems.elephas import elephas_hogwild as elephas_hogwild
from polyrhythm.systems.streaming import streaming_diloco as streaming_diloco
from polyrhythm.systems.compressed import qsgd as qsgd
from polyrhythm.systems.compressed import terngrad as terngrad
from polyrhythm.systems.compressed import signsgd as signsgd
from polyrhythm.systems.compressed import dgc as dgc
from polyrhythm.systems.compressed import onebit_adam as onebit_adam
from polyrhythm.systems.compressed import powersgd_plus as powersgd_plus
from polyrhythm.systems.compressed import demo as demo
from polyrhythm.systems.partial import sparta as sparta
from polyrhythm.systems.pipelined import pipe_sgd as pipe_sgd
from polyrhythm.systems.adaptive import ako as ako
from polyrhythm.systems.adaptive import hong_chandra as hong_chandra
from polyrhythm.systems.adaptive import dlion as dlion
from polyrhythm.systems.hierarchical import fifteen_pf as fifteen_pf
from polyrhythm.systems.hierarchical import yu as yu
from polyrhythm.systems.hierarchical import hierarchical_local_sgd as hierarchical_local_sgd
from polyrhythm.systems.gossip import adpsgd as adpsgd
from polyrhythm.systems.gossip import sgp as sgp
from polyrhythm.systems.gossip import gossiping_sgd as gossiping_sgd
from polyrhythm.systems.gossip import keuper_asgd as keuper_asgd
from polyrhythm.systems.asynchronous import deepspark as deepspark
from polyrhythm.systems.lock_free import buckwild as buckwild
from polyrhythm.systems.lock_free import dogwild as dogwild
from polyrhythm.systems.decentralized import decentralized as decentralized
from polyrhythm.systems.decentralized import d_squared as d_squared
from polyrhythm.systems.decentralized import exact_diffusion as exact_diffusion
from polyrhythm.systems.decentralized import gradient_tracking as gradient_tracking
from polyrhythm.systems.federated import fedavg as fedavg
from polyrhythm.systems.federated import fedprox as fedprox
from polyrhythm.systems.federated import fedadam as fedadam
from polyrhythm.systems.federated import fedbuff as fedbuff
from polyrhythm.systems.streaming import diloco_x as diloco_x
from polyrhythm.systems.local import async_local_sgd as async_local_sgd
from polyrhythm.systems.asynchronous import geeps as geeps
from polyrhythm.systems.decentralized import choco_sgd as choco_sgd
from polyrhythm.systems.decentralized import noloco as noloco
from polyrhythm.systems.decentralized import moshpit as moshpit
from polyrhythm.systems.key_ranges import li_ps as li_ps
from polyrhythm.systems.averaging import local_sgd as local_sgd
from polyrhythm.systems.averaging import qsparse_local_sgd as qsparse_local_sgd

SYSTEMS: dict[str, Callable[..., Strategy]] = declared(globals())
"""Every published system by its name, in the order of the imports: pages and searches keep it."""


def find(name: str, **options: Any) -> Strategy:
    """The strategy of the system `name`, with its paper's settings where `options` do not say otherwise.

    Options have one name over all systems; a paper's own name of one is accepted too.
    """
    if name not in SYSTEMS:
        raise unknown("system", name, SYSTEMS)
    named = paper_names_of(SYSTEMS[name])
    accepted = [*inspect.signature(SYSTEMS[name]).parameters, *named]
    for option in options:
        if option not in accepted:
            hint = did_you_mean(nearest(option, accepted)) or "Leave it out."
            raise CompositionError(f"{name} has no option {option!r}; its options are: {_listed(name) or 'none'}. {hint}")
    options = canonical(name, options, named)
    kinds = get_type_hints(SYSTEMS[name]) if options else {}
    options = {option: _checked(name, option, value, kinds[option]) for option, value in options.items()}
    try:
        return SYSTEMS[name](**options)
    except TypeError as error:
        given = ", ".join(f"{option}={value!r}" for option, value in options.items())
        raise CompositionError(f"{name}({given}) cannot be: an option has a value of the wrong type ({error}).") from None


def _listed(name: str) -> str:
    """The options of a system, each with its other names: "period (also tau), servers"."""
    others = {option: ", ".join(also_called(SYSTEMS[name], option)) for option in inspect.signature(SYSTEMS[name]).parameters}
    return ", ".join(f"{option} (also {other})" if other else option for option, other in others.items())


_PLAIN = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", type(None): "None"}


def _checked(name: str, option: str, value: Any, kind: Any) -> Any:
    """`value` if it has the annotated type `kind`; types other than the plain ones are checked by the pieces."""
    kinds = kinds_of(kind)
    if not set(kinds) <= _PLAIN.keys():
        return value
    if not isinstance(value, bool):  # numbers of numpy are numbers
        value = int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        wanted = " or ".join(_PLAIN[each] for each in kinds)
        raise CompositionError(f"{name}({option}={value!r}) cannot be: {option} is {wanted}.") from None


def resolve(strategy: str | Strategy) -> Strategy:
    """The strategy itself, or the system of that name. Raises CompositionError for anything else."""
    if isinstance(strategy, Strategy):
        return strategy
    if isinstance(strategy, str):
        return find(strategy)
    raise CompositionError(
        f"strategy={strategy!r} is neither a system's name nor a Strategy: give a name such as 'allreduce', or compose pieces, as in "
        "pr.Strategy(consistency=pr.consistency.LocalSteps(8))."
    )


__all__ = ["SYSTEMS", "find", "resolve", *(preset.__name__ for preset in SYSTEMS.values())]
