"""What lies on disk: graphs, samples, lists. Pure Python; nothing read here is ever executed."""

from pass_bench.data.graph import read_graph, write_graph
from pass_bench.data.hashes import hash_of_printout, hash_of_source, sample_folder, sample_hash
from pass_bench.data.model_source import check_model_source
from pass_bench.data.records import Argument, Graph, GraphInfo, GraphRef, Sample, TensorMeta
from pass_bench.data.sample import read_manifest, read_sample

__all__ = [
    "Argument",
    "Graph",
    "GraphInfo",
    "GraphRef",
    "Sample",
    "TensorMeta",
    "check_model_source",
    "hash_of_printout",
    "hash_of_source",
    "read_graph",
    "read_manifest",
    "read_sample",
    "sample_folder",
    "sample_hash",
    "write_graph",
]
