#!/usr/bin/env python3
"""image.py OUT.tar NAME:TAG FOLDER WORD...: an image of the files in FOLDER that starts WORD..., as an archive of the OCI image layout. The same files give the same bytes."""
import hashlib
import io
import json
import pathlib
import sys
import tarfile


def as_nobodys(entry):
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main(out, name, folder, *words):
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for path in sorted(pathlib.Path(folder).iterdir()):
            archive.add(path, path.name, filter=as_nobodys)
    blobs = {}

    def blob(data, kind):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    files = blob(layer.getvalue(), "layer.v1.tar")
    configuration = blob({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": list(words), "Env": ["PATH=/bin:/usr/bin"]},
                          "rootfs": {"type": "layers", "diff_ids": [files["digest"]]}}, "config.v1+json")
    manifest = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configuration, "layers": [files]}, "manifest.v1+json")
    manifest["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    parts = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()}
    parts |= {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
    with tarfile.open(out, "w") as archive:
        for path, data in parts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


main(*sys.argv[1:])
