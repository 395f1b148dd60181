// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// A server that answers one message, and its client.
func Example() {
	ctx := context.Background()
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		m, err := c.Recv(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Send(ctx, append([]byte("you said: "), m.Bytes()...)); err != nil {
			log.Fatal(err)
		}
		m.Release()
		_, _ = c.Recv(ctx) // io.EOF, when the client has closed
	}()

	c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m, err := c.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	// Output: you said: hello
}

// Bytes in order, with an end for each direction, as over TCP.
func ExampleConn_Stream() {
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		s := c.Stream()
		defer s.Close()
		_, _ = io.Copy(s, s)
	}()

	c, err := sdrnet.Dial(context.Background(), l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	s := c.Stream()
	defer s.Close()
	fmt.Fprintln(s, "a line")
	if err := s.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	echo, err := io.ReadAll(s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", echo)
	// Output: a line
}

// A file with its name, which appears in the receiver's folder when all of it is there.
func ExampleConn_SendFile() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		const content = "dear all"
		info := sdrnet.FileInfo{Name: "letter.txt", Size: int64(len(content)), Mode: 0o644}
		if err := c.SendFile(ctx, strings.NewReader(content), info, nil); err != nil {
			log.Fatal(err)
		}
	}()

	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	to, err := sdrnet.CreateFile(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	info, err := c.RecvFile(ctx, to, nil)
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(to.Name())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(to.Name()), info.Size, string(text))
	// Output: letter.txt 8 dear all
}

// Memory to memory, without a copy: the n-th RecvMemory meets the n-th SendMemory.
func ExampleConn_SendMemory() {
	ctx := context.Background()
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		m, err := c.Alloc(1 << 20)
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close()
		n := copy(m.Bytes(), "gradients")
		if err := c.SendMemory(ctx, m, 0, n, sdrnet.SendOptions{Imm: 7, HasImm: true}); err != nil {
			log.Fatal(err)
		}
	}()

	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	m, err := c.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	got, err := c.RecvMemory(ctx, m, 0, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, step %d\n", m.Bytes()[:got.Length], got.Imm)
	// Output: gradients, step 7
}

// What was interrupted goes on where it was: the receiver says in a message how much it has, and gets the rest.
func ExampleConn_SendFrom() {
	ctx := context.Background()
	l, err := sdrnet.Listen("127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		const content = "a checkpoint"
		m, err := c.Recv(ctx)
		if err != nil {
			log.Fatal(err)
		}
		have, err := strconv.ParseInt(string(m.Bytes()), 10, 64)
		m.Release()
		if err != nil || have < 0 || have > int64(len(content)) {
			log.Fatal("the peer has what there isn't")
		}
		rest := int64(len(content)) - have
		if err := c.SendFrom(ctx, io.NewSectionReader(strings.NewReader(content), have, rest), rest, nil); err != nil {
			log.Fatal(err)
		}
		_, _ = c.Recv(ctx) // io.EOF, when the receiver has written it and closed
	}()

	file, err := os.CreateTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())
	have, err := file.WriteString("a check") // what came before the interruption
	if err != nil {
		log.Fatal(err)
	}
	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(ctx, strconv.AppendInt(nil, int64(have), 10)); err != nil {
		log.Fatal(err)
	}
	n, err := c.RecvTo(ctx, io.NewOffsetWriter(file, int64(have)), nil)
	if err != nil {
		log.Fatal(err) // n bytes more are there: the next connection goes on behind them
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, string(text))
	// Output: 5 a checkpoint
}
