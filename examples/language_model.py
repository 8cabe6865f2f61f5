"""Predict the next character of Python's own help texts with an LSTM whose embedding is its output layer too."""

import argparse
import math
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Streams(Dataset):
    """A text cut into parallel streams: the elements are the first windows of all streams, then the second ones, and so on."""

    def __init__(self, text, streams, length):
        self.text = text
        self.streams = streams
        self.length = length
        self.windows = (len(text) // streams - 1) // length

    def __len__(self):
        return self.streams * self.windows

    def __getitem__(self, index):
        window, stream = divmod(index, self.streams)
        begin = stream * (len(self.text) // self.streams) + window * self.length
        return self.text[begin : begin + self.length], self.text[begin + 1 : begin + self.length + 1]


class Model(nn.Module):
    def __init__(self, characters, width):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, characters)
        self.out.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, x, state):
        hidden, state = self.lstm(self.embedding(x), state)
        return self.out(hidden), state


def bits(model, x, y, state):
    """Bits per character, and the state after the last one."""
    logits, state = model(x, state)
    return F.cross_entropy(logits.flatten(0, 1), y.flatten()) / math.log(2), tuple(part.detach() for part in state)


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2.0)
    parser.add_argument("--clip", type=float, default=0.5)
    args = parser.parse_args()

    text = torch.tensor(list("".join(topics.values()).encode("ascii", "ignore")))
    training, test = text[:40000], text[40000:44000]
    loader = worker.batches(DataLoader(Streams(training, args.batch_size * worker.workers, args.length), batch_size=args.batch_size))
    model = Model(128, args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    model, optimizer = worker.attach(model, optimizer)

    for epoch in range(args.epochs):
        state = None
        for x, y in loader:
            optimizer.zero_grad()
            loss, state = bits(model, x, y, state)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
        with torch.no_grad():
            held_out, _ = bits(model, test[None, :-1], test[None, 1:], None)
        worker.report(epoch=epoch, training_bits=loss, test_bits=held_out)


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/language_model.py")
