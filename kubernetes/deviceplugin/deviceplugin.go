// Package deviceplugin offers the node's GPU memory in chunks by kubelet's device plugins, for clusters whose dynamic resource allocation cannot count memory.
//
// It keeps nothing on disk. What is handed out lies with rationd, under a number that follows from the chunks, so plugin, kubelet and rationd may be
// restarted in any order.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/exclusive"
	"ration.sh/kubernetes/internal/once"
	"ration.sh/kubernetes/inventory"
)

// Options of the device plugin, as the command line has them.
type Options struct {
	Socket  string // rationd's Unix socket
	Kubelet string // kubelet's folder
	GPUKind string // kind of the CDI devices of real GPUs; empty: none are asked for

	times *times // nil: defaultTimes
}

// times are how often, and how long. Tests have shorter ones.
type times struct {
	glance      time.Duration // between two looks whether kubelet was started again
	look        time.Duration // between two looks at rationd
	absent      time.Duration // without an answer of rationd, until its GPUs are unhealthy
	tidy        time.Duration // between two looks for claims that nobody has
	leave       time.Duration // of such a claim, until it is ended
	predecessor time.Duration // until another ration-kubernetes that offers the GPUs has to be gone
}

var defaultTimes = times{glance: 200 * time.Millisecond, look: 2 * time.Second, absent: 30 * time.Second, tidy: 10 * time.Second, leave: 10 * time.Second,
	predecessor: 20 * time.Second}

// plugin is all resources of one node.
type plugin struct {
	kubelet kubelet
	gpuKind string
	times   times
	sight   *inventory.Sight
	claims  *claims

	// Of the loop alone.
	resources map[string]*resource
	met       os.FileInfo // kubelet's socket, when it was last told of the resources
}

// Run serves kubelet until ctx is done. It returns an error only where serving cannot begin.
func Run(ctx context.Context, options Options) error {
	t := defaultTimes
	if options.times != nil {
		t = *options.times
	}
	release, err := exclusive.Take(ctx, options.Kubelet, "device-plugin", t.predecessor)
	if err != nil {
		return err
	}
	defer release()
	p := &plugin{kubelet: kubelet(options.Kubelet), gpuKind: options.GPUKind, times: t, sight: inventory.NewSight(t.absent),
		claims: &claims{daemon: daemon.New(options.Socket), leave: t.leave}, resources: map[string]*resource{}}
	if err := os.MkdirAll(p.kubelet.plugins(), 0o750); err != nil {
		return err
	}
	klog.InfoS("serves kubelet", "plugins", p.kubelet.plugins(), "rationd", options.Socket)
	p.serve(ctx)
	return nil
}

// timer says when something is due that happens from time to time.
type timer struct{ last time.Time }

func (t *timer) due(every time.Duration) bool {
	if time.Since(t.last) < every {
		return false
	}
	t.last = time.Now()
	return true
}

func (p *plugin) serve(ctx context.Context) {
	defer func() {
		for _, each := range p.resources {
			each.stop()
		}
	}()
	ticker := time.NewTicker(p.times.glance)
	defer ticker.Stop()
	var look, tidy timer
	var looking, offering, tidying once.Log
	for {
		if look.due(p.times.look) {
			told, err := inventory.Look(ctx, p.claims.daemon)
			if err == nil {
				p.sight.Update(told)
			}
			looking.Error(ctx, err, "The node's GPUs are not known")
		}
		offering.Error(ctx, p.offer(ctx), "What is offered cannot be brought up to date")
		if tidy.due(p.times.tidy) {
			stale, err := p.claims.tidy(ctx, p.kubelet)
			if stale {
				for _, each := range p.resources {
					each.tell()
				}
			}
			tidying.Error(ctx, err, "Claims that nobody has do not end")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// offer has each resource served on its socket, and known to kubelet. A kubelet that was started again knows none, and has removed their sockets.
func (p *plugin) offer(ctx context.Context) error {
	wanted := p.wanted()
	for name, each := range p.resources {
		if _, still := wanted[name]; !still || each.lost() {
			each.stop()
			delete(p.resources, name)
		}
	}
	now, err := os.Stat(p.kubelet.socket())
	if err != nil {
		return fmt.Errorf("kubelet is not there: %w", err)
	}
	again := p.met == nil || !os.SameFile(now, p.met) || !now.ModTime().Equal(p.met.ModTime())
	p.met = now
	var failed []error
	for name, offered := range wanted {
		each := p.resources[name]
		if each == nil {
			if each, err = listen(p, name); err != nil {
				failed = append(failed, err)
				continue
			}
			p.resources[name] = each
		}
		each.set(offered)
		if each.known && !again {
			continue
		}
		err := each.register(ctx)
		if each.known = err == nil; !each.known {
			failed = append(failed, err)
			continue
		}
		klog.FromContext(ctx).Info("Kubelet knows", "resource", name, "chunks", len(offered.chunks))
	}
	return errors.Join(failed...)
}

const namespace = "ration.sh/"

// resourceName of a GPU. Kubelet counts by resource: of several GPUs each has one of its own, since a share that lies on two would be rejected only after
// the scheduler has placed it.
func resourceName(index int, alone bool) string {
	if alone {
		return namespace + "gpu-memory-gib"
	}
	return fmt.Sprintf("%sgpu-%d-memory-gib", namespace, index)
}

// wanted is what kubelet should know: of each resource the chunks, with their health. Unhealthy are those of a GPU that is gone, and all while rationd is.
// Where processes that no limit holds have a GPU's memory, it has the chunks that claims have, and no others.
func (p *plugin) wanted() map[string]offer {
	told, _ := p.sight.Latest()
	own, claimed := heldOf(told.Claims), told.Guarantees(madeHere)
	seen := p.sight.Seen()
	alone := len(seen) > 0 && seen[0].Index == seen[len(seen)-1].Index
	wanted := map[string]offer{}
	for _, device := range seen {
		room, health := inventory.Room(device, claimed[device.UUID]), api.Healthy
		switch trouble := p.sight.Trouble(device); {
		case trouble == nil:
		case trouble.Key == inventory.TaintUngoverned:
			room = 0
		default:
			health = api.Unhealthy
		}
		gpu := inventory.DeviceName(device.UUID)
		devices := map[string]string{}
		for _, number := range offered(room, heldOn(own, gpu)) {
			devices[id(gpu, number)] = health
		}
		wanted[resourceName(device.Index, alone)] = offer{devices, device.NUMANodes} // of two GPUs of one number, of the one that is there
	}
	return wanted
}
