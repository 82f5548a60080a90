package nats

import "time"

// WithAckWait sets the time until what was delivered and not acknowledged is delivered again.
func (o Options) WithAckWait(d time.Duration) Options {
	o.ackWait = d
	return o
}
