// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// environment is where a result comes from. Nothing in it names the machine.
type environment struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	Kernel  string `json:"kernel"`
	Version string `json:"version"`
}

func thisEnvironment() environment {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return environment{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Kernel: strings.TrimSpace(string(kernel)), Version: version(),
	}
}

// version is that of the module, with the commit when it was built from a working copy.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
