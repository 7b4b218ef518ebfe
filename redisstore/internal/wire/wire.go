// Package wire is the network between a process and the servers it talks to, for tests: a proxy on the
// loopback interface for each server. A test may hold up what passes, in both directions or only
// answers, and cut connections. What was held up arrives when the test lets it, as after a
// partition.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
)

// A Wire is the network of one process. Addresses are those of servers.
type Wire struct {
	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	proxies map[string]*proxy
}

type proxy struct {
	addr     string // of the server
	listener net.Listener
	state    state
	conns    map[net.Conn]bool
}

type state struct{ holdQuestions, holdAnswers, cut bool }

// New returns a network that is whole, until the test ends.
func New(t testing.TB) *Wire {
	w := &Wire{proxies: map[string]*proxy{}}
	w.changed = sync.NewCond(&w.mu)
	t.Cleanup(w.close)
	return w
}

func (w *Wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, p := range w.proxies {
		p.listener.Close()
		p.drop()
	}
	w.changed.Broadcast()
}

// Dial connects to a server by its proxy.
func (w *Wire) Dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	w.mu.Lock()
	p, err := w.proxy(addr)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return d.DialContext(ctx, "tcp", p.listener.Addr().String())
}

// proxy returns the proxy of a server, under the lock.
func (w *Wire) proxy(addr string) (*proxy, error) {
	if p := w.proxies[addr]; p != nil {
		return p, nil
	}
	if w.closed {
		return nil, errors.New("wire: closed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: addr, listener: l, conns: map[net.Conn]bool{}}
	w.proxies[addr] = p
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(p, c)
		}
	}()
	return p, nil
}

// carry connects c with the server of p.
func (w *Wire) carry(p *proxy, c net.Conn) {
	if !w.keep(p, c) {
		return
	}
	if !w.wait(p, func(s state) bool { return s.holdQuestions }) { // nor does a connection come about
		w.drop(p, c)
		return
	}
	far, err := net.Dial("tcp", p.addr)
	if err != nil || !w.keep(p, far) {
		w.drop(p, c)
		return
	}
	var wg sync.WaitGroup
	copies := func(dst, src net.Conn, held func(state) bool) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if n > 0 {
				if !w.wait(p, held) {
					break
				}
				if _, err := dst.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		w.drop(p, c)
		w.drop(p, far)
	}
	wg.Go(func() { copies(far, c, func(s state) bool { return s.holdQuestions }) })
	wg.Go(func() { copies(c, far, func(s state) bool { return s.holdAnswers }) })
	wg.Wait()
}

// keep makes c one of the connections of p, or closes it.
func (w *Wire) keep(p *proxy, c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (w *Wire) drop(p *proxy, c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) drop() {
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// wait waits while held, and reports whether p is not cut.
func (w *Wire) wait(p *proxy, held func(state) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for held(p.state) && !w.closed {
		w.changed.Wait()
	}
	return !w.closed && !p.state.cut
}

// set changes the state of the way to a server, or to all that are known if addr is empty.
func (w *Wire) set(addr string, s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if addr != "" {
		w.proxy(addr) // one that is not there yet is to be so, too; an error shows when it is dialled
	}
	for at, p := range w.proxies {
		if addr == "" || at == addr {
			if p.state = s; s.cut {
				p.drop()
			}
		}
	}
	w.changed.Broadcast()
}

// Hold lets nothing pass, and no connection come about.
func (w *Wire) Hold(addr string) { w.set(addr, state{holdQuestions: true, holdAnswers: true}) }

// HoldAnswers lets questions pass, and no answer.
func (w *Wire) HoldAnswers(addr string) { w.set(addr, state{holdAnswers: true}) }

// Cut ends all connections, and new ones at once.
func (w *Wire) Cut(addr string) { w.set(addr, state{cut: true}) }

// Heal makes it whole. What was held passes.
func (w *Wire) Heal(addr string) { w.set(addr, state{}) }
