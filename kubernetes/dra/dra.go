// Package dra is the driver of dynamic resource allocation: it publishes the node's GPUs, and puts claims that the scheduler has placed before rationd.
//
// It keeps nothing on disk. What is prepared lies with rationd under the claim's UID, so driver, kubelet and rationd may be restarted in any order.
package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/exclusive"
	"ration.sh/kubernetes/inventory"
)

// Options of the DRA driver, as the command line has them.
type Options struct {
	Node       string // this node's name in the cluster
	Socket     string // rationd's Unix socket
	Kubelet    string // kubelet's folder
	GPUKind    string // kind of the CDI devices of real GPUs; empty: none are asked for
	Kubeconfig string // empty: as a pod does

	times *times // nil: defaultTimes
}

// times are how often, and how long. Tests have shorter ones.
type times struct {
	look    time.Duration // between two looks at rationd
	absent  time.Duration // without an answer of rationd, until its GPUs are tainted
	probe   time.Duration // between two questions whether the cluster counts memory, where it did not
	retry   time.Duration // the same, where it is the scheduler that does not
	leave   time.Duration // of claims that the cluster no longer knows, until they are ended
	tidy    time.Duration // between two looks for such claims
	refresh time.Duration // between two reports of the GPUs' health

	predecessor time.Duration // until another ration-kubernetes that offers the GPUs has to be gone
}

var defaultTimes = times{look: 2 * time.Second, absent: 30 * time.Second, probe: time.Minute, retry: 10 * time.Minute, leave: 2 * time.Minute, tidy: time.Minute, refresh: 10 * time.Second,
	predecessor: 20 * time.Second}

// Run serves kubelet until ctx is done. It returns an error only where serving cannot begin, or where kubelet's sockets are lost.
func Run(ctx context.Context, options Options) error {
	config, err := clusterConfig(options.Kubeconfig)
	if err != nil {
		return fmt.Errorf("how to reach the API server: %w. To do: --kubeconfig FILE, or run it in a pod with a service account", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return Serve(ctx, options, client)
}

func clusterConfig(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

// Serve is Run with a client of the cluster at hand.
func Serve(ctx context.Context, options Options, client kubernetes.Interface) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := defaultTimes
	if options.times != nil {
		t = *options.times
	}
	registry := filepath.Join(options.Kubelet, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	release, err := exclusive.Take(ctx, options.Kubelet, "dra", t.predecessor)
	if err != nil {
		return err
	}
	defer release()
	reporter := newReporter(client, options.Node)
	defer reporter.stop()
	driver := &driver{
		node: options.Node, gpuKind: options.GPUKind, times: t,
		daemon: daemon.New(options.Socket), client: client, report: reporter, fail: stop,
		offer: newOffer(options.Node, t, client),
	}
	driver.offer.report = reporter
	helper, err := kubeletplugin.Start(ctx, driver,
		kubeletplugin.DriverName(inventory.Driver), kubeletplugin.NodeName(options.Node), kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(exclusive.Folder(options.Kubelet)), kubeletplugin.RegistrarDirectoryPath(registry))
	if err != nil {
		return fmt.Errorf("kubelet's sockets in %s: %w", options.Kubelet, err)
	}
	defer helper.Stop()
	klog.InfoS("serves kubelet", "driver", inventory.Driver, "node", options.Node, "rationd", options.Socket)
	driver.look(ctx, helper.PublishResources)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
