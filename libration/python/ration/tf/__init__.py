"""TensorFlow with ration's device configuration: `import ration.tf as tf` instead of `import tensorflow as tf`.

`tf.config` governs ration's pool and TensorFlow; every other name, including names of modules, is TensorFlow's own:
`from ration.tf.keras.layers import Dense`.
"""
from . import config, forward, sessions, submodules

submodules.install()
from . import compat  # noqa: E402

__all__ = ["compat", "config"]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
