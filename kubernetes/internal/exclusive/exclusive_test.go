package exclusive

import (
	"context"
	"strings"
	"testing"
	"time"

	"ration.sh/kubernetes/internal/fake"
)

func TestWhoComesSecondIsToldWhoIsThere(t *testing.T) {
	folder := fake.Folder(t)
	release, err := Take(context.Background(), folder, "dra", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, err = Take(context.Background(), folder, "device-plugin", 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "the GPUs of this node are offered by ration-kubernetes dra already") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the second is told %v", err)
	}
}

func TestAnUpgradesPredecessorIsWaitedFor(t *testing.T) {
	folder := fake.Folder(t)
	release, err := Take(context.Background(), folder, "dra", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan error)
	go func() {
		again, err := Take(context.Background(), folder, "dra", 20*time.Second)
		if err == nil {
			again()
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		t.Fatalf("two at once: %v", err)
	case <-time.After(100 * time.Millisecond): // not a wait for anything: it must not come
	}
	release()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}
