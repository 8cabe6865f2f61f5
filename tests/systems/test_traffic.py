"""Bytes and messages of the synchronous systems, written out from the description of each.

The formulas are the papers': they count messages here, and do not ask the algorithms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
import torch
from torch import Tensor
from toy import Toy, network, trained

from polyrhythm import systems
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.remote_optimizer import describe
from polyrhythm.topology import Bucketed, Server, Summation
from polyrhythm.topology.servers.server_records import Done, JoinRequest, Push, ShardRecipe, ShardStatus, Wanted, to_numbers

NUMEL = sum(parameter.numel() for parameter in network().parameters())
WORKERS = (1, 2, 3, 4, 5)
Traffic = Counter[str]


def message(topic: str, *tensors: Tensor, numbers: int = 0, text: str = "", times: int = 1) -> Traffic:
    """`times` messages of one kind."""
    return Counter(bytes=times * wire_bytes(Message(topic, (0.0,) * numbers, text, tensors)), messages=times)


def total(parts: Iterable[Traffic]) -> Traffic:
    return sum(parts, Counter())


def flat(numel: int = NUMEL) -> Tensor:
    return torch.zeros(numel)


def steps(workers: int, epochs: int = 2, batch_size: int = 8) -> int:
    return epochs * -(-(96 // workers) // batch_size)


def initial(workers: int) -> Traffic:
    """A tree brings worker 0's weights to all."""
    return message("init", flat(), times=workers - 1)


