// Package deviceplugin will offer GPU memory in chunks to clusters without dynamic resource allocation. It has its options only.
package deviceplugin

import (
	"context"
	"errors"
)

// Options of the device plugin, as the command line has them.
type Options struct {
	Socket   string // rationd's Unix socket
	Kubelet  string // kubelet's folder
	GPUKind  string // kind of the CDI devices of real GPUs; empty: none are asked for
	ChunkMiB int    // MiB of a chunk
}

// Run says that there is no device plugin yet.
func Run(ctx context.Context, options Options) error {
	return errors.New("the device plugin is not there yet. To do: ration-kubernetes dra, on Kubernetes 1.36 and later")
}
