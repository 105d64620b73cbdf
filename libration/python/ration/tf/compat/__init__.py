"""TensorFlow's `compat`, in which `v1.config` and `v2.config` are ration's."""
from .. import forward
from . import v1, v2

__all__ = ["v1", "v2"]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
