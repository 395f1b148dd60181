// SPDX-License-Identifier: Apache-2.0

// Package reliability moves whole transfers over an sdr QP with a reliability
// scheme of the application's choice.
//
// A Conn has two independent directions. In each, the k-th Send meets the k-th
// Recv, whatever their sizes; a transfer may be of any length and uses as many
// messages as its receiver has slots for. Conn owns buffers, messages, pacing and
// windows; the Scheme decides what is sent, repeated and coded (package scheme).
//
//	dev, err := userroce.Open(userroce.Config{Addr: own})          // or another backend
//	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
//	s, err := adaptive.New(adaptive.Config{})                      // a Scheme of its own for each Conn, of the same kind on both sides
//	conn, err := reliability.NewConn(ep, sdr.QPConfig{}, reliability.Config{Scheme: s})
//	session, err := oob.Dial(ctx, addr, oob.Config{})              // on the other side Listen and Accept
//	err = conn.ConnectOver(ctx, session)
//	mr, err := ep.RegisterMemory(buf, sdr.AccessRemoteWrite)
//	err = conn.Send(ctx, mr, 0, n, reliability.SendOptions{})      // on one side
//	got, err := conn.Recv(ctx, mr, 0, mr.Len())                    // at the other: got.Length bytes
//
// The Conn is closed first, then memory, Endpoint and device. Package sdrnet does all of this by itself.
//
// A Conn runs on the workers of its sdr.Endpoint, or, with Manual workers, in the
// caller's goroutine; then the blocking calls are refused and StartSend and
// StartRecv are used instead.
package reliability
