"""Nothing of an engine, a framework or a tool is imported before it is used."""

import subprocess
import sys

LIBRARIES = [
    *("ray", "pyspark", "kubernetes", "mpi4py", "dask", "lightning", "pytorch_lightning", "keras", "skorch", "jax", "flax", "optax"),
    *("transformers", "accelerate", "datasets", "pyarrow", "webdataset", "tensorboard", "wandb", "mlflow", "pandas", "sklearn"),
]
CODE = f"""
import sys
import polyrhythm as pr
everything = [getattr(pr, name) for name in dir(pr)]
at = pr.launchers
used = [at.Ray(), at.Spark(), at.Slurm(), at.Mpi(), at.Torchrun(), at.Kubernetes("image"), pr.loggers.CSV("never-written.csv")]
print(*sorted(sys.modules.keys() & set({LIBRARIES!r})))
"""


def test_public_names_import_no_library_of_others() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
