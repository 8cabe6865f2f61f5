"""Polyrhythm: train one PyTorch model with many workers that do not keep the same time, for real or in virtual time."""

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, Identity, Striped, TopK
from polyrhythm.consistency import Bounded, Free, LocalSteps, Lockstep, SoftSync
from polyrhythm.errors import PolyrhythmError
from polyrhythm.merge import Adagrad, Elastic, Mean, Nesterov, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.shuffle import GlobalShuffle, RingShuffle
from polyrhythm.strategy import Strategy
from polyrhythm.topology import AllReduce, AllToAll, Alone, Dissemination, FixedGraph, Gossip, RandomPairs, Ring, RingGraph, Server, Tree
