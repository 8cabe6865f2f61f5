"""What papers claim beside what is measured here: each reproduction is an experiment with thresholds that were fixed beforehand."""

from __future__ import annotations

from polyrhythm.errors import CompositionError, unknown
from polyrhythm.reproductions.catalogue import (
    actors,
    adasum,
    admm,
    ako,
    algorithms,
    allreduce,
    async_local_sgd,
    asysg,
    bigdl,
    bitvector,
    buckwild,
    byteps,
    choco,
    climate,
    collective_allreduce,
    d2l,
    decentralized,
    deepspark,
    demo,
    dgc,
    diloco,
    dl4j_averaging,
    dlion,
    dogwild,
    downpour,
    dynsgd,
    elephas,
    factors,
    fedavg,
    fedbuff,
    fifteen_pf,
    firecaffe,
    gaia,
    geeps,
    gibbs,
    gossipgrad,
    gradient_sharing,
    hogwild,
    horovod,
    key_value_store,
    large_minibatch,
    li_ps,
    low_rank,
    moshpit,
    noloco,
    one_bit,
    onebit_adam,
    parallel_sgd,
    petuum,
    pipe_sgd,
    post_local_sgd,
    qsgd,
    refreshed_low_rank,
    rudra,
    signsgd,
    slowmo,
    sparknet,
    sparta,
    streaming_diloco,
    strom,
    terngrad,
    yadan,
)
from polyrhythm.reproductions.protocol import Reproduction
from polyrhythm.systems import SYSTEMS

REPRODUCTIONS: dict[str, Reproduction] = {
    each.name: each
    for each in (
        actors.REPRODUCTION,
        adasum.REPRODUCTION,
        admm.REPRODUCTION,
        ako.REPRODUCTION,
        algorithms.REPRODUCTION,
        allreduce.REPRODUCTION,
        asysg.REPRODUCTION,
        async_local_sgd.REPRODUCTION,
        bigdl.REPRODUCTION,
        bitvector.REPRODUCTION,
        buckwild.REPRODUCTION,
        byteps.REPRODUCTION,
        choco.REPRODUCTION,
        climate.REPRODUCTION,
        collective_allreduce.REPRODUCTION,
        d2l.REPRODUCTION,
        decentralized.REPRODUCTION,
        deepspark.REPRODUCTION,
        demo.REPRODUCTION,
        dgc.REPRODUCTION,
        diloco.REPRODUCTION,
        dl4j_averaging.REPRODUCTION,
        dlion.REPRODUCTION,
        dogwild.REPRODUCTION,
        downpour.REPRODUCTION,
        dynsgd.REPRODUCTION,
        elephas.REPRODUCTION,
        factors.REPRODUCTION,
        fedavg.REPRODUCTION,
        fedbuff.REPRODUCTION,
        fifteen_pf.REPRODUCTION,
        firecaffe.REPRODUCTION,
        gaia.REPRODUCTION,
        geeps.REPRODUCTION,
        gibbs.REPRODUCTION,
        gossipgrad.REPRODUCTION,
        gradient_sharing.REPRODUCTION,
        hogwild.REPRODUCTION,
        horovod.REPRODUCTION,
        key_value_store.REPRODUCTION,
        large_minibatch.REPRODUCTION,
        li_ps.REPRODUCTION,
        low_rank.REPRODUCTION,
        moshpit.REPRODUCTION,
        noloco.REPRODUCTION,
        one_bit.REPRODUCTION,
        onebit_adam.REPRODUCTION,
        parallel_sgd.REPRODUCTION,
        petuum.REPRODUCTION,
        pipe_sgd.REPRODUCTION,
        post_local_sgd.REPRODUCTION,
        qsgd.REPRODUCTION,
        refreshed_low_rank.REPRODUCTION,
        rudra.REPRODUCTION,
        signsgd.REPRODUCTION,
        slowmo.REPRODUCTION,
        sparknet.REPRODUCTION,
        sparta.REPRODUCTION,
        streaming_diloco.REPRODUCTION,
        strom.REPRODUCTION,
        terngrad.REPRODUCTION,
        yadan.REPRODUCTION,
    )
}


def find(name: str) -> Reproduction:
    """The reproduction `name`, or that of the system `name`. Raises UnknownNameError with the nearest name.

    Raises CompositionError for a system that has none.
    """
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    for each in REPRODUCTIONS.values():
        if name in each.systems:
            return each
    if name in SYSTEMS:
        raise CompositionError(f"{name} has no experiment of its own: `polyrhythm reproduce` lists those there are, with their systems.")
    raise unknown("reproduction", name, sorted({*REPRODUCTIONS, *(system for each in REPRODUCTIONS.values() for system in each.systems)}))
