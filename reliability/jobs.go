// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A jobRunner runs coding jobs.
type jobRunner struct{ c *Conn }

func (r *jobRunner) init(c *Conn)              { r.c = c }
func (r *jobRunner) stop()                     {}
func (r *jobRunner) collect(units.Instant)     {}
func (r *jobRunner) busy(*recvTransfer) bool   { return false }
func (r *jobRunner) writes(*sendTransfer) bool { return false }

func (c *Conn) startJobs(s *sendTransfer, r *recvTransfer, jobs []scheme.Job) {
	if len(jobs) == 0 {
		return
	}
	err := fmt.Errorf("%w: the scheme codes, and no coder is linked", sdr.ErrNotSupported)
	if s != nil {
		c.failSend(s, err)
	} else {
		c.failRecv(r, err)
	}
}
