"""Predict the next character of Python's own help texts with a small Llama and the Trainer of Hugging Face transformers."""

import argparse
import math
from pydoc_data.topics import topics

import torch
import transformers
from torch.utils.data import Dataset

from polyrhythm.integrations.transformers import Trainer, TrainingArguments


class Windows(Dataset):
    """A text cut into windows; a language model of transformers shifts the labels itself."""

    def __init__(self, text, length):
        self.windows = text[: len(text) // length * length].view(-1, length)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        return {"input_ids": self.windows[index], "labels": self.windows[index]}


def train(worker):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()

    text = torch.tensor(list("".join(topics.values()).encode("ascii", "ignore")))
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=128, tie_word_embeddings=True, **shape))
    training = TrainingArguments(
        output_dir="runs/hf_trainer",
        per_device_train_batch_size=args.batch_size,
        num_train_epochs=args.epochs,
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_steps=5,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        train_sampling_strategy="sequential",
        use_cpu=True,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(model, training, train_dataset=Windows(text[:40960], 64), eval_dataset=Windows(text[40960:45056], 64), worker=worker)
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
    worker.report(loss=loss, bits=loss / math.log(2))


if __name__ == "__main__":
    raise SystemExit("Run it with: polyrhythm run examples/frameworks/hf_trainer.py")
