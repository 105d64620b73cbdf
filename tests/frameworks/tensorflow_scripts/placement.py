# Soft placement, determinism, eager functions: what a script sets beside memory.
import tensorflow as tf

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)
tf.config.set_soft_device_placement(True)
tf.config.experimental.enable_op_determinism()
tf.keras.utils.set_random_seed(1)
tf.config.experimental.enable_tensor_float_32_execution(False)
tf.config.run_functions_eagerly(True)
with tf.device('/GPU:7'):
    x = tf.zeros([32, 1024, 1024], tf.uint8)
print(x.device[-5:], tf.config.get_soft_device_placement(), tf.config.functions_run_eagerly(),
      tf.config.experimental.tensor_float_32_execution_enabled())
