"""Data that divide themselves among workers: each worker reads its own shard, and an epoch ends at all of them together."""

from polyrhythm.core.protocols import declared
from polyrhythm.sources.from_spark import spark_frame as spark_frame
from polyrhythm.sources.hugging_face_stream import HuggingFaceStream as HuggingFaceStream
from polyrhythm.sources.local_shard import LocalShard as LocalShard
from polyrhythm.sources.parquet_files import ParquetFiles as ParquetFiles
from polyrhythm.sources.ray_shards import RayShards as RayShards
from polyrhythm.sources.tar_shards import TarShards as TarShards

__all__ = declared.names(globals())
