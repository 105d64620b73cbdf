# TensorFlow 1: a quarter of the GPU for each session.
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
options = tf1.GPUOptions(per_process_gpu_memory_fraction=0.25)
with tf1.Session(config=tf1.ConfigProto(gpu_options=options, allow_soft_placement=True)) as session:
    with tf.device('/GPU:0'):
        batch = tf1.placeholder(tf.uint8, [None, 1024, 1024])
        fed = tf.identity(batch)
    print(session.run(tf.shape(fed), {batch: [[[0] * 1024] * 1024]}))
