// SPDX-License-Identifier: Apache-2.0

package point

import (
	"encoding/json"
	"errors"
	"io"
)

// turns is the pipe between the two processes. Both say something and hear what
// the other said.
type turns struct {
	in  *json.Decoder
	out *json.Encoder
}

func newTurns(pipe io.ReadWriter) *turns {
	return &turns{json.NewDecoder(pipe), json.NewEncoder(pipe)}
}

// said is what one says. More, from the sender, announces another transfer.
type said struct {
	More bool   `json:"more,omitempty"`
	Blob []byte `json:"blob,omitempty"`
	Err  string `json:"err,omitempty"`
}

// exchange gives the peer a blob for its own.
func (t *turns) exchange(blob []byte) ([]byte, error) {
	theirs, err := t.say(said{Blob: blob})
	return theirs.Blob, err
}

// meet waits for the peer to come to the same point, with ours or with an error.
func (t *turns) meet(ours error) error {
	_, err := t.part(false, ours)
	return err
}

// part is meet at the end of a transfer; either says whether another follows.
func (t *turns) part(more bool, ours error) (bool, error) {
	s := said{More: more}
	if ours != nil {
		s.Err = ours.Error()
	}
	theirs, err := t.say(s)
	return more || theirs.More, errors.Join(ours, err)
}

func (t *turns) say(ours said) (theirs said, err error) {
	if err := t.out.Encode(ours); err != nil {
		return theirs, errors.New("the other end is gone")
	}
	if err := t.in.Decode(&theirs); err != nil {
		return theirs, errors.New("the other end is gone")
	}
	if theirs.Err != "" {
		return theirs, errors.New("the other end: " + theirs.Err)
	}
	return theirs, nil
}
