# Two workers on one GPU, 512 MiB each.
import multiprocessing
import tensorflow as tf


def work(number, both_hold):
    gpu = tf.config.list_physical_devices('GPU')[0]
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
    with tf.device('/GPU:0'):
        kept = tf.zeros([400, 1024, 1024], tf.uint8)
    both_hold.wait()
    return kept


context = multiprocessing.get_context('fork')   # before TensorFlow has looked at a device
both_hold = context.Barrier(2)
workers = [context.Process(target=work, args=(number, both_hold)) for number in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print([worker.exitcode for worker in workers])
