"""How much memory the card has and how much of it is used, from code."""
import sys

import ration
import tensorflow as tf

with tf.device("/GPU:0"):
    kept = tf.zeros([512, 1 << 20], tf.uint8)
for details in ration.get_memory_details():
    print(details["device_name"], details["memory_total"], details["memory_used"])
ration.log_memory_usage(sys.stdout)
