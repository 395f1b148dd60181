// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func ExampleDevices() {
	devices, err := verbs.Devices()
	if err != nil {
		log.Print(err) // some devices could not be read; the others are listed
	}
	for _, d := range devices {
		fmt.Println(d.Name, d.Driver, d.NodeGUID)
	}
}

// A sender posts a batch of UC RDMA writes with immediate and polls for their completions.
func ExampleQP_PostSend() {
	send := func(qp *verbs.QP, cq *verbs.CQ, mr *verbs.MR, remoteAddr uint64, rkey uint32) error {
		wrs := make([]verbs.SendWR, 8)
		for i := range wrs {
			wrs[i] = verbs.SendWR{
				Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(i), Local: mr.SGE(i*4096, 4096),
				RemoteAddr: remoteAddr + uint64(i)*4096, RKey: rkey,
			}
		}
		wrs[len(wrs)-1].Flags = verbs.SendSignaled // one completion for the batch
		if _, err := qp.PostSend(wrs); err != nil {
			return err
		}
		var wcs [1]verbs.WC
		for {
			n, err := cq.Poll(wcs[:])
			if err != nil {
				return err
			}
			if n == 1 && wcs[0].Status != verbs.WCSuccess {
				return fmt.Errorf("write %d: %v", wcs[0].WRID, wcs[0].Status)
			}
			if n == 1 {
				return nil
			}
		}
	}
	_ = send
}

// A receiver sleeps in the netpoller until completions arrive. What came between Poll and
// RequestNotify is not announced, so it polls once more before it sleeps.
func ExampleCompChannel_Wait() {
	receive := func(ctx context.Context, ch *verbs.CompChannel, cq *verbs.CQ, handle func(verbs.WC)) error {
		var wcs [64]verbs.WC
		for {
			if err := cq.RequestNotify(false); err != nil {
				return err
			}
			for {
				n, err := cq.Poll(wcs[:])
				if err != nil {
					return err
				}
				for _, wc := range wcs[:n] {
					handle(wc)
				}
				if n == 0 {
					break
				}
			}
			if _, err := ch.Wait(ctx); err != nil {
				return err
			}
		}
	}
	_ = receive
}
