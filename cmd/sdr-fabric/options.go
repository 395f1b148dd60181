// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// An option is what may be written behind the colon of a flag's value: a name that ends in = takes a value, another stands alone.
type option struct {
	name string
	set  func(value string) error
}

// setOptions sets what s has of options, in the order of s, each once.
func setOptions(s string, options []option) error {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		name, value, valued := strings.Cut(part, "=")
		if seen[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		if err := setOption(name, value, valued, options); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setOption(name, value string, valued bool, options []option) error {
	var names []string
	for _, o := range options {
		bare, takes := strings.CutSuffix(o.name, "=")
		switch {
		case bare != name:
			names = append(names, o.name)
		case takes && !valued:
			return fmt.Errorf("write it with a value, %s=…", name)
		case valued && !takes:
			return fmt.Errorf("it takes no value: leave it out if it is not to be")
		default:
			return o.set(value)
		}
	}
	last := len(names) - 1
	return fmt.Errorf("unknown: choose %s or %s", strings.Join(names[:last], ", "), names[last])
}

// toTrue and the others below make an option's set of where its value goes.
func toTrue(to *bool) func(string) error {
	return func(string) error {
		*to = true
		return nil
	}
}

func toInt(to *int) func(string) error {
	return func(value string) (err error) {
		if *to, err = strconv.Atoi(value); err != nil {
			return fmt.Errorf("%q: write a whole number", value)
		}
		return nil
	}
}

func toFloat(to *float64) func(string) error {
	return func(value string) (err error) {
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%q: write a number", value)
		}
		return nil
	}
}

func toDuration(to *units.Duration) func(string) error { return (*units.DurationValue)(to).Set }

// positive refuses the zeros that the simulator would take for its defaults: what the config of a report says is what ran.
func positive(set func(string) error) func(string) error {
	return func(value string) error {
		err := set(value)
		if err == nil && !strings.ContainsAny(value, "123456789") {
			return fmt.Errorf("%q: must be above 0; leave it out for the default", value)
		}
		return err
	}
}

// only is of an option that has one value, and says what is without it.
func only(word, without string, to *bool) func(string) error {
	return func(value string) error {
		if *to = value == word; !*to {
			return fmt.Errorf("%q: only %s can be written; without it %s", value, word, without)
		}
		return nil
	}
}
