"""One call for every environment: a limit on one visible card; PyTorch and JAX in this process are bound by it, too."""
import ration
import tensorflow as tf

if not ration.setup_gpu(config_type="limit", limit_mb=4096, visible_devices=[0]):
    print("no GPU")
    raise SystemExit
with tf.device("/GPU:0"):
    kept = tf.zeros([3500, 1 << 20], tf.uint8)
try:
    with tf.device("/GPU:0"):
        tf.zeros([600, 1 << 20], tf.uint8)
except tf.errors.ResourceExhaustedError:
    print(f"600 MiB more denied at {ration.workload()['used'] >> 20} of {ration.workload()['limit'] >> 20} MiB")
