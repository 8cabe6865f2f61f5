"""Classify handwritten digits with an estimator of skorch in a pipeline of scikit-learn."""

import argparse

import sklearn.datasets
import torch
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping, LRScheduler

from polyrhythm.integrations.skorch import OnWorker


class Perceptron(torch.nn.Module):
    """One hidden layer."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x.float())


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    x, y = sklearn.datasets.load_digits(return_X_y=True)
    torch.manual_seed(0)
    options = {"criterion": torch.nn.CrossEntropyLoss, "optimizer": torch.optim.Adam, "lr": 0.01, "train_split": None}
    callbacks = [OnWorker(worker), GradientNormClipping(0.5), LRScheduler("StepLR", step_size=1, gamma=0.7)]
    net = NeuralNetClassifier(Perceptron, max_epochs=args.epochs, batch_size=args.batch_size, callbacks=callbacks, **options)
    estimator = make_pipeline(MinMaxScaler(), net).fit(x[:1408], y[:1408])
    loss = log_loss(y[1408:], estimator.predict_proba(x[1408:]))
    worker.report(accuracy=estimator.score(x[1408:], y[1408:]), loss=loss)


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/skorch_net.py")
