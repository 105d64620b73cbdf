# TensorFlow 1: allow_growth, and every option about memory that a forum ever recommended.
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = tf1.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.force_gpu_compatible = True
config.gpu_options.polling_inactive_delay_msecs = 1
config.gpu_options.experimental.timestamped_allocator = False
config.gpu_options.experimental.internal_fragmentation_fraction = 0.05
config.gpu_options.experimental.gpu_host_mem_limit_in_mb = 256
config.gpu_options.experimental.disallow_retry_on_allocation_failure = True
session = tf1.InteractiveSession(config=config)
with tf.device('/GPU:0'):
    kept = tf1.get_variable('kept', [64, 1024, 1024], tf.uint8, tf1.zeros_initializer())
session.run(tf1.global_variables_initializer())
print(session.run(tf.shape(kept)))
session.close()
