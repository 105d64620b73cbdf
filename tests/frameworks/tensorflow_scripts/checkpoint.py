# A compiled training step with checkpoints: stop, and go on where it was.
import tensorflow as tf

gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
tf.config.optimizer.set_jit('autoclustering')
with tf.device('/CPU:0'):
    step = tf.Variable(0, dtype=tf.int64)
weights = tf.Variable(tf.zeros([512, 512]))


@tf.function(jit_compile=True)
def train(batch):
    weights.assign_sub(0.1 * tf.matmul(batch, batch, transpose_a=True))


checkpoint = tf.train.Checkpoint(step=step, weights=weights)
manager = tf.train.CheckpointManager(checkpoint, 'checkpoints', max_to_keep=2)
for _ in range(3):
    train(tf.zeros([16, 512]))
    step.assign_add(1)
    manager.save()
step.assign(99)
checkpoint.restore(manager.latest_checkpoint)
print(int(step), len(manager.checkpoints), tf.config.optimizer.get_jit())
