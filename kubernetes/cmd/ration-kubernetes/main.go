// ration-kubernetes stands between Kubernetes and rationd on one node. It translates: what pods claim becomes claims of rationd, what rationd
// knows of the node's GPUs becomes devices that the scheduler places. Every limit, and every decision about one, is rationd's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"ration.sh/kubernetes/deviceplugin"
	"ration.sh/kubernetes/dra"
)

const usage = `ration-kubernetes dra --node NAME [--socket PATH] [--kubelet FOLDER] [--gpu-kind KIND] [--kubeconfig FILE]
ration-kubernetes device-plugin [--socket PATH] [--kubelet FOLDER] [--gpu-kind KIND]

dra            offers the node's GPU memory by dynamic resource allocation (Kubernetes 1.36, or 1.34 with the feature gate DRAConsumableCapacity)
device-plugin  offers it in GiB, as ration.sh/gpu-memory-gib, or ration.sh/gpu-N-memory-gib of each of several GPUs (Kubernetes 1.29)
One of the two runs on a node.
`

// The words of one command, read. What is wrong with them has been printed.
var errUsage = errors.New("usage")

func parse(flags *flag.FlagSet, words []string) error {
	klog.InitFlags(flags)
	if err := flags.Parse(words); err != nil {
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(flags.Output(), "%s takes no %q\n%s", flags.Name(), flags.Arg(0), usage)
		return errUsage
	}
	return nil
}

func run(ctx context.Context, words []string, errors io.Writer) error {
	command := ""
	if len(words) > 0 {
		command, words = words[0], words[1:]
	}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(errors)
	ofNode := func(socket, kubelet, gpuKind *string) {
		flags.StringVar(socket, "socket", "/run/ration/ration.sock", "rationd's Unix socket")
		flags.StringVar(kubelet, "kubelet", "/var/lib/kubelet", "kubelet's folder")
		flags.StringVar(gpuKind, "gpu-kind", "nvidia.com/gpu",
			"kind of the CDI devices that bring a real GPU's device files into a container, KIND=UUID; empty: something else does")
	}
	switch command {
	case "dra":
		var o dra.Options
		ofNode(&o.Socket, &o.Kubelet, &o.GPUKind)
		flags.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this node (default: $NODE_NAME)")
		flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "how to reach the API server (default: as a pod does)")
		if err := parse(flags, words); err != nil {
			return err
		}
		if o.Node == "" {
			fmt.Fprintf(errors, "dra: which node? --node NAME\n%s", usage)
			return errUsage
		}
		return dra.Run(ctx, o)
	case "device-plugin":
		var o deviceplugin.Options
		ofNode(&o.Socket, &o.Kubelet, &o.GPUKind)
		if err := parse(flags, words); err != nil {
			return err
		}
		return deviceplugin.Run(ctx, o)
	default:
		fmt.Fprint(errors, usage)
		return errUsage
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "ration-kubernetes:", err)
		os.Exit(1)
	}
}
