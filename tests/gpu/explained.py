"""What `ration explain -o json` says, on one line."""
import json
import sys

row = json.load(open(sys.argv[1]))["data"][0]
parts = {part["id"]: part for part in row["rows"]}
mib = lambda part: f'{parts[part]["bytes"] / 2**20:.0f} MiB' if parts[part]["bytes"] is not None else f'n/a ({parts[part]["bytes_na"]})'
print(f'ledger {row["used_bytes"] / 2**20:.0f} MiB (context {mib("context")}), NVML beyond it {mib("unexplained")}')
