// SPDX-License-Identifier: Apache-2.0

package verbs

import "encoding/binary"

// Resources counts the objects of a device, of all processes and of the kernel itself, by kind: "ctx",
// "pd", "cq", "qp", "mr", "srq" and more (what rdma resource show prints, RDMA_NLDEV_CMD_RES_GET). It
// needs no privilege. The error is ErrNoDevice when there is no device of that name.
func Resources(name string) (map[string]uint64, error) {
	list, err := dump(nldevResGet, parseResources)
	if err != nil {
		return nil, wrap("count resources", name, err)
	}
	for _, r := range list {
		if r.device == name {
			return r.counts, nil
		}
	}
	return nil, &Error{Op: "count resources", Object: name, Err: ErrNoDevice}
}

// resources are the counts of one device.
type resources struct {
	device string
	counts map[string]uint64
}

// parseResources reads the attributes of one device.
func parseResources(b []byte) (r resources, err error) {
	r.counts = map[string]uint64{}
	err = attributes(b, func(kind uint16, v []byte) error {
		switch kind {
		case nldevName:
			r.device = text(v)
		case nldevSummary:
			return attributes(v, func(kind uint16, v []byte) error {
				if kind != nldevEntry {
					return nil
				}
				return r.entry(v)
			})
		}
		return nil
	})
	return r, err
}

// entry reads a name and a number. Linux 7 adds the limit, so what isn't known is skipped.
func (r *resources) entry(b []byte) error {
	var name string
	var count uint64
	err := attributes(b, func(kind uint16, v []byte) error {
		switch kind {
		case nldevEntryName:
			name = text(v)
		case nldevEntryCount:
			if len(v) < 8 {
				return shortAttribute(kind, v, 8)
			}
			count = binary.NativeEndian.Uint64(v)
		}
		return nil
	})
	if err == nil && name != "" {
		r.counts[name] = count
	}
	return err
}
