"""Functions of NeMo AutoModel's cp_utils for torch.nn modules, over
`cpfeed.torch.ops`.

They have upstream's names and arguments. What differs is on purpose: what a
context sets is the thread's, never the process's; hooks may be attached twice;
a context that is entered twice, and a mask that attention over ranks cannot
keep, are errors and not silent. A `cp_mesh` is a DeviceMesh of one dimension
or a process group.
"""

import contextlib
import json
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from cpfeed.errors import UsageError
from cpfeed.torch import ops

_EXCHANGES = {"allgather": "allgather", "alltoall": "ring"}
Handles = list[torch.utils.hooks.RemovableHandle]


def _process_group(cp_mesh: Any) -> dist.ProcessGroup:
    return (cp_mesh if isinstance(cp_mesh, dist.ProcessGroup)
            else cp_mesh.get_group())


class _CpSdpa(TorchFunctionMode):
    """Sends this thread's scaled_dot_product_attention over the ranks, also
    where a module took the function before. q, k and v are [B, H, S, D], this
    rank's head and tail of every row."""

    def __init__(self, group: ops.Group, exchange: str):
        super().__init__()
        self._group = group
        self._exchange = exchange
        self._plans: dict[tuple[int, int], ops.Plan] = {}

    def __torch_function__(self, func: Any, types_: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            # Inside it no mode is active: it is called with our attention.
            func = types.FunctionType(
                func.__code__,
                {**func.__globals__,
                 "scaled_dot_product_attention": self._attend},
                func.__name__, func.__defaults__, func.__closure__)
        return func(*args, **kwargs)

    def _plan(self, rows: int, width: int) -> ops.Plan:
        if (rows, width) not in self._plans:
            whole = width * self._group.size()
            self._plans[rows, width] = ops.plan_shards(
                [[whole]] * rows, cp_size=self._group.size(),
                layout="HEAD_TAIL_PER_ROW")
        return self._plans[rows, width]

    def _attend(self, query: torch.Tensor, key: torch.Tensor,
                value: torch.Tensor, attn_mask: torch.Tensor | None = None,
                dropout_p: float = 0.0, is_causal: bool = False,
                scale: float | None = None,
                enable_gqa: bool = False) -> torch.Tensor:
        if attn_mask is not None:
            raise UsageError(
                "attn_mask of scaled_dot_product_attention cannot be kept over "
                "ranks; must be None", reason="MASK_NOT_SUPPORTED")
        if dropout_p > 0:
            raise UsageError(f"dropout_p is {dropout_p}; must be 0 over ranks",
                             code="UNIMPLEMENTED", reason="NOT_SUPPORTED")
        if query.shape[1] != key.shape[1] and not enable_gqa:
            raise UsageError("q and k have other heads; enable_gqa must be set",
                             reason="SHAPE_MISMATCH")
        rows, heads, width, _ = query.shape
        flat = [x.transpose(1, 2).reshape(rows * width, x.shape[1], x.shape[3])
                for x in (query, key, value)]
        out, _ = ops.cp_attention(
            *flat, self._plan(rows, width), self._group,
            exchange=self._exchange, window=(-1, 0 if is_causal else -1),
            scale=scale)
        return out.reshape(rows, width, heads, -1).transpose(1, 2)


def _build_position_ids(batch: dict[str, Any],
                        device: torch.device | str) -> dict[str, Any]:
    """Adds position_ids, [1, S] of 0, 1, ..., where the batch has none."""
    if "position_ids" not in batch:
        width = batch["input_ids"].shape[1]
        batch["position_ids"] = torch.arange(width, device=device)[None]
    return batch


class _Once:
    """A factory whose product is entered once."""

    def __init__(self, make: Callable[[], Any]):
        self._make: Callable[[], Any] | None = make

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        if self._make is None:
            raise UsageError("the context was entered before; make a new one",
                             code="FAILED_PRECONDITION")
        make, self._make = self._make, None
        with make():
            yield


def get_train_context(enable_loss_parallel: bool,
                      enable_compiled_autograd: bool,
                      cp_context: Any = None) -> Callable[[], Any]:
    """A factory of the scopes of a step, left in the reverse order of entering:
    loss parallel; with a `cp_context` the kernels that tile, and it.

    Raises:
      UsageError: compiled autograd is asked for (UNIMPLEMENTED).
    """
    if enable_compiled_autograd:
        raise UsageError("compiled autograd cannot run attention over ranks",
                         code="UNIMPLEMENTED", reason="NOT_SUPPORTED")

    @contextlib.contextmanager
    def scopes() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if enable_loss_parallel:
                from torch.distributed.tensor.parallel import loss_parallel
                stack.enter_context(loss_parallel())
            if cp_context is not None:
                stack.enter_context(sdpa_kernel(
                    [SDPBackend.FLASH_ATTENTION,
                     SDPBackend.EFFICIENT_ATTENTION]))
                stack.enter_context(cp_context)
            yield

    return _Once(scopes)


def _check_buffers(buffers: Sequence[torch.Tensor], dims: Sequence[int],
                   multiple: int) -> None:
    for number, (buffer, dim) in enumerate(zip(buffers, dims)):
        if not 0 <= dim < buffer.dim():
            raise UsageError(f"buffer {number} has {buffer.dim()} axes; its "
                             f"sequence dim is {dim}", reason="SHAPE_MISMATCH")
        if buffer.shape[dim] % multiple:
            raise UsageError(
                f"buffer {number} has {buffer.shape[dim]} positions; must be a "
                f"multiple of 2 * cp_size = {multiple}",
                reason="NOT_DIVISIBLE")
        if buffer.requires_grad:
            raise UsageError(
                f"buffer {number} carries gradients and cannot be cut in "
                "place; cut it by cpfeed.torch.ops.shard_by_plan",
                reason="BAD_OPTION")


def create_context_parallel_ctx(
        cp_mesh: Any, cp_buffers: Sequence[torch.Tensor],
        cp_seq_dims: Sequence[int],
        cp_no_restore_buffers: Sequence[torch.Tensor],
        cp_rotate_method: str | None = None) -> Any:
    """A context in which the buffers are this rank's head and tail of their
    sequence dims, and scaled_dot_product_attention goes over the ranks. Behind
    it all but `cp_no_restore_buffers` are whole again. Entered once.

    A buffer's memory is left alone: the tensor is set to another one.

    Raises:
      UsageError: an unknown rotate method ("allgather", "alltoall"), unequal
        counts, a no-restore buffer that is none of the buffers; on entry a
        length that 2 * cp_size does not divide, or a buffer with gradients.
    """
    method = cp_rotate_method or "allgather"
    if method not in _EXCHANGES:
        raise UsageError(f'rotate method is "{method}"; must be allgather or '
                         "alltoall", reason="BAD_OPTION")
    if len(cp_buffers) != len(cp_seq_dims):
        raise UsageError(f"{len(cp_buffers)} buffers have {len(cp_seq_dims)} "
                         "sequence dims; must have one each",
                         reason="SHAPE_MISMATCH")
    kept = {id(buffer) for buffer in cp_no_restore_buffers}
    if not kept <= {id(buffer) for buffer in cp_buffers}:
        raise UsageError("a no-restore buffer is none of the buffers",
                         reason="BAD_OPTION")
    group = ops.cp_group(_process_group(cp_mesh))

    @contextlib.contextmanager
    def shard() -> Iterator[None]:
        rank, chunks = group.rank(), 2 * group.size()
        _check_buffers(cp_buffers, cp_seq_dims, chunks)
        wholes = [buffer.detach() for buffer in cp_buffers]
        try:
            with torch.no_grad():
                for buffer, whole, dim in zip(cp_buffers, wholes, cp_seq_dims):
                    pieces = whole.chunk(chunks, dim)
                    buffer.set_(torch.cat(
                        [pieces[rank], pieces[chunks - 1 - rank]], dim))
            with _CpSdpa(group, _EXCHANGES[method]):
                yield
        finally:
            with torch.no_grad():
                for buffer, whole in zip(cp_buffers, wholes):
                    if id(buffer) not in kept:
                        buffer.set_(whole)

    return _Once(shard)()


def _self_attention(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    for name, module in model.named_modules():
        if name.endswith("self_attn"):
            # A checkpoint's wrapper is not called again by recomputation.
            yield getattr(module, "_checkpoint_wrapped_module", module)


def _first_time(module: torch.nn.Module, hook: str) -> bool:
    seen = module.__dict__.setdefault("_cpfeed_hooks", set())
    if hook in seen:
        return False
    seen.add(hook)
    return True


def _drop_mask(_module: Any, args: Any, kwargs: Any) -> Any:
    if "attention_mask" not in kwargs:
        return None
    return args, {**kwargs, "attention_mask": None, "is_causal": True}


def attach_context_parallel_hooks(model: torch.nn.Module) -> Handles:
    """In modules whose dotted name ends in self_attn a keyword attention_mask,
    even a None, becomes None, and is_causal True."""
    return [module.register_forward_pre_hook(_drop_mask, prepend=True,
                                             with_kwargs=True)
            for module in _self_attention(model)
            if _first_time(module, "mask")]


def attach_cp_sdpa_hooks(model: torch.nn.Module, cp_mesh: Any) -> Handles:
    """While those modules run, also where they raise, attention goes over the
    ranks of `cp_mesh`."""
    group = ops.cp_group(_process_group(cp_mesh))
    open_modes: list[_CpSdpa] = []

    def enter(_module: Any, _args: Any) -> None:
        mode = _CpSdpa(group, "allgather")
        mode.__enter__()
        open_modes.append(mode)

    def leave(_module: Any, _args: Any, _out: Any) -> None:
        open_modes.pop().__exit__(None, None, None)

    handles: Handles = []
    for module in _self_attention(model):
        if _first_time(module, "sdpa"):
            handles += [module.register_forward_pre_hook(enter),
                        module.register_forward_hook(leave, always_call=True)]
    return handles


def attach_linear_attn_position_hooks(model: torch.nn.Module) -> Handles:
    """Modules with a `linear_attn` and a `layer_type` hand it their keyword
    position_ids, as `_cached_position_ids`, for the time of the call."""
    def hand(module: Any, _args: Any, kwargs: Any) -> None:
        module.linear_attn._cached_position_ids = kwargs.get("position_ids")

    def take_back(module: Any, _args: Any, _out: Any) -> None:
        module.linear_attn._cached_position_ids = None

    handles: Handles = []
    for module in model.modules():
        if (hasattr(module, "linear_attn") and hasattr(module, "layer_type") and
                _first_time(module, "positions")):
            handles += [
                module.register_forward_pre_hook(hand, with_kwargs=True),
                module.register_forward_hook(take_back, always_call=True)]
    return handles


def _coordinates(cp_mesh: Any) -> tuple[int, int]:
    if cp_mesh is None:
        return 1, 0
    group = _process_group(cp_mesh)
    return dist.get_world_size(group), dist.get_rank(group)


def make_cp_batch_for_te(cp_mesh: Any, batch: dict[str, Any],
                         qkv_format: str = "thd", padding_token_id: int = 0,
                         num_chunks: int = 1,
                         seq_lens_padding_value: int = -1000, *,
                         parity: str = "automodel_0_7") -> dict[str, Any]:
    """Converts BSHD rows with seq_lens to THD, in chunks, and takes this
    rank's tokens: the dictionary of the release `parity` ("automodel_0_4",
    "automodel_0_7"), on the CPU. What is no tensor is left out.

    Raises:
      UsageError: what upstream refuses (the reason is its exception's name),
        or what TransformerEngine would cut wrongly.
    """
    tensors, values = ops.call(
        torch.ops.cpfeed.make_cp_batch_for_te,
        {name: value for name, value in batch.items()
         if isinstance(value, torch.Tensor)},
        parity, num_chunks, padding_token_id, seq_lens_padding_value,
        *_coordinates(cp_mesh), qkv_format)
    return {**tensors, **{name: json.loads(value)
                          for name, value in values.items()}}


def _shard_thd_chunk_for_te(batch: dict[str, Any], cp_mesh: Any,
                            qkv_format: str, seq_lens_padding_value: int,
                            padding_token_id: int, *,
                            parity: str = "automodel_0_7") -> dict[str, Any]:
    """This rank's tokens of one converted chunk."""
    if qkv_format != "thd":
        raise UsageError(f"qkv_format is {qkv_format}; must be thd",
                         reason="ValueError")
    tensors, values = ops.call(
        torch.ops.cpfeed.shard_thd_chunk_for_te,
        {name: value for name, value in batch.items()
         if isinstance(value, torch.Tensor)},
        {name: json.dumps(value) for name, value in batch.items()
         if not isinstance(value, torch.Tensor)},
        parity, padding_token_id, seq_lens_padding_value,
        *_coordinates(cp_mesh))
    return {**tensors, **{name: json.loads(value)
                          for name, value in values.items()}}


def make_cp_batch_and_ctx(device_mesh: Any, batch: dict[str, Any],
                          loss_mask: torch.Tensor | None = None,
                          use_te: bool = False, padding_token_id: int = 0,
                          num_chunks: int = 1,
                          seq_lens_padding_value: int = -1000
                         ) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A factory of the step's context, and the batch. With `use_te` that of
    make_cp_batch_for_te, also without CP. Without a dimension "cp" of more than
    one rank the batch is left alone. Else attention_mask is removed, positions
    [1, S] are added, and inside the context the token tensors are this rank's;
    behind it only position_ids are whole.

    Raises:
      UsageError: a batch without labels; on entry a width that 2 * cp_size does
        not divide.
    """
    names = (device_mesh and device_mesh.mesh_dim_names) or ()
    cp_mesh = device_mesh["cp"] if "cp" in names else None
    if use_te:
        return contextlib.nullcontext, make_cp_batch_for_te(
            cp_mesh, batch, "thd", padding_token_id, num_chunks,
            seq_lens_padding_value)
    if _coordinates(cp_mesh)[0] <= 1:
        return contextlib.nullcontext, batch
    for name in ("input_ids", "labels"):
        if name not in batch:
            raise UsageError(f"batch has no {name}", reason="KeyError")
    batch.pop("attention_mask", None)
    _build_position_ids(batch, batch["input_ids"].device)
    positions = batch["position_ids"]
    buffers = [batch["input_ids"], batch["labels"], positions]
    dims = [1, 1, 2 if positions.dim() == 3 else 1]
    for extra in (loss_mask, batch.get("padding_mask")):
        if extra is not None:
            buffers.append(extra)
            dims.append(1)
    context = create_context_parallel_ctx(
        cp_mesh, buffers, dims,
        [buffer for buffer in buffers if buffer is not positions])
    return get_train_context(False, False, context), batch
