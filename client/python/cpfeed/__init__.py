"""cpfeed for Python: feed batches, read shards, steer sessions.

Loader side: `Feeder`. Rank side: `ShardReader`, and `cpfeed.torch.ShardDataset`
for training loops. Control plane: `Client`. torch is imported by `cpfeed.torch`
and `cpfeed.adapters` alone.
"""

from cpfeed import api, channel
from cpfeed.batches import (BatchFormat, EncodedBatch, UnshiftedLabelsWarning,
                            encode_batch)
from cpfeed.errors import (BatchError, BatchRejected, CannotRewind,
                           ChecksumMismatch, CpfeedError, CursorError, Fenced,
                           Rewound, SequenceConflict, ServerError,
                           SessionExists, SessionNotFound, TopologyMismatch,
                           Unavailable, UsageError)
from cpfeed.feeder import Feeder, Progress
from cpfeed.mesh import Job, Mesh
from cpfeed.producer import ProducerStream, Receipt
from cpfeed.reader import EpochEnd, ShardReader, Tombstone
from cpfeed.security import Security
from cpfeed.server import LocalServer
from cpfeed.sessions import Client, session_spec, sharding_spec
from cpfeed.shards import ShardChunk, ShardPlan, Step
from cpfeed.version import __version__

__all__ = [
    "BatchError", "BatchFormat", "BatchRejected", "CannotRewind",
    "ChecksumMismatch", "Client", "CpfeedError", "CursorError", "EncodedBatch",
    "EpochEnd", "Feeder", "Fenced", "Job", "LocalServer", "Mesh",
    "ProducerStream", "Progress", "Receipt", "Rewound", "Security",
    "SequenceConflict", "ServerError", "SessionExists", "SessionNotFound", "ShardChunk",
    "ShardPlan", "ShardReader", "Step", "Tombstone", "TopologyMismatch",
    "Unavailable", "UnshiftedLabelsWarning", "UsageError", "encode_batch",
    "session_spec", "sharding_spec", "__version__",
]
