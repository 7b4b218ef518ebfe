package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward/outcome"
)

// Health says how copies of the application are checked: by a GET of Path on a
// connection of its own. 0 takes the default.
type Health struct {
	Path     string           // of the target
	Every    time.Duration    // between checks of one copy: 5 s
	Timeout  time.Duration    // for a check: 2 s
	Statuses outcome.Statuses // that healthy copies answer: 200 to 299
	// A copy is unhealthy after so many failed checks in a row, and healthy again after
	// so many good ones: 2 and 2. Each begins healthy.
	UnhealthyAfter, HealthyAfter int
}

// Defaults of Health.
const (
	DefaultEvery   = 5 * time.Second
	DefaultTimeout = 2 * time.Second
	DefaultAfter   = 2
)

// DefaultStatuses are what a healthy copy answers when nothing else is said.
func DefaultStatuses() outcome.Statuses { return outcome.Statuses{{First: 200, Last: 299}} }

func (h Health) complete() (Health, error) {
	if h.Every == 0 {
		h.Every = DefaultEvery
	}
	if h.Timeout == 0 {
		h.Timeout = DefaultTimeout
	}
	if h.UnhealthyAfter == 0 {
		h.UnhealthyAfter = DefaultAfter
	}
	if h.HealthyAfter == 0 {
		h.HealthyAfter = DefaultAfter
	}
	if len(h.Statuses) == 0 {
		h.Statuses = DefaultStatuses()
	}
	switch {
	case !IsPath(h.Path):
		return h, fmt.Errorf("upstream: Health.Path must be a path such as /healthz, got %q", h.Path)
	case h.Every < 0:
		return h, fmt.Errorf("upstream: Health.Every must be positive, got %v", h.Every)
	case h.Timeout < 0:
		return h, fmt.Errorf("upstream: Health.Timeout must be positive, got %v", h.Timeout)
	case h.UnhealthyAfter < 0:
		return h, fmt.Errorf("upstream: Health.UnhealthyAfter must be positive, got %d", h.UnhealthyAfter)
	case h.HealthyAfter < 0:
		return h, fmt.Errorf("upstream: Health.HealthyAfter must be positive, got %d", h.HealthyAfter)
	}
	return h, nil
}

// IsPath reports whether s is a path, maybe with a query, that can be asked for.
func IsPath(s string) bool {
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") {
		return false
	}
	u, err := url.ParseRequestURI(s)
	return err == nil && u.RequestURI() == s
}

// A condition is what is known of one copy.
type condition struct {
	sick bool
	run  int // checks in a row that say otherwise
}

// step returns c after one more check.
func (h Health) step(c condition, ok bool) condition {
	if ok != c.sick {
		return condition{sick: c.sick}
	}
	after := h.UnhealthyAfter
	if c.sick {
		after = h.HealthyAfter
	}
	if c.run++; c.run < after {
		return c
	}
	return condition{sick: !c.sick}
}

// Watch checks all copies until stop is called, which waits for the end of that.
func (p *Pool) Watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	if h := p.config.Health; h != nil {
		for _, b := range p.backends {
			wg.Go(func() { p.watch(ctx, b, *h) })
		}
	}
	return func() { cancel(); wg.Wait() }
}

func (p *Pool) watch(ctx context.Context, b *backend, h Health) {
	var c condition
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for {
		why := b.check(ctx, h)
		if ctx.Err() != nil {
			return
		}
		next := h.step(c, why == "")
		if next.sick != c.sick {
			b.unhealthy.Store(next.sick)
			if p.config.Changed != nil {
				p.config.Changed(b.url, !next.sick, why)
			}
		}
		c = next
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check returns why b is not healthy, "" if it is.
func (b *backend) check(ctx context.Context, h Health) string {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.scheme+"://"+b.host+h.Path, nil)
	if err != nil {
		return err.Error()
	}
	r.Close = !b.multiplex
	r.Header.Set("User-Agent", "doorward-health")
	c, err := b.dial(ctx)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	res, err := c.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if !h.Statuses.Contains(res.StatusCode) {
		return fmt.Sprintf("status %d", res.StatusCode)
	}
	return ""
}
