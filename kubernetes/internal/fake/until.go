package fake

import (
	"testing"
	"time"
)

// Until waits for a condition that another goroutine brings about.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatal("never: " + what)
}
