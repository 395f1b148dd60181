// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// live holds every open Context. The kernel keeps a forgotten one's memory registered for as long as
// its file is open, which no collector closes; so its memory must not be collected, or peers that have
// its keys would write into what is allocated there next.
var live contexts

type contexts struct {
	mu  sync.Mutex
	all map[*Context]struct{} // +checklocks:mu
}

func (s *contexts) add(c *Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*Context]struct{}{}
	}
	s.all[c] = struct{}{}
}

func (s *contexts) remove(c *Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}
