"""What tests on a machine of their own, which is this one with other folders in a mount namespace, have in common."""

# For scripts of bash that replace folders below which the checkout may lie: /tmp, /run, /opt. After `hold_checkout`, the replacing,
# and `put_checkout_back`, it is where it was. SOURCE is in the environment.
CHECKOUT = r"""
hold_checkout() { exec 9<"$SOURCE"; }
put_checkout_back() {
  if [ ! -e "$SOURCE/VERSION" ]; then
    mkdir -p "$SOURCE"
    mount --no-canonicalize --bind /proc/self/fd/9 "$SOURCE"  # of that path only the descriptor knows
  fi
  exec 9<&-
}
"""
