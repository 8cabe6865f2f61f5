"""Classify handwritten digits in a plain loop of PyTorch's."""

import argparse

import sklearn.datasets
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import polyrhythm.process_group  # noqa: F401


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    training = TensorDataset(x[:1408], y[:1408])
    torch.distributed.init_process_group("polyrhythm")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(training, args.batch_size, sampler=DistributedSampler(training, shuffle=False))

    for _ in range(args.epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    with torch.no_grad():
        scores, expected = model(x[1408:]), y[1408:]
    print("accuracy:", (scores.argmax(dim=1) == expected).float().mean().item(), "loss:", F.cross_entropy(scores, expected).item())


if __name__ == "__main__":
    main()
