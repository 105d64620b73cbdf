package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/inventory"
)

// claims makes claims of rationd for what kubelet hands out, and ends them once it is in nobody's hands. It may be used by several goroutines.
type claims struct {
	daemon *daemon.Client
	leave  time.Duration // between the two looks that a claim's end takes

	mutex   sync.Mutex
	grants  int                  // how often something was handed out
	missing map[string]time.Time // by id: claims that nobody had at the latest look, and since when
}

// mostAgain claims are used again for one container. The label of its book that names its claims has room for ten.
const mostAgain = 4

// grant puts before rationd what kubelet hands out; the answer is the names of the devices by which a container comes under it.
//
// Kubelet hands a chunk out again once it is free, or to a container that follows another in its pod, which it does not tell apart. So claims that are of these
// chunks alone are used again, beside one for the rest: a container that is to run first keeps its own. One that has other chunks, too, is over.
func (c *claims) grant(ctx context.Context, device daemon.Device, numbers chunks) ([]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.grants++
	all, err := c.daemon.Claims(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	rest := slices.Clone(numbers)
	for _, each := range heldOf(all) {
		if each.Devices[0].UUID != device.UUID || !slices.ContainsFunc(each.numbers, func(n int) bool { return slices.Contains(numbers, n) }) {
			continue
		}
		if len(names) < mostAgain && within(each.numbers, rest) {
			delete(c.missing, each.ID)
			rest = slices.DeleteFunc(rest, func(n int) bool { return slices.Contains(each.numbers, n) })
			names = append(names, each.CDI)
			continue
		}
		if err := c.end(ctx, each.Granted, "its chunks are handed out anew"); err != nil {
			return nil, err
		}
	}
	if len(rest) == 0 {
		return names, nil
	}
	granted, err := c.daemon.Put(ctx, claimID(inventory.DeviceName(device.UUID), rest), claimOf(device, rest))
	if err != nil {
		return nil, err
	}
	return append(names, granted.CDI), nil
}

func within(part, all chunks) bool {
	return !slices.ContainsFunc(part, func(n int) bool { return !slices.Contains(all, n) })
}

func (c *claims) end(ctx context.Context, granted daemon.Granted, why string) error {
	if err := c.daemon.Delete(ctx, granted.ID); err != nil {
		return fmt.Errorf("claim %s was not ended: %w", granted.ID, err)
	}
	delete(c.missing, granted.ID)
	klog.FromContext(ctx).Info("Ended a claim", "claim", granted.ID, "chunks", granted.Name, "because", why)
	return nil
}

// tidy ends claims of whose chunks nobody had one in two looks: kubelet writes down what it hands out a moment after it was asked for here. It knows by
// kubelet's word alone; when that is silent, nothing ends. The answer says whether kubelet's checkpoint alone speaks for a claim.
func (c *claims) tidy(ctx context.Context, kubelet kubelet) (stale bool, err error) {
	c.mutex.Lock()
	before := c.grants
	c.mutex.Unlock()
	all, err := c.daemon.Claims(ctx)
	if err != nil {
		return false, err
	}
	own := heldOf(all)
	if len(own) == 0 {
		return false, nil
	}
	pods, checkpoint, err := kubelet.inUse(ctx)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err != nil {
		c.missing = nil
		return false, err
	}
	if c.grants != before { // what was looked at has changed meanwhile
		return false, nil
	}
	missing := map[string]time.Time{}
	for _, each := range own {
		if each.anyOf(pods) {
			continue
		}
		if each.anyOf(checkpoint) {
			stale = true
			continue
		}
		since, known := c.missing[each.ID]
		if !known {
			since = time.Now()
		}
		missing[each.ID] = since
	}
	c.missing = missing
	for _, each := range own {
		if since, known := missing[each.ID]; known && time.Since(since) >= c.leave {
			if err := c.end(ctx, each.Granted, "no pod has its chunks"); err != nil {
				return stale, err
			}
		}
	}
	return stale, nil
}

// anyOf says whether one of its chunks is among these devices of kubelet's.
func (h held) anyOf(ids map[string]bool) bool {
	return slices.ContainsFunc(h.numbers, func(number int) bool { return ids[id(h.gpu, number)] })
}
