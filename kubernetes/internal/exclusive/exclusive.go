// Package exclusive sees to it that one program of a node offers its GPUs: two that do not know of each other would hand the same memory out twice.
package exclusive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ration.sh/kubernetes/inventory"
)

// Folder is where the lock lies, in kubelet's folder. What runs in a pod has it mounted.
func Folder(kubelet string) string { return filepath.Join(kubelet, "plugins", inventory.Driver) }

// Take makes this program, called `who`, the one that offers the node's GPUs, until release is called or it ends. Where another one is, it waits: an
// upgrade's predecessor takes a moment to go.
func Take(ctx context.Context, kubelet, who string, patience time.Duration) (release func(), err error) {
	folder := Folder(kubelet)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	ticker := time.NewTicker(patience / 100)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			holder, _ := io.ReadAll(io.LimitReader(file, 64))
			file.Close()
			return nil, fmt.Errorf("the GPUs of this node are offered by ration-kubernetes %s already, which holds %s. To do: let one of the two DaemonSets select the node, "+
				"kubectl get daemonsets --all-namespaces | grep ration", holder, path)
		}
	}
	// For whoever comes second. A lock whose holder cannot be told is a lock.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(who), 0)
	}
	return func() { file.Close() }, nil
}
