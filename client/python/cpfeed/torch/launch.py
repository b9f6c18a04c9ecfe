"""Server, feeders and readers of one node, out of the training script."""

import atexit
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from cpfeed.batches import BatchFormat
from cpfeed.errors import CpfeedError, Rewound, UsageError
from cpfeed.feeder import Feeder
from cpfeed.mesh import Job, Mesh
from cpfeed.server import LocalServer
from cpfeed.security import Credentials, Security
from cpfeed.sessions import session_spec
from cpfeed.torch.dataset import ShardDataset


class Launched(ShardDataset):
    """The dataset of this rank; owns what launch() started. A context manager.

    The leader of each session also feeds it, on a thread. What goes wrong there
    ends the session, so that no rank waits for ever.
    """

    def __init__(self, job: Job, dataloader: Iterable[Mapping[str, Any]],
                 server: LocalServer | None, feeding: dict[str, Any],
                 **options: Any):
        super().__init__(job.server, job.session, cp_rank=job.cp_rank,
                         consumer=job.consumer, cp_size=job.cp_size, **options)
        self._dataloader = dataloader
        self._local_server = server
        self._feeding = feeding
        self._feeder: Feeder | None = None
        self._feeder_thread: threading.Thread | None = None
        self._feeder_failure: BaseException | None = None

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shut_down(together=kind is None)

    def _position(self) -> int:
        self._stop_feeder()
        generation = super()._position()
        if self.is_leader:
            self._start_feeder()
        return generation

    def _start_feeder(self) -> None:
        self._feeder = Feeder(self._dataloader, server=self.server,
                              session=self.session, **self._feeding)
        self._feeder_failure = None
        self._feeder_thread = threading.Thread(
            target=self._feed, args=(self._feeder,), daemon=True,
            name="cpfeed-feeder")
        # As for the thread that reads ahead.
        atexit.register(self._stop_feeder)
        self._feeder_thread.start()

    def _feed(self, feeder: Feeder) -> None:
        try:
            feeder.run()
        except BaseException as error:  # pylint: disable=broad-except
            self._feeder_failure = error
            try:
                with self._client() as client:
                    client.delete_session(self.session, force=True,
                                          allow_missing=True)
            except CpfeedError:
                pass  # The server is gone, and the readers know.

    def _stop_feeder(self) -> None:
        atexit.unregister(self._stop_feeder)
        if self._feeder is not None and self._feeder_thread is not None:
            self._feeder.close()
            self._feeder_thread.join()
            self._feeder = None

    def _batches(self, prefetcher: Any) -> Iterator[dict[str, Any]]:
        try:
            yield from super()._batches(prefetcher)
        except Rewound:
            raise
        except CpfeedError as error:
            if self._feeder_failure is not None:
                raise self._feeder_failure from error
            raise

    def shut_down(self, together: bool = True) -> None:
        """Ends everything that was started.

        Args:
          together: all ranks call this; the server waits for them.
        """
        self.close()
        self._stop_feeder()
        if together and dist.is_initialized():
            dist.barrier()
        if self._local_server is not None:
            self._local_server.stop()
            self._local_server = None


def _start_server(rank: int, flags: tuple[str, ...]
                 ) -> tuple[LocalServer | None, str]:
    """Rank 0's server, and its address on all ranks."""
    if not dist.is_initialized():
        alone = LocalServer(*flags)
        return alone, alone.address
    local = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
    if local != dist.get_world_size():
        raise UsageError(
            f"the job has {dist.get_world_size()} ranks, {local} of them here; "
            "must all be on one node: start cpfeed_server and a Feeder by "
            "themselves", reason="TOPOLOGY_MISMATCH")
    server: LocalServer | None = None
    answer: list[Any] = [None]
    if rank == 0:
        try:
            server = LocalServer(*flags)
            answer = [server.address]
        except CpfeedError as error:
            answer = [error]
    dist.broadcast_object_list(answer, src=0)
    if isinstance(answer[0], CpfeedError):
        raise answer[0]
    return server, answer[0]


def launch(dataloader: Iterable[Mapping[str, Any]], mesh: object, *,
           job: str = "train", epochs: int | None = 1,
           form: BatchFormat = BatchFormat(), prefetch: int = 2,
           device: torch.device | str | None = None, per_epoch: bool = False,
           server_flags: tuple[str, ...] = (),
           credentials: Credentials = Security(), **spec: Any) -> Launched:
    """Starts a server on this node, and feeds and reads it.

    Call it on every rank, after init_process_group (a single rank needs none):

        with cpfeed.torch.launch(dataloader, "dp=1,cp=2") as batches:
            for batch in batches:
                loss = train(batch) / batch["num_label_tokens"]

    Args:
      dataloader: of whole batches; only the leader of each session (cp_rank 0,
        consumer 0) iterates it. With several data-parallel groups each gives
        its own group's.
      mesh: names and sizes, outer to inner: "dp=2,cp=4,tp=2", or torch's
        DeviceMesh with names. cp is context-parallel, dp... data-parallel; the
        others read the same shards.
      job: first part of the sessions' names.
      epochs: passes over the dataloader; None is without end.
      form: how its batches are read.
      prefetch: as for ShardDataset.
      device: as for ShardDataset.
      per_epoch: as for ShardDataset.
      server_flags: of cpfeed_server, such as "--memory_budget=8000000000".
      credentials: TLS and token, where the flags ask for them; none by default.
      **spec: fields of `cpfeed.session_spec`, such as layout or auto_pad.

    Raises:
      UsageError: the mesh does not fit the job, or there is no cpfeed_server.
    """
    dims = Mesh.of(mesh)
    distributed = dist.is_initialized()
    world = dist.get_world_size() if distributed else 1
    rank = dist.get_rank() if distributed else 0
    if dims.size != world:
        raise UsageError(f"the mesh has {dims.size} ranks; must be {world}, as "
                         "the job", reason="TOPOLOGY_MISMATCH")
    server, address = _start_server(rank, server_flags)
    here = Job(job, dims, rank, address)
    group = dist.group.WORLD if distributed else None
    return Launched(
        here, dataloader, server,
        {"epochs": epochs, "form": form, "credentials": credentials},
        spec=session_spec(here.cp_size,
                          consumers_per_cp_rank=here.consumers_per_cp_rank,
                          **spec),
        prefetch=prefetch, device=device, per_epoch=per_epoch, group=group,
        credentials=credentials,
        dp_group=group if here.dp_size > 1 else None)
