"""Half of the card, then a quarter, then all of it, while the program runs."""
import ration
import tensorflow as tf

gpus = ration.config.list_physical_devices("GPU")


def fits(mib):
    try:
        with tf.device("/GPU:0"):
            tf.zeros([mib, 1 << 20], tf.uint8)
        return True
    except tf.errors.ResourceExhaustedError:
        return False


for share in (0.5, 0.25, 1.0):
    ration.config.experimental.set_memory_limit(gpus[0], share)
    limit = ration.workload()["limit"]
    print(f"{share:4.0%} of the card: limit {limit >> 20} MiB, peak {ration.workload()['peak'] >> 20} MiB, "
          f"6 GiB more {'fit' if fits(6144) else 'are denied'}", flush=True)
