// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/qemu"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"golang.org/x/sys/unix"
)

// probeLimit bounds the probe: a working KVM ends it in 6 s, a broken one dies or hangs.
const probeLimit = 20 * time.Second

// chooseAccel settles -accel auto. /dev/kvm alone proves nothing: on some nested hypervisors it
// opens, boots and then ends the VM with an internal error on its first unusual instruction. So
// a VM first has to survive some seconds of context switches and memory pressure; the answer
// holds until the host reboots.
func chooseAccel(ctx context.Context, c *config, p *prepared) (qemu.Accel, error) {
	switch c.accel {
	case "tcg", "count":
		return qemu.Accel(c.accel), nil
	case "kvm", "auto":
	default:
		return "", fmt.Errorf("-accel %s: it must be auto, kvm, tcg or count", c.accel)
	}
	switch foreign := p.kernel.Arch != runtime.GOARCH; {
	case foreign && c.accel == "kvm":
		return "", fmt.Errorf("-accel kvm: kernel %s is for %s, this host is %s", c.kernel, p.kernel.Arch, runtime.GOARCH)
	case foreign:
		return qemu.TCG, nil
	case c.accel == "kvm":
		return qemu.KVM, nil
	}
	if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		return qemu.TCG, nil
	}
	if accel, ok := rememberedAccel(c); ok {
		return accel, nil
	}
	progress("probing whether KVM works")
	accel := qemu.TCG
	why := probe(ctx, c, p)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case why == nil:
		accel = qemu.KVM
	case c.verbose:
		progress("KVM does not work: " + why.Error())
	}
	progress("using " + string(accel))
	return accel, rememberAccel(c, accel)
}

// bootID changes when the host reboots, which is when a hypervisor may have changed.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

func accelFile(c *config) string { return filepath.Join(c.cache, "kvm-probe") }

func rememberAccel(c *config, accel qemu.Accel) error {
	id, err := bootID()
	if err != nil {
		return err
	}
	return os.WriteFile(accelFile(c), fmt.Appendf(nil, "%s %s\n", id, accel), 0o644)
}

func rememberedAccel(c *config) (qemu.Accel, bool) {
	id, err := bootID()
	if err != nil {
		return "", false
	}
	b, err := os.ReadFile(accelFile(c))
	f := strings.Fields(string(b))
	if err != nil || len(f) != 2 || f[0] != id {
		return "", false
	}
	return qemu.Accel(f[1]), true
}

// probe boots with KVM and runs init's stress job.
func probe(ctx context.Context, c *config, p *prepared) error {
	kvm := *p
	kvm.accel = qemu.KVM
	m := vmjob.Manifest{Jobs: []vmjob.Job{{Name: "probe", Argv: []string{"/init", "stress"}, Dir: "/"}}}
	status, err := bootOnce(ctx, c, &kvm, bootJobs{manifest: m, limit: probeLimit, quiet: true})
	if err == nil && status != 0 {
		err = fmt.Errorf("probe exited with %d", status)
	}
	return err
}
