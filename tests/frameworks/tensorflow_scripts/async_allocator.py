# "If memory is fragmented, try TF_GPU_ALLOCATOR=cuda_malloc_async", says the error.
import os
os.environ['TF_GPU_ALLOCATOR'] = 'cuda_malloc_async'
import tensorflow as tf

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)
with tf.device('/GPU:0'):
    for mib in (100, 30, 70):
        kept = tf.zeros([mib, 1024, 1024], tf.uint8)
print(kept.shape)
