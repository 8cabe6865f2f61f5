"""Different exchanges for different layers."""

from __future__ import annotations

from polyrhythm.codec import SufficientFactors, TouchedRows
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.parameters import CheaperAsFactors, Modules, Optionally
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, ChangedRows, Ring, Server


@system(
    Family.SERVERS,
    "4 P (P − 1) K (m + n) bytes for each linear layer of m outputs, n inputs and K samples that goes as factors; 2 P times the bytes"
    " of the rest",
)
def poseidon(batch: int = 32, servers: int = 1) -> Strategy:
    """Each layer in the cheaper of two ways: factors to all workers, or gradients to servers (Poseidon; Zhang et al., USENIX ATC 2017).

    The gradient of a linear layer is the product of two matrices of K rows, for K samples (places, in sequences). Where these are smaller
    all workers send them to each other, and each multiplies out: by the rule of algorithm 1, for a `batch` of K and as many `servers`. All
    other parameters go to the servers, in lockstep. Every worker runs the same optimizer on the mean of the first, the servers run
    it for the rest. The paper begins each layer's exchange during backward(); here it follows.
    """
    factors = Exchange(topology=AllReduce(Ring()), codec=SufficientFactors())
    return Strategy(name="poseidon", selected=[(Optionally(CheaperAsFactors(batch, servers)), factors)], topology=Server(servers))


@system(
    Family.SERVERS,
    "each worker's rows with a gradient to the servers, and P times the rows that any of them changed back; 2 (P − 1) times the bytes"
    " of the rest",
)
def parallax(servers: int = 1) -> Strategy:
    """Rows of embeddings through servers, everything else through an all-reduce (Parallax; Kim et al., EuroSys 2019, arXiv:1808.02621).

    A batch touches a few rows of an embedding: a worker pushes the gradient of these (which may be sparse, `nn.Embedding(sparse=True)`),
    and gets the rows that changed. What is dense goes over a ring. Both in lockstep. Where the optimizer moves rows that have no
    gradient, as Adam and momentum do, all rows come back. The paper also partitions embeddings by measurement: here `servers` says how.
    """
    rows = Exchange(topology=Server(servers, responses=ChangedRows()), codec=TouchedRows())
    return Strategy(name="parallax", selected=[(Optionally(Modules("Embedding", "EmbeddingBag")), rows)], topology=AllReduce(Ring()))
