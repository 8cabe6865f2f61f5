"""Classify handwritten digits with Flax and optax."""

import argparse

import flax.linen
import jax
import optax
import sklearn.datasets
import torch

from polyrhythm.integrations.flax import TrainState


class Perceptron(flax.linen.Module):
    """One hidden layer."""

    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(10)(flax.linen.tanh(flax.linen.Dense(64)(x)))


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x, y = (images / 16).astype("float32"), labels.astype("int32")
    training = torch.utils.data.TensorDataset(torch.from_numpy(x[:1408]), torch.from_numpy(y[:1408]))
    loader = torch.utils.data.DataLoader(training, batch_size=args.batch_size)
    model = Perceptron()
    params = model.init(jax.random.key(0), x[:1])
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(optax.exponential_decay(0.01, transition_steps=20, decay_rate=0.7)))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=tx, worker=worker)

    def loss_of(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

    gradient = jax.jit(jax.grad(loss_of))
    for _ in range(args.epochs):
        for inputs, targets in worker.batches(loader):
            state = state.apply_gradients(grads=gradient(state.params, inputs.numpy(), targets.numpy()))

    accuracy = (model.apply(state.params, x[1408:]).argmax(axis=1) == y[1408:]).mean()
    print("accuracy:", accuracy.item(), "loss:", loss_of(state.params, x[1408:], y[1408:]).item())


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/flax_model.py")
