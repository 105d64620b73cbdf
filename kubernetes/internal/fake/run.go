package fake

import (
	"context"
	"sync"
	"testing"
)

// Run runs a program until the test, or stop, ends it; that it ends with an error is a failure. stop may be called again.
func Run(t *testing.T, program func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- program(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the program ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
