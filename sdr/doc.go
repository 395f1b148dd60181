// SPDX-License-Identifier: Apache-2.0

// Package sdr is the SDK of software-defined reliability: messages over unreliable RDMA writes that may
// arrive in part, with a live bitmap that shows the receiver which part (SDR-RDMA paper, section 3 and
// Table 1). It repeats nothing. Package reliability builds transfers on it that arrive whole; most programs want
// that one, or sdrnet.
//
// An Endpoint runs a device: its workers poll completion queues, turn packets into bits with package dpa,
// and look after the QPs. A QP is a connection to one peer that carries messages in both directions. Each is a number of
// unreliable queue pairs of the device, one a path and generation, and a control channel over datagrams that no
// loss can break. An MR is memory that messages are sent from and land in.
//
// # A message
//
// The n-th receive that one side posts (QP.PostRecv) is the buffer of the n-th send of the other (QP.PostSend, or
// QP.StartStream for ranges in any order). Posting exposes the buffer's address and sends the peer a
// clear-to-send. Packets carry slot and offset in their immediate; as they land, RecvHandle.Bitmap shows whole
// chunks, and RecvHandle.Packets single packets. The receiver completes a message when it likes
// (RecvHandle.Complete); when the fence is down (Done, Wait) no packet, however late, can change the buffer, which is then
// its owner's again, or a bit of any newer message. SendHandle.Poll reports when the sender's memory is
// its owner's again, which says nothing of arrival.
//
// # Reliability on a QP
//
// A Driver gets all that happens on a QP and decides what to send; it works through a Port, which is valid while the
// QP's worker is in Driver.Progress.
//
// # Concurrency
//
// All methods may be called from any goroutine, except with Manual workers: then the program calls
// Endpoint.Progress, and everything else, from one goroutine; that is the only mode in virtual time. Poll, Done and the
// reading methods of bitmaps take no lock. What blocks takes a context.Context, and a Driver can't call it.
//
// Errors are OpErrors, which say what failed on which object, why, and what to do; errors.Is tells the causes apart, such
// as ErrPeerDead and ErrAgain.
package sdr
