// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"time"
)

// pingPong moves a MiB from one host to the other and back over TCP, whose checksums the kernel leaves to the interface.
func pingPong(l *lab) (err error) {
	var server net.Listener
	if err := l.hosts[1].ns.do(func() (err error) {
		server, err = net.Listen("tcp", net.JoinHostPort(l.hosts[1].addr.String(), "7000"))
		return err
	}); err != nil {
		return err
	}
	defer server.Close()
	go func() {
		if c, err := server.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	var client net.Conn
	if err := l.hosts[0].ns.do(func() (err error) {
		client, err = net.DialTimeout("tcp", server.Addr().String(), 10*time.Second)
		return err
	}); err != nil {
		return err
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	want := bytes.Repeat([]byte("trimming"), 1<<17)
	go func() { _, _ = client.Write(want) }()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("the content changed on the way")
	}
	return nil
}
