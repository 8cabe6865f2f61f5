"""Classify handwritten digits with a Keras model on torch."""

import argparse
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import sklearn.datasets

from polyrhythm.integrations.keras import attach


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x, y = (images / 16).astype("float32"), labels
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, "tanh"), keras.layers.Dense(10)])
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=20, decay_rate=0.7)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(schedule, global_clipnorm=0.5), loss, metrics=["accuracy"])
    attach(worker, model)
    model.fit(x[:1408], y[:1408], args.batch_size, args.epochs, shuffle=False, verbose=2, validation_data=(x[1408:], y[1408:]))
    loss, accuracy = model.evaluate(x[1408:], y[1408:], verbose=0)
    worker.report(accuracy=accuracy, loss=loss)


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/keras_model.py")
