// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
)

func TestHelpFits(t *testing.T) { usagetest.HelpFits(t, newRoot()) }

func TestHelpIsOfNoMachine(t *testing.T) { usagetest.HelpIsOfNoMachine(t, newRoot) }

func TestFullDisk(t *testing.T) { usagetest.FullDisk(t, run) }
