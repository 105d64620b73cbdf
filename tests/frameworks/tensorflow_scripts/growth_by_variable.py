# The same without touching the code that configures.
import os
os.environ['TF_FORCE_GPU_ALLOW_GROWTH'] = 'true'
import tensorflow as tf

with tf.device('/GPU:0'):
    kept = [tf.zeros([32, 1024, 1024], tf.uint8) for _ in range(4)]
print(sum(int(tf.size(each)) for each in kept) >> 20, 'MiB')
