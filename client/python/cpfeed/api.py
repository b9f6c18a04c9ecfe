"""The protobuf messages of the service, made from their descriptors.

`api.binpb` holds the descriptors of `proto/cpfeed/v1`. Classes that protoc
writes would demand a protobuf runtime of nearly their own version, and would
clash with other packages that bring `google/rpc/status.proto`; these work with
any runtime from 4 on and live in a pool of their own.
"""

import importlib.resources
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message_factory

_POOL = descriptor_pool.DescriptorPool()


def _fill_pool() -> None:
    data = importlib.resources.files(__package__).joinpath("api.binpb")
    files = descriptor_pb2.FileDescriptorSet.FromString(data.read_bytes())
    for file in files.file:
        _POOL.Add(file)


_fill_pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def _v1(name: str) -> Any:
    return _message("cpfeed.v1." + name)


def enum_values(name: str) -> dict[str, int]:
    """The values of the enum cpfeed.v1.`name`, by name."""
    enum = _POOL.FindEnumTypeByName("cpfeed.v1." + name)
    return {value.name: value.number for value in enum.values}


CreateSessionRequest = _v1("CreateSessionRequest")
CreateSessionResponse = _v1("CreateSessionResponse")
GetSessionRequest = _v1("GetSessionRequest")
GetSessionResponse = _v1("GetSessionResponse")
ListSessionsRequest = _v1("ListSessionsRequest")
ListSessionsResponse = _v1("ListSessionsResponse")
DeleteSessionRequest = _v1("DeleteSessionRequest")
DeleteSessionResponse = _v1("DeleteSessionResponse")
SeekSessionRequest = _v1("SeekSessionRequest")
SeekSessionResponse = _v1("SeekSessionResponse")
CommitCursorRequest = _v1("CommitCursorRequest")
CommitCursorResponse = _v1("CommitCursorResponse")
Session = _v1("Session")
Cursor = _v1("Cursor")
ShardingSpec = _v1("ShardingSpec")
PlanBatchRequest = _v1("PlanBatchRequest")
PlanBatchResponse = _v1("PlanBatchResponse")
BatchHeader = _v1("BatchHeader")
BatchReceipt = _v1("BatchReceipt")
PutBatchesRequest = _v1("PutBatchesRequest")
PutBatchesResponse = _v1("PutBatchesResponse")
StreamShardsRequest = _v1("StreamShardsRequest")
StreamShardsResponse = _v1("StreamShardsResponse")
Status = _message("google.rpc.Status")
ErrorInfo = _message("google.rpc.ErrorInfo")
HealthCheckRequest = _message("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _message("grpc.health.v1.HealthCheckResponse")
