#!/usr/bin/env bash
# The GPU script against a simulated card: every row ok; and without a card it says so and exits 3.
set -u
tarball=$(compgen -G "$SOURCE/build/ration-*-linux-*.tar.gz" | tail -1)
[ -n "$tarball" ] || { echo "skipped: no tarball here (./dev package makes one)"; exit 77; }
RUN_ON_SIM=1 "$SOURCE/tests/gpu/run.sh" "$tarball" || exit 1
command -v nvidia-smi >/dev/null && exit 0
"$SOURCE/tests/gpu/run.sh" "$tarball"
[ $? -eq 3 ]
