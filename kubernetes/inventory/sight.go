package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"ration.sh/kubernetes/daemon"
)

// Told is what rationd tells in one look: its GPUs, and whom it has promised memory.
type Told struct {
	Node   daemon.Node
	Claims []daemon.Granted
}

// Look asks rationd.
func Look(ctx context.Context, client *daemon.Client) (told Told, err error) {
	if told.Node, err = client.Node(ctx); err == nil {
		told.Claims, err = client.Claims(ctx)
	}
	return told, err
}

// Find knows a GPU by its name in the cluster.
func (t Told) Find(name string) (daemon.Device, bool) {
	for _, device := range t.Node.Devices {
		if DeviceName(device.UUID) == name {
			return device, true
		}
	}
	return daemon.Device{}, false
}

// Guarantees adds up by GPU what claims of a kind are promised.
func (t Told) Guarantees(ofKind func(daemon.Granted) bool) map[string]int64 {
	sums := map[string]int64{}
	for _, each := range t.Claims {
		if !ofKind(each) {
			continue
		}
		for _, device := range each.Devices {
			sums[device.UUID] += device.GuaranteeBytes
		}
	}
	return sums
}

// KindOf is the kind of the CDI devices that bring device files into a container; simulated GPUs have none.
func (t Told) KindOf(gpuKind string) string {
	if t.Node.Simulated {
		return ""
	}
	return gpuKind
}

// Sight is rationd's node over time: what it told last, and every GPU that it has told since the program started. It may be used by several goroutines.
type Sight struct {
	absent time.Duration

	mutex sync.Mutex
	told  Told
	at    time.Time                // of the last answer
	seen  map[string]daemon.Device // by UUID
}

// NewSight: a rationd that has not answered for so long is absent.
func NewSight(absent time.Duration) *Sight {
	return &Sight{absent: absent, seen: map[string]daemon.Device{}}
}

// Update takes what rationd told.
func (s *Sight) Update(told Told) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.told, s.at = told, time.Now()
	for _, device := range told.Node.Devices {
		s.seen[device.UUID] = device
	}
}

// Latest is what rationd told last, and when; never: the zero time.
func (s *Sight) Latest() (Told, time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.told, s.at
}

// Seen is every GPU that was ever told, by its number and, of two with the same, the one that is gone first.
func (s *Sight) Seen() []daemon.Device {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	devices := slices.Collect(maps.Values(s.seen))
	rank := func(device daemon.Device) int {
		if _, there := s.told.Find(DeviceName(device.UUID)); there {
			return 1
		}
		return 0
	}
	slices.SortFunc(devices, func(a, b daemon.Device) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.UUID, b.UUID))
	})
	return devices
}

// Absent says whether rationd has not answered for too long.
func (s *Sight) Absent() bool {
	_, at := s.Latest()
	return time.Since(at) > s.absent
}

// Trouble is why new claims should keep away from a GPU that was seen; nil: nothing is.
func (s *Sight) Trouble(device daemon.Device) *Trouble {
	told, _ := s.Latest()
	if s.Absent() {
		return &Trouble{TaintAbsent, "rationd-does-not-answer"}
	}
	if _, found := told.Find(DeviceName(device.UUID)); !found {
		return &Trouble{TaintAbsent, "the-GPU-is-gone"}
	}
	if device.UngovernedBytes != nil && *device.UngovernedBytes > device.KeepFreeBytes {
		return &Trouble{TaintUngoverned, "held-by-ungoverned-processes"}
	}
	return nil
}
