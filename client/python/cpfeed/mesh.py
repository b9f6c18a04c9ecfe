"""Where a rank is in its job, and which session, rank and consumer it reads."""

import dataclasses
import math
import os
from collections.abc import Mapping

from cpfeed.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Named dimensions, outer to inner, such as pp=1,dp=4,cp=8,tp=8.

    Attributes:
      dims: name -> size, in order.
    """

    dims: dict[str, int]

    @staticmethod
    def parse(text: str) -> "Mesh":
        """A mesh out of "pp=1,dp=4,cp=8,tp=8".

        Raises:
          UsageError: it is no such text.
        """
        dims: dict[str, int] = {}
        for part in text.split(","):
            name, _, size = (word.strip() for word in part.partition("="))
            if not name or name in dims or not size.isdecimal() or size == "0":
                raise UsageError(f"mesh {text!r} has {part!r}; each part must "
                                 "be a new name, '=' and a size",
                                 reason="BAD_OPTION")
            dims[name] = int(size)
        return Mesh(dims)

    @staticmethod
    def of(mesh: object) -> "Mesh":
        """A Mesh of a text, a Mesh, or torch's DeviceMesh with names."""
        if isinstance(mesh, Mesh):
            return mesh
        if isinstance(mesh, str):
            return Mesh.parse(mesh)
        names = getattr(mesh, "mesh_dim_names", None)
        if not names:
            raise UsageError(f"mesh is a {type(mesh).__name__}; must be a text, "
                             "a Mesh, or a DeviceMesh with mesh_dim_names",
                             reason="BAD_OPTION")
        sizes = mesh.mesh.shape  # type: ignore[attr-defined]
        return Mesh(dict(zip(names, map(int, sizes))))

    @property
    def size(self) -> int:
        """All ranks."""
        return math.prod(self.dims.values())

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where `rank` is on each dimension.

        Raises:
          UsageError: it is not in the mesh.
        """
        if not 0 <= rank < self.size:
            raise UsageError(f"rank is {rank}; the mesh has {self.size} ranks",
                             reason="TOPOLOGY_MISMATCH")
        found: dict[str, int] = {}
        for name, size in reversed(self.dims.items()):
            rank, found[name] = divmod(rank, size)
        return found


@dataclasses.dataclass(frozen=True)
class Job:
    """One rank of a job.

    A data-parallel group is a session, `{name}-dp{d}`. Dimensions other than dp
    (all whose name begins so are one) and cp hold consumers that read the same
    shard, each for itself.
    """

    name: str
    mesh: Mesh
    rank: int
    server_pattern: str
    replicas: int = 1

    @staticmethod
    def from_environment(
            environment: Mapping[str, str] = os.environ) -> "Job":
        """Of CPFEED_JOB, CPFEED_MESH, CPFEED_SERVER, CPFEED_REPLICAS and RANK.

        Raises:
          UsageError: one is missing or wrong; it is named.
        """
        def number(name: str, default: str) -> int:
            text = environment.get(name, default)
            if not text.isdecimal():
                raise UsageError(f"{name} is {text!r}; must be a number",
                                 reason="BAD_OPTION")
            return int(text)

        for name in ("CPFEED_SERVER", "CPFEED_MESH"):
            if not environment.get(name):
                raise UsageError(f"{name} is not set", reason="BAD_OPTION")
        job = Job(environment.get("CPFEED_JOB", "train"),
                  Mesh.parse(environment["CPFEED_MESH"]), number("RANK", "0"),
                  environment["CPFEED_SERVER"],
                  number("CPFEED_REPLICAS", "1"))
        world = number("WORLD_SIZE", str(job.mesh.size))
        if world != job.mesh.size:
            raise UsageError(f"WORLD_SIZE is {world}; the mesh has "
                             f"{job.mesh.size} ranks",
                             reason="TOPOLOGY_MISMATCH")
        if "{ordinal}" not in job.server_pattern and job.replicas > 1:
            raise UsageError(f"CPFEED_SERVER is {job.server_pattern!r}; must "
                             "have {ordinal}, as CPFEED_REPLICAS is "
                             f"{job.replicas}", reason="BAD_OPTION")
        return job

    def _fold(self, wanted: str) -> tuple[int, int]:
        """Place and size of the rank on all dimensions of one kind."""
        place, size = 0, 1
        coordinates = self.mesh.coordinates(self.rank)
        for name, extent in self.mesh.dims.items():
            kind = "dp" if name.startswith("dp") else name
            kind = kind if kind in ("dp", "cp") else "consumer"
            if kind == wanted:
                place = place * extent + coordinates[name]
                size *= extent
        return place, size

    @property
    def dp_rank(self) -> int:
        """Which data-parallel group."""
        return self._fold("dp")[0]

    @property
    def dp_size(self) -> int:
        """How many of them."""
        return self._fold("dp")[1]

    @property
    def cp_rank(self) -> int:
        """Which context-parallel rank."""
        return self._fold("cp")[0]

    @property
    def cp_size(self) -> int:
        """How many of them."""
        return self._fold("cp")[1]

    @property
    def consumer(self) -> int:
        """Number within the context-parallel rank."""
        return self._fold("consumer")[0]

    @property
    def consumers_per_cp_rank(self) -> int:
        """How many of them."""
        return self._fold("consumer")[1]

    @property
    def is_leader(self) -> bool:
        """Whether this rank makes the session and gets its cursors."""
        return self.cp_rank == 0 and self.consumer == 0

    @property
    def session(self) -> str:
        """The session of this rank."""
        return f"{self.name}-dp{self.dp_rank}"

    @property
    def server(self) -> str:
        """The server that the session lives on."""
        ordinal = self.dp_rank % max(self.replicas, 1)
        return self.server_pattern.replace("{ordinal}", str(ordinal))
