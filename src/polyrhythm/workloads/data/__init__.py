"""Readers of data sets on disk."""

from polyrhythm.workloads.data.cifar import cifar10, cifar100
from polyrhythm.workloads.data.huggingface import saved_dataset
from polyrhythm.workloads.data.idx import idx_images, mnist, read_idx

__all__ = ["cifar10", "cifar100", "idx_images", "mnist", "read_idx", "saved_dataset"]
