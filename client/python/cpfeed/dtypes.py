"""Element types: of the wire, of NumPy, of torch.

NumPy has no bfloat16; without a tensor library its bits are uint16.
"""

import sys
from typing import Any

import numpy as np

from cpfeed import api
from cpfeed.errors import BatchError

_NUMBERS = api.enum_values("DType")

# Name -> (number on the wire, NumPy type of its bytes).
_NAMES: dict[str, tuple[int, np.dtype]] = {
    name: (_NUMBERS["DTYPE_" + name.upper()], np.dtype(numpy_name))
    for name, numpy_name in (
        ("bool", "bool"), ("uint8", "uint8"), ("int8", "int8"),
        ("int16", "<i2"), ("int32", "<i4"), ("int64", "<i8"),
        ("float16", "<f2"), ("bfloat16", "<u2"), ("float32", "<f4"),
        ("float64", "<f8"))
}
_BY_NUMBER = {number: name for name, (number, _) in _NAMES.items()}


def wire_number(name: str) -> int:
    """The wire's number of the element type `name`."""
    return _NAMES[name][0]


def name_of(number: int) -> str:
    """The name of the element type of that number; KeyError if none."""
    return _BY_NUMBER[number]


def numpy_type(name: str) -> np.dtype:
    """The NumPy type that has the bytes of element type `name`."""
    return _NAMES[name][1]


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_array(key: str, value: Any) -> tuple[np.ndarray, str]:
    """The contiguous bytes of an array or tensor, and its element type.

    Copies only what is not contiguous, or lies on a device. Where the type has
    no NumPy counterpart the array holds its bits.

    Raises:
      BatchError: the element type does not travel; `key` is named.
    """
    if is_tensor(value):
        value = value.detach().cpu().contiguous()
        name = str(value.dtype).removeprefix("torch.")
        if name == "bfloat16":
            import torch  # It is loaded, since there is a tensor.
            return value.view(torch.int16).numpy(), name
        array = value.numpy() if name in _NAMES else np.empty(0)
    else:
        array = np.asarray(value)
        name = array.dtype.name
    if name not in _NAMES:
        raise BatchError(
            f"{key} is of {name}; must be of one of {', '.join(_NAMES)}",
            reason="BATCH_MALFORMED")
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(array.shape), name
