"""A GAN on two cards: the generator has 40 % of its card and the discriminator 60 %, after epoch 10 half and half."""
import ration

gpus = ration.config.list_physical_devices("GPU")
if len(gpus) < 2:
    raise SystemExit("this example needs two GPUs")
for gpu in gpus:
    ration.config.experimental.set_memory_growth(gpu, True)
shares = ration.Schedule({"generator": [(0, "40%"), (11, "50%")], "discriminator": [(0, "60%"), (11, "50%")]},
                         devices={"generator": gpus[0], "discriminator": gpus[1]})
for epoch in range(13):
    now = shares.at(epoch)
    # … train one epoch …
    limits = [ration.config.experimental.get_memory_info(f"GPU:{i}")["limit"] / 2**30 for i in range(2)]
    if epoch in (0, 10, 11):
        print(f"epoch {epoch:2}  generator {now['generator']} ({limits[0]:.1f} GiB)  "
              f"discriminator {now['discriminator']} ({limits[1]:.1f} GiB)")
