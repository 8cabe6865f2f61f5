"""Classify handwritten digits in a loop of one's own with Hugging Face's Accelerate."""

import argparse

import sklearn.datasets
import torch
import torch.nn.functional as F

from polyrhythm.integrations.accelerate import Accelerator


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    dataset = torch.utils.data.TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    training, test = torch.utils.data.Subset(dataset, range(1408)), torch.utils.data.Subset(dataset, range(1408, 1792))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.7)
    accelerator = Accelerator(worker, cpu=True, gradient_accumulation_steps=2)
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    training, test = accelerator.prepare(*(torch.utils.data.DataLoader(part, args.batch_size) for part in (training, test)))

    for _ in range(args.epochs):
        model.train()
        for x, y in training:
            with accelerator.accumulate(model):
                accelerator.backward(F.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

    model.eval()
    with torch.no_grad():
        scores, expected = zip(*(accelerator.gather_for_metrics((model(x), y)) for x, y in test), strict=True)
    scores, expected = torch.cat(scores), torch.cat(expected)
    worker.report(accuracy=(scores.argmax(dim=1) == expected).float().mean(), loss=F.cross_entropy(scores, expected))


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/hf_accelerate.py")
