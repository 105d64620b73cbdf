package dra

import "context"

// Options of the DRA driver, as the command line has them.
type Options struct {
	Node       string // this node's name in the cluster
	Socket     string // rationd's Unix socket
	Kubelet    string // kubelet's folder
	GPUKind    string // kind of the CDI devices of real GPUs; empty: none are asked for
	Kubeconfig string // empty: as a pod does
}

// Run serves kubelet until ctx is done.
func Run(ctx context.Context, options Options) error { <-ctx.Done(); return nil }
