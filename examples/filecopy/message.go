// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxMessage bounds a short message: a hash, or a sentence.
const maxMessage = 512

// A mailbox is registered memory for short messages between the ends, which are transfers like the
// file's pieces.
type mailbox struct {
	conn *reliability.Conn
	mr   *sdr.MR
	buf  []byte
}

func newMailbox(e *endpoint) (*mailbox, error) {
	buf, err := sdr.AllocBuffer(maxMessage)
	if err != nil {
		return nil, err
	}
	mr, err := e.ctx.RegisterMemory(buf, sdr.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	return &mailbox{e.conn, mr, buf}, nil
}

func (m *mailbox) send(ctx context.Context, b []byte) error {
	n := copy(m.buf, b)
	return m.conn.Send(ctx, m.mr, 0, units.Bytes(n))
}

func (m *mailbox) recv(ctx context.Context) ([]byte, error) {
	n, err := m.conn.Recv(ctx, m.mr, 0, maxMessage)
	return m.buf[:n], err
}

// close frees the memory, unless it is still in the network's hands.
func (m *mailbox) close() {
	if m.mr.Close() == nil {
		_ = sdr.FreeBuffer(m.buf)
	}
}
