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
//
// # Order
//
// Transfers of one direction meet in the order of StartSend and StartRecv (of calls from several goroutines nobody knows that order), but then
// they are under way together, share the rate, and end in any order: a short one may be whole while a longer one before it is not. So the end of
// a later transfer says nothing of an earlier one, as that of a write on a reliable queue pair does: wait for each that
// counts, or send what says that the data is there when Wait has returned for the data. One that fails, or is cancelled, takes no other along.
//
// Transfers may be started before the Conn is connected, and keep their place. What Cancel, or the end of a context, gives up then ends at once,
// as does a receive while those before it take all slots. Its place is kept, too: the peer's half, when its turn has come, fails.
//
// A send whose receive isn't posted waits for it, and nothing is lost. Ends that both send first and receive then
// wait for each other if they use Send and Recv, until Config.NoProgress ends both sends; StartRecv before Send avoids that, and spares a round trip.
//
// # Many peers
//
// One device and one sdr.Endpoint serve all Conns of a process, and memory that is registered once serves all of them, also for several
// sends at a time: open no device for each peer. A Conn takes no descriptor and no goroutine; with a session it
// takes the session's descriptor and two goroutines. Who waits for any of many transfers selects on their Done. The example ManyPeers is an all-to-all.
package reliability
