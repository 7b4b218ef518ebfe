package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers each line with itself, and tells which it got.
func echo(t *testing.T) (addr string, got chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got = make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					got <- line
					io.WriteString(c, line)
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

type asker struct {
	net.Conn
	lines chan string
}

func ask(t *testing.T, w *Wire, addr string) asker {
	t.Helper()
	c, err := w.Dial(context.Background(), addr, &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := asker{c, make(chan string, 10)}
	go func() {
		defer close(a.lines)
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			a.lines <- line
		}
	}()
	return a
}

func want(t *testing.T, from chan string, line string) {
	t.Helper()
	select {
	case got := <-from:
		if got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%q did not arrive", line)
	}
}

func TestWire(t *testing.T) {
	addr, got := echo(t)
	other, gotOther := echo(t)
	w := New(t)
	a, b := ask(t, w, addr), ask(t, w, other)
	fmt.Fprintln(a, "one")
	want(t, got, "one\n")
	want(t, a.lines, "one\n")

	w.Hold(addr)
	fmt.Fprintln(a, "two")
	held := ask(t, w, addr)
	fmt.Fprintln(held, "new")
	fmt.Fprintln(b, "by another way")
	want(t, gotOther, "by another way\n")
	want(t, b.lines, "by another way\n")
	if len(got) > 0 {
		t.Fatalf("%q passed", <-got)
	}

	w.HoldAnswers(addr)
	first, second := <-got, <-got // in any order
	if first != "two\n" && second != "two\n" {
		t.Errorf("%q and %q arrived, want two and new", first, second)
	}
	fmt.Fprintln(b, "still")
	want(t, b.lines, "still\n")
	if len(a.lines)+len(held.lines) > 0 {
		t.Fatal("an answer passed")
	}

	w.Heal("")
	want(t, a.lines, "two\n")
	want(t, held.lines, "new\n")

	w.Cut(addr)
	if line, open := <-a.lines; open {
		t.Errorf("after the cut: %q", line)
	}
	c := ask(t, w, addr)
	fmt.Fprintln(c, "three")
	if line, open := <-c.lines; open {
		t.Errorf("a new connection while it is cut: %q", line)
	}
	w.Heal(addr)
	d := ask(t, w, addr)
	fmt.Fprintln(d, "four")
	want(t, got, "four\n")
	want(t, d.lines, "four\n")
}
