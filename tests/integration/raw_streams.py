"""Streams as the wire has them, for clients that do what ours never do."""

import grpc

from cpfeed import api
from cpfeed.batches import encode_batch
from cpfeed.channel import open_channel
from cpfeed.errors import error_from_rpc
from cpfeed.streams import Outbox

PUT = "/cpfeed.v1.IngestService/PutBatches"
STREAM = "/cpfeed.v1.ShardService/StreamShards"


def batch_of(number, width=8):
    """A batch of one sequence that tells its number."""
    ids = [[1000 * number + i for i in range(width)]]
    return encode_batch({"input_ids": ids, "labels": ids})


class RawStream:
    """Requests are sent as they are, responses read one by one."""

    def __init__(self, address, method, request, response, timeout,
                 options=None):
        self._channel = (grpc.insecure_channel(address, options=options)
                         if options else open_channel(address))
        self._request = request
        self._outbox = Outbox(most=64)
        self._call = self._channel.stream_stream(
            method, request_serializer=lambda message: message,
            response_deserializer=response.FromString)(iter(self._outbox),
                                                       timeout=timeout)

    def send(self, payload=b"", **message):
        self.send_bytes(
            self._request(payload=payload, **message).SerializeToString()
            if payload else self._request(**message).SerializeToString())

    def send_bytes(self, message):
        self._outbox.put(message)

    def read(self):
        """The next message; raises CpfeedError where the stream has ended."""
        try:
            return next(self._call)
        except StopIteration:
            return None
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None

    def read_kind(self, kind):
        """The next message of a kind; others are passed over."""
        while (message := self.read()) is not None:
            if message.WhichOneof("message") == kind:
                return getattr(message, kind)
        raise AssertionError(f"the stream ended without {kind}")

    def end(self):
        """Reads to the end; returns the error, None where there is none."""
        try:
            while self.read() is not None:
                pass
        except Exception as error:  # pylint: disable=broad-except
            return error
        return None

    def close(self):
        """Cancels the call: the process is gone, as the server sees it."""
        self._call.cancel()
        self._outbox.close()
        self._channel.close()


class RawLoader(RawStream):
    """A loader that numbers its batches as it is told."""

    def __init__(self, address, session="train", *, min_version=1,
                 max_version=1, unknown=b"", **fields):
        super().__init__(address, PUT, api.PutBatchesRequest,
                         api.PutBatchesResponse, 60)
        request = api.PutBatchesRequest()
        request.open.session = "sessions/" + session
        request.open.min_protocol_version = min_version
        request.open.max_protocol_version = max_version
        for name, value in fields.items():
            setattr(request.open, name, value)
        self.send_bytes(request.SerializeToString() + unknown)

    def opened(self):
        return self.read_kind("opened")

    def put(self, sequence, batch, damage=False, most=None):
        """Sends a batch; of its payload at most so many bytes."""
        header = type(batch.header)()
        header.CopyFrom(batch.header)
        header.sequence = sequence
        self.send(batch=header)
        for message in batch.messages(most or 1 << 20):
            if damage:
                message = message[:-1] + bytes([message[-1] ^ 1])
            self.send_bytes(message)
            if most:
                return

    def receipt(self):
        return self.read_kind("receipt")


class RawRank(RawStream):
    """A consumer that acknowledges when it is told."""

    def __init__(self, address, session="train", *, timeout=60, options=None,
                 **fields):
        super().__init__(address, STREAM, api.StreamShardsRequest,
                         api.StreamShardsResponse, timeout, options)
        request = api.StreamShardsRequest()
        request.attach.session = "sessions/" + session
        request.attach.min_protocol_version = 1
        request.attach.max_protocol_version = 1
        for name, value in fields.items():
            setattr(request.attach, name, value)
        self.send_bytes(request.SerializeToString())

    def ack(self, step):
        self.send(ack={"through_step": step})

    def next_step(self):
        """Number and payload of the next step."""
        header = self.read_kind("step")
        payload = b""
        while len(payload) < header.payload_bytes:
            payload += self.read().payload
        return header.step, payload
