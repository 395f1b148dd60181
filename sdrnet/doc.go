// SPDX-License-Identifier: Apache-2.0

// Package sdrnet is sdr for people who know package net: listen, dial, send messages, read and
// write streams, move files. It opens the device, makes the connection and owns the memory; the
// layers below it (reliability, sdr, a backend) stay within reach of those who need more.
//
//	l, err := sdrnet.Listen("192.0.2.1:18515", nil)
//	c, err := l.Accept(ctx)                            c, err := sdrnet.Dial(ctx, "192.0.2.1:18515", nil)
//	m, err := c.Recv(ctx)                              err = c.Send(ctx, []byte("hello"))
//	use(m.Bytes()); m.Release()
//
// # What a Conn carries
//
// Messages: [Conn.Send] and [Conn.Recv] keep boundaries and order, and need no receive to be posted:
// Config.Window buffers wait at each end. A sender whose peer doesn't call Recv waits.
//
// A stream: [Conn.Stream] is a net.Conn over the same messages. Use one or the other. A [Listener] is no net.Listener, since its Accept
// returns a Conn and takes a context: the ten lines that make it one, for net/http, net/rpc and the like, are in the example Http.
//
// Memory: [Conn.SendMemory] and [Conn.RecvMemory] move bytes between registered memory of the two
// applications without a copy (on userroce: without one in user space), of any length. The n-th call
// of one meets the n-th of the other, independently of the messages. [Conn.SendFrom] and
// [Conn.RecvTo] are the same for what is read from and written to at offsets.
//
// Files: [Conn.SendFile] and [Conn.RecvFile] move a file with its name, permissions and time of change, and compare
// its SHA-256 at the end.
//
// # Ends
//
// Both ends need the same Config.Scheme. They meet over TCP at the address that Listen was given, whose
// port is DefaultPort if it names none; data then travels as RDMA packets over UDP between the same two
// hosts. Config.TLS protects that meeting only: the packets themselves are neither encrypted nor
// authenticated.
//
// # Errors
//
// Errors wrap what programs written for package net ask for: net.ErrClosed when this end has closed
// the Conn or Listener, or a stream of SendFrom has failed before; os.ErrDeadlineExceeded after a deadline; and when the
// peer has closed in order, io.EOF from Recv and Read, from Read only behind all that it wrote, and syscall.EPIPE and sdr.ErrPeerClosed from what sends.
// A peer that died is sdr.ErrPeerDead. One that closed with a reason, in words of its own or because the connection had failed at its end, is an
// *oob.PeerError. Where the peer lives and has only given
// up its half of a transfer between memories or of a stream, RecvMemory and RecvTo fail with sdr.ErrAborted, SendMemory and SendFrom with sdr.ErrCompleted.
//
// The error of a call that its context ended wraps both ctx.Err and context.Cause(ctx), and after a deadline
// of the context os.ErrDeadlineExceeded, too.
//
// What is wrong with a configuration, an argument or the peer is an *operr.Error. Not in that shape are
// net.ErrClosed, io.EOF, syscall.EPIPE (writing after CloseWrite), a Stream's os.ErrDeadlineExceeded and the errors of a context where
// nothing more is to be said, and what a FileTarget, the reader of SendFile and SendFrom, and the writer of RecvTo return, which is
// passed on as it is.
package sdrnet
