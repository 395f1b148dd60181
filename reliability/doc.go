// SPDX-License-Identifier: Apache-2.0

// Package reliability moves whole transfers over an sdr QP with a reliability
// scheme of the application's choice.
//
// A Conn has two independent directions. In each, the k-th Send meets the k-th
// Recv, whatever their sizes; a transfer may be of any length and uses as many
// messages as its receiver has slots for. Conn owns buffers, messages, pacing and
// windows; the Scheme decides what is sent, repeated and coded (package scheme).
//
//	conn, err := reliability.NewConn(ctx, sdr.QPConfig{}, reliability.Config{Scheme: s})
//	// exchange conn.Info() out of band
//	err = conn.Connect(ctx, peerInfo)
//	err = conn.Send(ctx, mr, 0, n, reliability.SendOptions{}) // at one end
//	got, err := conn.Recv(ctx, mr, 0, max)                    // at the other: got.Length bytes
//
// A Conn runs on the workers of its sdr.Endpoint, or, with Manual workers, in the
// caller's goroutine; then the blocking calls are refused and StartSend and
// StartRecv are used instead.
package reliability
