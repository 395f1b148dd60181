// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"os"
	"strconv"
	"strings"
)

// PortCounter reads a counter of the driver's own from sysfs (ports/N/hw_counters), such as rcvd_pkts of rxe. The
// kernel may return one that is up to 10 ms old. The error matches fs.ErrNotExist where there is no such counter.
func (c *Context) PortCounter(port int, name string) (uint64, error) {
	file := c.system.sys("class", "infiniband", c.info.Name, "ports", strconv.Itoa(port), "hw_counters", name)
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, &Error{Op: "read counter", Object: c.info.Name, Err: err}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, &Error{Op: "read counter " + name, Object: c.info.Name, Err: err}
	}
	return n, nil
}
