// Package once logs what goes wrong at every round of a loop once.
package once

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
)

// Log is of one loop.
type Log struct{ said string }

// Error logs an error that is another one than at the round before. Nil: nothing is wrong any more.
func (l *Log) Error(ctx context.Context, err error, what string) {
	text := fmt.Sprint(err)
	if text == l.said || ctx.Err() != nil {
		return
	}
	l.said = text
	if err != nil {
		klog.FromContext(ctx).Error(err, what)
	}
}
