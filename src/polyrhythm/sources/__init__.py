"""Data that divide themselves among workers: each worker reads its own shard, and an epoch ends at all of them together."""

from polyrhythm.sources.from_spark import spark_frame
from polyrhythm.sources.hugging_face_stream import HuggingFaceStream
from polyrhythm.sources.local_shard import LocalShard
from polyrhythm.sources.parquet_files import ParquetFiles
from polyrhythm.sources.ray_shards import RayShards
from polyrhythm.sources.tar_shards import TarShards

__all__ = ["HuggingFaceStream", "LocalShard", "ParquetFiles", "RayShards", "TarShards", "spark_frame"]
