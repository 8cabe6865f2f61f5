"""Classify handwritten digits with a small convolutional network."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
        self.hidden = nn.Linear(512, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        x = self.dropout(F.relu(self.hidden(x.flatten(1))))
        return F.log_softmax(self.out(x), dim=1)


def datasets():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    everything = TensorDataset(images, torch.tensor(digits.target))
    return random_split(everything, [1437, 360], torch.Generator().manual_seed(0))


def evaluate(model, loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            output = model(x)
            loss += F.nll_loss(output, y, reduction="sum").item()
            correct += (output.argmax(dim=1) == y).sum().item()
    model.train()
    return loss / len(loader.dataset), correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--log-interval", type=int, default=30)
    args = parser.parse_args()

    training, test = datasets()
    train_loader = DataLoader(training, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test, batch_size=120)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)

    for epoch in range(args.epochs):
        for number, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if number % args.log_interval == 0:
                print(f"epoch {epoch}, batch {number} of {len(train_loader)}: loss {loss.item():.4f}")
        scheduler.step()
        loss, accuracy = evaluate(model, test_loader)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
