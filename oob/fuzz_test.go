// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// FuzzConn sends any bytes to a connection, which the application has or not, reads or not. They end it when the
// peer goes at the latest, and hold little memory until then.
func FuzzConn(f *testing.F) {
	var all []byte
	for n := range uint32(3) {
		all = appendFrame(all, frame{kind: kindMessage, number: n + 1, payload: []byte("message")})
		all = appendFrame(all, frame{kind: kindBlob, number: n + 1, payload: make([]byte, 100)})
	}
	f.Add(all, true, true)
	f.Add(append(all, appendFrame(nil, frame{kind: kindBye})...), false, true)
	f.Add(append(all, reasonFrame(CodeRejected, "because")...), true, false)
	f.Add(appendFrame(nil, frame{kind: kindMessage, number: 1, payload: make([]byte, 1<<15)}), false, false)
	f.Fuzz(func(t *testing.T, sent []byte, accepted, reads bool) {
		ours, theirs := net.Pipe()
		c := newConn(ours, Config{MaxBlob: 32 * units.KiB})
		if accepted {
			c.accept()
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		received := make(chan struct{})
		go func() {
			defer close(received)
			for reads {
				if _, err := c.Recv(ctx); err != nil {
					return
				}
			}
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_ = theirs.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // it may not read all
		_, _ = theirs.Write(sent)
		if queued := c.queued.Load(); queued > maxQueuedBlobs*32<<10 || !accepted && queued > maxUnaccepted {
			t.Fatalf("%d bytes wait to be received", queued)
		}
		theirs.Close()
		if !accepted {
			c.Close() // the listener's part
		}
		select {
		case <-c.Closed():
		case <-ctx.Done():
			t.Fatal("the connection has not ended")
		}
		if c.Err() == nil {
			t.Fatal("it ended without a reason")
		}
		<-received
		c.Close()
	})
}
