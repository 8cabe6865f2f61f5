"""The published systems, each a composition of pieces with its citation.

`find` makes one by name, for `polyrhythm run`, the planner and users.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, get_args, get_type_hints

import msgspec

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.systems.adaptive import ako, dlion, hong_chandra
from polyrhythm.systems.asynchronous import deepspark, downpour, easgd, geeps, hogwild, softsync, ssp, strom
from polyrhythm.systems.averaging import admm_sgd, dl4j_averaging, local_sgd, post_local_sgd, qsparse_local_sgd, slowmo
from polyrhythm.systems.collective import adasum, collective_allreduce, d2l, firecaffe, parallel_sgd, yadan
from polyrhythm.systems.compressed import demo, dgc, onebit_adam, powersgd_plus, qsgd, signsgd, terngrad
from polyrhythm.systems.decentralized import choco_sgd, d_squared, decentralized, exact_diffusion, gradient_tracking, moshpit, noloco
from polyrhythm.systems.elephas import elephas, elephas_asynchronous, elephas_hogwild
from polyrhythm.systems.federated import fedadam, fedavg, fedbuff, fedprox
from polyrhythm.systems.gossip import adpsgd, gossipgrad, gossiping_sgd, keuper_asgd, sgp
from polyrhythm.systems.hierarchical import fifteen_pf, gaia, hierarchical, hybrid_groups, yu
from polyrhythm.systems.hybrid import parallax, poseidon
from polyrhythm.systems.key_ranges import li_ps
from polyrhythm.systems.key_value_stores import mxnet, mxnet_async, mxnet_worker_update
from polyrhythm.systems.large_batches import climate, large_minibatch
from polyrhythm.systems.local import async_local_sgd, diloco, sparknet
from polyrhythm.systems.lock_free import buckwild, dogwild
from polyrhythm.systems.negotiated import bitvector, horovod
from polyrhythm.systems.paper_names import also_called, canonical, paper_names_of
from polyrhythm.systems.parameter_servers import asysg_con, asysg_incon, consgd, dynsgd, paine, zhang_asgd
from polyrhythm.systems.partial import sparta
from polyrhythm.systems.pipelined import pipe_sgd
from polyrhythm.systems.rudra import rudra, rudra_adv, rudra_adv_star
from polyrhythm.systems.servers import bigdl, byteps_async, project_adam
from polyrhythm.systems.streaming import streaming_diloco
from polyrhythm.systems.synchronous import allreduce, byteps, direct, onebit, powersgd, single, tree
from polyrhythm.systems.thresholded import actors, actors_decentralised, actors_softsync, dl4j_sharing

SYSTEMS: dict[str, Callable[..., Strategy]] = {
    preset.__name__.replace("_", "-"): preset
    for preset in (
        *(single, allreduce, direct, tree, downpour, ssp, softsync, sparknet, easgd, onebit, strom, gossipgrad, diloco),
        *(hierarchical, hybrid_groups, gaia, powersgd, poseidon, parallax, hogwild, byteps),
        *(large_minibatch, climate, byteps_async, project_adam, bigdl),
        *(zhang_asgd, paine, consgd, dynsgd, asysg_con, asysg_incon, rudra, rudra_adv, rudra_adv_star),
        *(mxnet, mxnet_worker_update, mxnet_async, dl4j_sharing, actors, actors_softsync, actors_decentralised),
        *(d2l, parallel_sgd, firecaffe, yadan, collective_allreduce, adasum, horovod, bitvector),
        *(post_local_sgd, slowmo, dl4j_averaging, admm_sgd, elephas, elephas_asynchronous, elephas_hogwild, streaming_diloco),
        *(qsgd, terngrad, signsgd, dgc, onebit_adam, powersgd_plus, demo, sparta, pipe_sgd),
        *(ako, hong_chandra, dlion),
        *(fifteen_pf, yu),
        *(adpsgd, sgp, gossiping_sgd, keuper_asgd, deepspark),
        *(buckwild, dogwild),
        *(decentralized, d_squared, exact_diffusion, gradient_tracking),
        *(fedavg, fedprox, fedadam),
        *(fedbuff, async_local_sgd),
        geeps,
        *(choco_sgd, noloco),
        moshpit,
        li_ps,
        *(local_sgd, qsparse_local_sgd),
    )
}


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
            near = difflib.get_close_matches(option, accepted, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Leave it out."
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
    kinds = get_args(kind) or (kind,)
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