def ring(workers: int, topic: int) -> Traffic:
    """Every chunk travels 2 (P - 1) times."""
    chunks = [NUMEL // workers + (k < NUMEL % workers) for k in range(workers)]
    return total(message(f"{topic}.{hop}", flat(chunk)) for hop in range(2 * (workers - 1)) for chunk in chunks)


def direct(workers: int, topic: int, numel: int = NUMEL) -> Traffic:
    """Every chunk travels from everyone else to its owner, and its sum from there to everyone else."""
    chunks = [numel // workers + (k < numel % workers) for k in range(workers)]
    pairs = [(sender, to) for sender in range(workers) for to in range(workers) if sender != to]
    return total(message(f"{topic}.s.{a}", flat(chunks[b])) + message(f"{topic}.g.{a}", flat(chunks[a])) for a, b in pairs)


def tree(workers: int, topic: str, numel: int = NUMEL) -> Traffic:
    """One sum up and one down for everybody but the root."""
    up = total(message(f"{topic}.{rank}", flat(numel)) for rank in range(1, workers))
    return up + message(f"{topic}.down", flat(numel), times=workers - 1)


def check(strategy: str | Strategy, workers: int, expected: Traffic, toy: Toy | None = None) -> None:
    summary = trained(toy or Toy(), workers, strategy).summary
    assert (summary.bytes_sent, summary.messages_sent) == (expected["bytes"], expected["messages"])


each_size = pytest.mark.parametrize("workers", WORKERS)


@each_size
def test_allreduce_sends_a_ring_a_step(workers: int) -> None:
    rounds = total(ring(workers, step) for step in range(1, steps(workers) + 1))
    check("allreduce", workers, initial(workers) + rounds)


@each_size
def test_direct_sends_a_part_to_everyone_and_a_sum_back_a_step(workers: int) -> None:
    rounds = total(direct(workers, step) for step in range(1, steps(workers) + 1))
    check("direct", workers, initial(workers) + rounds)


@each_size
def test_tree_sends_a_sum_up_and_one_down_a_step(workers: int) -> None:
    rounds = total(tree(workers, str(step)) for step in range(1, steps(workers) + 1))
    check("tree", workers, initial(workers) + rounds)


@each_size
def test_d2l_sends_all_to_worker_0_and_the_sum_back(workers: int) -> None:
    """2 (P - 1) n a step over one line."""
    up = [message(f"{step}.{rank}", flat()) for step in range(1, steps(workers) + 1) for rank in range(1, workers)]
    down = [message(f"{step}.down", flat(), times=workers - 1) for step in range(1, steps(workers) + 1)]
    check("d2l", workers, initial(workers) + total(up) + total(down))


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_no_worker_of_parallel_sgd_sends_more_than_a_logarithm_of_messages(workers: int) -> None:
    """Sent up and down by one worker: at most ⌈log2 P⌉ + 1 a step, and as many for the weights at the beginning."""
    on = Simulator(network=Instant(), record_sends=True)
    sent = Counter(event.actor for event in trained(Toy(epochs=1), workers, "parallel-sgd", on).outcome.events if isinstance(event, Sent))
    most = (workers - 1).bit_length()
    assert max(sent.values()) <= (most + 1) * (steps(workers, 1) + 1)
    assert sum(sent.values()) == 2 * (workers - 1) * steps(workers, 1) + workers - 1


@each_size
@pytest.mark.parametrize("tau", [1, 4, 5])
def test_diloco_sends_a_ring_every_tau_steps_and_at_the_end(workers: int, tau: int) -> None:
    rounds = total(ring(workers, step) for step in range(1, -(-steps(workers) // tau) + 1))
    check(systems.find("diloco", period=tau), workers, initial(workers) + rounds)


@each_size
def test_local_sgd_sends_what_diloco_does(workers: int) -> None:
    rounds = total(ring(workers, step) for step in range(1, -(-steps(workers) // 5) + 1))
    check(systems.find("local-sgd", period=5), workers, initial(workers) + rounds)


@each_size
def test_post_local_sgd_sends_a_ring_a_step_and_then_every_tau_steps(workers: int) -> None:
    local = -(-max(0, steps(workers) - 5) // 4)
    rounds = total(ring(workers, step) for step in range(1, min(5, steps(workers)) + local + 1))
    check(systems.find("post-local-sgd", synchronous=5, period=4), workers, initial(workers) + rounds)


@each_size
def test_slowmo_sends_what_diloco_does(workers: int) -> None:
    rounds = total(ring(workers, step) for step in range(1, -(-steps(workers) // 5) + 1))
    check(systems.find("slowmo", period=5), workers, initial(workers) + rounds)


@each_size
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_dl4j_sends_sums_up_and_down_a_tree_and_as_many_of_the_updater(workers: int, momentum: float) -> None:
    """The updater's come after those of the weights: a number for each of four tensors, and then what there is to be averaged."""
    toy = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=momentum))
    sums = [NUMEL, 4, NUMEL] if momentum else [NUMEL, 4]
    sizes = sums * -(-steps(workers) // 5)
    rounds = total(tree(workers, str(number), numel) for number, numel in enumerate(sizes, 1))
    check("dl4j-averaging", workers, initial(workers) + rounds, toy)


@each_size
def test_admm_sends_what_workers_did_to_the_driver_and_back(workers: int) -> None:
    rounds = total(tree(workers, str(number)) for number in range(1, -(-steps(workers) // 10) + 1))
    check("admm-sgd", workers, initial(workers) + rounds)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_streaming_diloco_sends_stripes_of_four_bits_of_each_fragment_in_turn(workers: int) -> None:
    """Two fragments of a matrix and its vector, the second at an offset of two steps; what is left at the end is sent too."""
    traffic: Traffic = Counter()
    for scope, module, offset in (("", network()[2], 2), ("0.1.0/", network()[0], 0)):
        layout = Layout.of(module.named_parameters())
        stripes = [four_bits(part) for part in layout.split(workers)]
        due = [step for step in range(1, steps(workers) + 1) if step % 4 == offset or step == steps(workers)]
        traffic += message(f"{scope}init", flat(layout.numel), times=workers - 1)
        for turn in range(len(due) if workers > 1 else 0):
            for sender in range(workers):
                for receiver in set(range(workers)) - {sender}:
                    traffic += message(f"{scope}{2 * turn + 1}.{sender}", *stripes[receiver])
                    traffic += message(f"{scope}{2 * turn + 2}.{sender}", *stripes[sender])
    check(systems.find("streaming-diloco", period=4, parts=2), workers, traffic)


def four_bits(part: Layout) -> tuple[Tensor, Tensor]:
    """Two elements a byte, and a scale for each tensor that has elements."""
    return torch.zeros(-(-part.numel // 2), dtype=torch.uint8), flat(sum(view.numel() > 0 for view in part.views(flat(part.numel))))


@each_size
def test_buckets_send_a_ring_each(workers: int) -> None:
    """The last matrix with its bias, the first bias, the first matrix; all but the first carry the number of their bucket."""
    sizes = {"": 36 + 3, "1/": 12, "2/": 120}
    rounds = total(
        message(f"{name}{step}.{hop}", flat(numel // workers + (k < numel % workers)))
        for step in range(1, steps(workers) + 1)
        for name, numel in sizes.items()
        for hop in range(2 * (workers - 1))
        for k in range(workers)
    )
    check(Strategy(topology=Bucketed(nbytes=32)), workers, initial(workers) + rounds)


def shared(workers: int, spares: int, topic: str, numel: int) -> Traffic:
    """Every part travels from each worker to whom it belongs, and its sum back; (n - k) and 2 (n - 1) to the whole as the paper has it."""
    whole = workers * workers + spares * workers - 2 * spares
    parts = [numel * (workers - spares) // whole] * workers + [numel * 2 * (workers - 1) // whole] * spares
    first = 0 if workers > spares else workers
    for k in range(numel - sum(parts)):
        parts[first + k] += 1
    traffic: Traffic = Counter()
    for owner, part in enumerate(map(flat, parts)):
        if part.numel() and owner < workers:
            traffic += total(message(f"{topic}.s.{rank}", part) for rank in range(workers) if rank != owner)
            traffic += message(f"{topic}.g.{owner}", part, times=workers - 1)
        elif part.numel():
            traffic += message("sum", part, numbers=5, text=topic, times=workers) + message(f"{topic}.g.{owner}", part, times=workers)
    return traffic


SPARES = [(2, 0), (2, 1), (2, 2), (3, 0), (3, 2), (3, 3), (5, 0), (5, 2), (5, 5)]


@pytest.mark.parametrize(("workers", "spares"), SPARES)
def test_a_summation_service_sends_each_its_share_and_brings_the_sums(workers: int, spares: int) -> None:
    pieces = {"": 86, ".1": 85}
    rounds = total(shared(workers, spares, f"{step}{p}", numel) for step in range(1, steps(workers) + 1) for p, numel in pieces.items())
    check(Strategy(topology=Summation(spares, nbytes=400)), workers, initial(workers) + rounds + message("sum", times=workers * spares))


@pytest.mark.parametrize(("workers", "spares"), SPARES)
def test_byteps_sends_each_tensor_so(workers: int, spares: int) -> None:
    sizes = {"": 120, "1/": 12, "2/": 36, "3/": 3}
    rounds = total(
        shared(workers, spares, f"{name}{step}", numel) for step in range(1, steps(workers) + 1) for name, numel in sizes.items()
    )
    check(systems.find("byteps", spares=spares), workers, initial(workers) + rounds + message("sum", times=workers * spares))


@each_size
def test_without_spares_a_summation_service_sends_what_a_direct_all_reduce_does(workers: int) -> None:
    rounds = total(direct(workers, step) for step in range(1, steps(workers) + 1))
    check(Strategy(topology=Summation()), workers, initial(workers) + rounds)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_with_as_many_spares_as_workers_it_sends_what_servers_in_lockstep_do(workers: int) -> None:
    """But for the weights at the beginning and the end, and for headers: as many messages in each step, and values of as many bytes."""

    def a_step(topology: Summation | Server) -> tuple[int, int]:
        long, short = (trained(Toy(epochs=n), workers, Strategy(topology=topology)).summary for n in (3, 2))
        rounds = steps(workers, 3) - steps(workers, 2)
        return (long.messages_sent - short.messages_sent) // rounds, (long.bytes_sent - short.bytes_sent) // rounds

    (messages, nbytes), (served_messages, served_bytes) = a_step(Summation(workers)), a_step(Server(workers))
    assert messages == served_messages == 2 * workers * workers
    assert abs(nbytes - served_bytes) < 24 * messages
    assert 2 * workers * 4 * NUMEL < nbytes < 2 * workers * 4 * NUMEL + 100 * messages


@each_size
def test_single_sends_nothing(workers: int) -> None:
    check("single", workers, Counter())


def served(workers: int, shards: int, rounds: int, optimizer: str) -> Traffic:
    """Joining, `rounds` requests with a response each, and parting, with every shard."""
    parts = Layout.of(network().named_parameters()).split(shards)
    traffic: Traffic = Counter()
    for shard, part in enumerate(parts):
        recipe = msgspec.json.encode(ShardRecipe(part.names, part.shapes, optimizer)).decode()
        value = flat(part.numel)
        traffic += message("ask", value, numbers=len(to_numbers(JoinRequest())), text=recipe)
        traffic += message("ask", numbers=len(to_numbers(JoinRequest())), times=workers - 1)
        traffic += message("ask", value, numbers=len(to_numbers(Push(1, 0, Wanted.NEWER, (0.1,)))), times=workers * rounds)
        traffic += message("ask", numbers=len(to_numbers(Done())), times=workers)
        traffic += message(f"w{shard}", value, numbers=len(ShardStatus(0, 0.0).to_numbers()), times=workers * (rounds + 2))
    return traffic


def recipe() -> str:
    model = network()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return describe(torch.optim.SGD(model.parameters(), lr=0.1), names)


@each_size
@pytest.mark.parametrize("tau", [1, 5])
def test_sparknet_exchanges_with_its_driver_every_tau_steps_and_at_the_end(workers: int, tau: int) -> None:
    check(systems.find("sparknet", period=tau), workers, served(workers, 1, -(-steps(workers) // tau), ""))


@each_size
@pytest.mark.parametrize("shards", [1, 3])
def test_a_server_in_lockstep_responds_to_every_gradient_with_the_weights(workers: int, shards: int) -> None:
    check(Strategy(topology=Server(shards)), workers, served(workers, shards, steps(workers), recipe()))


@each_size
def test_local_steps_at_a_server_send_as_much_as_gradients(workers: int) -> None:
    check(Strategy(consistency=LocalSteps(1), topology=Server(2)), workers, served(workers, 2, steps(workers), ""))


@each_size
def test_gossipgrad_sends_one_replica_and_one_batch_a_step_and_the_mean_at_the_end(workers: int) -> None:
    if workers == 1:
        return check("gossipgrad", 1, Counter())
    lengths = [8] * (96 // workers // 8) + [tail for tail in [96 // workers % 8] if tail]
    batches = [(torch.zeros(length, 10), torch.zeros(length, dtype=torch.int64)) for length in lengths] * 2
    rounds = total(message(str(t), flat(), times=workers) + message(f"data/{t}", *batch, times=workers) for t, batch in enumerate(batches))
    return check("gossipgrad", workers, initial(workers) + rounds + tree(workers, "mean"))


@each_size
@pytest.mark.parametrize("warmup", [1, 3])
def test_onebit_scatters_stripes_and_gathers_their_sums(workers: int, warmup: int) -> None:
    plain = total(ring(workers, step) for step in range(1, warmup + 1))
    stripes = [packet(part) for part in Layout.of(network().named_parameters()).split(workers)]
    after: Traffic = Counter()
    for turn in range(steps(workers) - warmup):
        out, back = warmup + 2 * turn + 1, warmup + 2 * turn + 2
        for sender in range(workers):
            for receiver in set(range(workers)) - {sender}:
                after += message(f"{out}.{sender}", *stripes[receiver]) + message(f"{back}.{sender}", *stripes[sender])
    check(systems.find("onebit", warmup=warmup), workers, initial(workers) + plain + after)


@each_size
def test_qsparse_local_sgd_sends_the_bits_of_matrices_to_all_and_sums_of_vectors_every_tau_steps(workers: int) -> None:
    tensors = [packet(Layout.of([each])) for each in network().named_parameters()]
    words = [word for _, bits, means, vector in tensors if not vector.numel() for word in (bits, means)]
    vectors = sum(vector.numel() for *_, vector in tensors)
    rounds: Traffic = Counter()
    for turn in range(-(-steps(workers) // 5)):
        rounds += total(message(f"{2 * turn + 2}.{sender}", *words, times=workers - 1) for sender in range(workers))
        rounds += direct(workers, 2 * turn + 1, vectors)
    check(systems.find("qsparse-local-sgd", period=5), workers, initial(workers) + rounds)


def part_ring(numel: int, workers: int, topic: int) -> Traffic:
    """As `ring`, of a part of the vector."""
    chunks = [numel // workers + (k < numel % workers) for k in range(workers)]
    return total(message(f"{topic}.{hop}", flat(chunk)) for hop in range(2 * (workers - 1)) for chunk in chunks)


@each_size
def test_sparta_sends_a_ring_of_what_was_drawn_and_no_index_and_the_mean_at_the_end(workers: int) -> None:
    rounds = total(part_ring(18, workers, step) for step in range(1, steps(workers) + 1))  # ⌈0.1 · 171⌉
    check(systems.find("sparta", ratio=0.1), workers, initial(workers) + rounds + tree(workers, "mean") if workers > 1 else Counter())


@each_size
def test_signsgd_sends_a_bit_an_element_both_ways(workers: int) -> None:
    parts = [
        (torch.zeros(-(-(part.numel + len(part.names)) // 8), dtype=torch.uint8), flat(0))
        for part in Layout.of(network().named_parameters()).split(workers)
    ]
    rounds: Traffic = Counter()
    for turn in range(steps(workers)):
        for sender in range(workers):
            for receiver in set(range(workers)) - {sender}:
                rounds += message(f"{2 * turn + 1}.{sender}", *parts[receiver]) + message(f"{2 * turn + 2}.{sender}", *parts[sender])
    check("signsgd", workers, initial(workers) + rounds)


def packet(stripe: Layout) -> tuple[Tensor, ...]:
    """A stripe's words: their lengths; one bit an element and two means a row of every matrix, as one tensor each; vectors as they are."""
    matrices = [shape for shape in stripe.shapes if len(shape) > 1]
    vectors = [shape for shape in stripe.shapes if len(shape) == 1]
    bits = sum(-(-rows * width // 8) for rows, width in matrices)
    lengths = torch.zeros(2 * len(matrices) + len(vectors), dtype=torch.int64)
    means = flat(2 * sum(rows for rows, _ in matrices))
    return lengths, torch.zeros(bits, dtype=torch.uint8), means, flat(sum(shape[0] for shape in vectors))
