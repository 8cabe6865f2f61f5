"""DistributedDataParallel with a communication hook that keeps the largest eighth of each gradient."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def largest(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The sum of what is large at each rank."""
    value = bucket.buffer()
    value[value.abs() < value.abs().quantile(7 / 8)] = 0
    value /= dist.get_world_size()
    return dist.all_reduce(value, async_op=True).get_future().then(lambda done: done.value()[0])


def main() -> None:
    dist.init_process_group("gloo")
    x = torch.randn(96, 16, generator=torch.Generator().manual_seed(5))
    data = TensorDataset(x, x[:, :4].argmax(1))
    sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank())
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)))
    model.register_comm_hook(None, largest)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
