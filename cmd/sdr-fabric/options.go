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

// setOptions sets what s has of options, in the order of s.
func setOptions(s string, options []option) error {
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if err := setOption(name, value, options); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setOption(name, value string, options []option) error {
	var names []string
	for _, o := range options {
		if strings.TrimSuffix(o.name, "=") == name {
			return o.set(value)
		}
		names = append(names, o.name)
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

// only is of an option that has one value, and says what is without it.
func only(word, without string, to *bool) func(string) error {
	return func(value string) error {
		if *to = value == word; !*to {
			return fmt.Errorf("%q: only %s can be written; without it %s", value, word, without)
		}
		return nil
	}
}
