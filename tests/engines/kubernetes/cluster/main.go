// Every program of a Kubernetes node in one: which it is, the name it is called by says. A test starts a whole cluster from it, and one program is
// linked in place of eight.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	containerd "github.com/containerd/containerd/v2/cmd/containerd/command"
	ctr "github.com/containerd/containerd/v2/cmd/ctr/app"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// containerdProgram runs one of containerd's: those of 2.3 take no context.
func containerdProgram(make func() any) func() int {
	return func() int {
		var err error
		switch app := make().(type) {
		case interface{ Run([]string) error }:
			err = app.Run(os.Args)
		case interface {
			Run(context.Context, []string) error
		}:
			err = app.Run(context.Background(), os.Args)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
}

// cobraProgram runs a command line of the Kubernetes project.
func cobraProgram(make func() *cobra.Command) func() int {
	return func() int { return cli.Run(make()) }
}

var programs = map[string]func() int{
	"containerd":              containerdProgram(func() any { return containerd.App() }),
	"ctr":                     containerdProgram(func() any { return ctr.New() }),
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          cobraProgram(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraProgram(manager.NewControllerManagerCommand),
	"kube-scheduler":          cobraProgram(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 cobraProgram(kubectl.NewDefaultKubectlCommand),
	"kubelet":                 cobraProgram(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func main() {
	program, known := programs[filepath.Base(os.Args[0])]
	if !known {
		fmt.Fprintln(os.Stderr, "called by a name that is none of", strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
		os.Exit(2)
	}
	os.Exit(program())
}
